"""One item as it came -> text, or the bytes of an image file."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata

from handlers.errors import MalformedRequest, TooLarge, UnprocessableInstance, UnsupportedMedia
from handlers.media import TABLES, UNTYPED, is_json, is_json_lines, is_text
from handlers.requests import KEYS, Item

# Python has slower codecs and some that are no charsets at all; a client may not choose those.
CHARSET = re.compile(
    r"(us-)?ascii|utf-?(8|16|32)([-_]?[lb]e)?|iso-?8859-\d{1,2}|latin-?1|windows-125\d|cp125\d", re.IGNORECASE
)
BASE64_BYTES_PER_CHARACTER = 3 / 4
# No image file is written in these characters alone.
BASE64_TEXT = re.compile(rb"data:.*|[A-Za-z0-9+/=\s]+", re.DOTALL)
WHITE_SPACE = b" \t\n\r\v\f"
# Control and format characters and separators: nothing that a reader would see.
INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Zs"}
# What SageMaker's own image classifier is asked with.
ANY_IMAGE = "application/x-image"
# Media types of files that a client may take for what the model reads, by what they are called.
FILES = ("image", "audio", "video")
# Nanoseconds for each byte of a text: to see whether it is blank, and to normalise its words. 200 were measured.
TEXT_NS = 250
# Nanoseconds for each character of base64: to see that it is that, and to decode it. 6 were measured.
BASE64_NS = 8


def text_of(item: Item, max_bytes: int) -> str:
    """The item's text as it came, never empty or blank, of at most `max_bytes` as UTF-8.

    Raises UnsupportedMedia, MalformedRequest, UnprocessableInstance or TooLarge.
    """
    value = item.value
    _check_text(item.media_type)
    if isinstance(value, bytes):
        _check_size(len(value), max_bytes)
        value = _decode(value, item.charset)
    if not isinstance(value, str):
        raise UnprocessableInstance(f"A text must be a string, not {_json_type(value)}.")
    _check_size(len(value), max_bytes)  # a character has at least one byte
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise MalformedRequest("The text has half a surrogate pair in it, which is no character.") from None
    _check_size(size, max_bytes)
    item.work.spend(size, TEXT_NS)
    if all(unicodedata.category(character) in INVISIBLE for character in value):
        raise UnprocessableInstance("The text is empty.")
    return value


def image_bytes_of(item: Item, max_bytes: int) -> bytes:
    """The bytes of an image file, sent as they are, as base64 or as a data URL; at most `max_bytes`.

    Bytes without a media type are what forms send, so they too may be base64.

    Raises UnsupportedMedia, MalformedRequest, UnprocessableInstance or TooLarge.
    """
    value = item.value
    _check_image(item.media_type)
    if isinstance(value, bytes) and not item.media_type and BASE64_TEXT.fullmatch(value):
        value = value.decode("latin-1")
    if isinstance(value, str):
        item.work.spend(len(value), BASE64_NS)
        value = _from_base64(value, max_bytes)
    if not isinstance(value, bytes):
        raise UnprocessableInstance(f"An image must be file bytes or a base64 string, not {_json_type(value)}.")
    if not value:
        raise UnprocessableInstance("The image is empty.")
    _check_size(len(value), max_bytes)
    return value


def _check_text(media_type: str) -> None:
    if media_type in UNTYPED or is_text(media_type) or is_json(media_type) or is_json_lines(media_type):
        return
    if media_type in TABLES:
        raise UnsupportedMedia("This model reads no tables: send each text as a line of application/jsonlines.")
    kind = media_type.partition("/")[0]
    if kind in FILES:
        raise UnsupportedMedia(f"This model reads text, not {kind} data.")
    raise UnsupportedMedia("This model reads text/plain, application/json and application/jsonlines.")


def _check_image(media_type: str) -> None:
    kind = media_type.partition("/")[0]
    if media_type in (*UNTYPED, ANY_IMAGE) or kind == "image" or is_json(media_type) or is_json_lines(media_type):
        return
    if kind in ("text", *FILES):
        raise UnsupportedMedia(f"This model reads images, not {kind} data.")
    raise UnsupportedMedia("This model reads image/jpeg and other images, application/json and application/jsonlines.")


def _from_base64(text: str, max_bytes: int) -> bytes:
    if text.startswith("data:"):
        header, _, text = text.partition(",")
        if not header.endswith(";base64"):
            raise MalformedRequest("The data URL is not base64.")
    _check_size(int(len(text) * BASE64_BYTES_PER_CHARACTER), max_bytes)
    try:
        return base64.b64decode(text.encode("ascii").translate(None, WHITE_SPACE), validate=True)
    except (binascii.Error, ValueError):
        raise MalformedRequest("The image is not valid base64.") from None


def _decode(value: bytes, charset: str) -> str:
    if not CHARSET.fullmatch(charset):
        raise UnsupportedMedia("The charset of the Content-Type is not one this model reads: send UTF-8.")
    try:
        return value.decode(charset)
    except LookupError:
        raise UnsupportedMedia("The charset of the Content-Type is unknown: send UTF-8.") from None
    except UnicodeError:
        raise MalformedRequest(f"The text is not valid {charset}.") from None


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise TooLarge(f"One instance may have at most {max_bytes} bytes.")


def _json_type(value: object) -> str:
    keyless = f"an object without {', '.join(KEYS)} or instances"
    names = {bool: "a boolean", int: "a number", float: "a number", list: "a list", dict: keyless}
    return "null" if value is None else names.get(type(value), "binary data")
