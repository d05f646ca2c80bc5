"""One item as it came -> text, or the bytes of an image file."""

from __future__ import annotations

import base64
import binascii
import re
import unicodedata

from handlers.errors import MalformedRequest, TooLarge, UnprocessableInstance, UnsupportedMedia
from handlers.requests import KEYS, Item

# Python has slower codecs and some that are no charsets at all; a client may not choose those.
CHARSET = re.compile(
    r"(us-)?ascii|utf-?(8|16|32)([-_]?[lb]e)?|iso-?8859-\d{1,2}|latin-?1|windows-125\d|cp125\d", re.IGNORECASE
)
BASE64_BYTES_PER_CHARACTER = 3 / 4
# No image file is written in these characters alone.
BASE64_TEXT = re.compile(rb"data:.*|[A-Za-z0-9+/=\s]+", re.DOTALL)
# Control and format characters and separators: nothing that a reader would see.
INVISIBLE = {"Cc", "Cf", "Zl", "Zp", "Zs"}


def text_of(item: Item, max_bytes: int) -> str:
    """The item's text as it came, never empty or blank, of at most `max_bytes` as UTF-8.

    Raises UnsupportedMedia, MalformedRequest, UnprocessableInstance or TooLarge.
    """
    value = item.value
    if isinstance(value, bytes):
        if item.media_type.startswith(("image/", "audio/", "video/")):
            raise UnsupportedMedia(f"This model reads text, not {item.media_type.partition('/')[0]} data.")
        _check_size(len(value), max_bytes)
        value = _decode(value, item.charset)
    if not isinstance(value, str):
        raise UnprocessableInstance(f"A text must be a string, not {_json_type(value)}.")
    try:
        _check_size(len(value.encode("utf-8")), max_bytes)
    except UnicodeEncodeError:
        raise MalformedRequest("The text has half a surrogate pair in it, which is no character.") from None
    if all(unicodedata.category(character) in INVISIBLE for character in value):
        raise UnprocessableInstance("The text is empty.")
    return value


def image_bytes_of(item: Item, max_bytes: int) -> bytes:
    """The bytes of an image file, sent as they are, as base64 or as a data URL; at most `max_bytes`.

    Bytes without a media type are what forms send, so they too may be base64.

    Raises UnsupportedMedia, MalformedRequest, UnprocessableInstance or TooLarge.
    """
    value = item.value
    if item.media_type.startswith(("text/", "audio/", "video/")):
        raise UnsupportedMedia(f"This model reads images, not {item.media_type.partition('/')[0]} data.")
    if isinstance(value, bytes) and not item.media_type and BASE64_TEXT.fullmatch(value):
        value = value.decode("latin-1")
    if isinstance(value, str):
        value = _from_base64(value, max_bytes)
    if not isinstance(value, bytes):
        raise UnprocessableInstance(f"An image must be file bytes or a base64 string, not {_json_type(value)}.")
    if not value:
        raise UnprocessableInstance("The image is empty.")
    _check_size(len(value), max_bytes)
    return value


def _from_base64(text: str, max_bytes: int) -> bytes:
    if text.startswith("data:"):
        header, _, text = text.partition(",")
        if not header.endswith(";base64"):
            raise MalformedRequest("The data URL is not base64.")
    _check_size(int(len(text) * BASE64_BYTES_PER_CHARACTER), max_bytes)
    try:
        return base64.b64decode("".join(text.split()), validate=True)
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
