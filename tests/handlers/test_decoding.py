"""One item as it came becomes text or image bytes, or a 4xx that says why not."""

import base64
import io
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from handlers.decoding import image_bytes_of, text_of
from handlers.errors import (
    MalformedRequest,
    RequestError,
    TooLarge,
    UnprocessableInstance,
    UnsupportedMedia,
)
from handlers.requests import Item, Request, items

LIMIT = 100
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(30))
PNG_BASE64 = base64.b64encode(PNG).decode()


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (Item("hi"), "hi"),
        (Item("hi", "text/plain"), "hi"),
        (Item(b"hi"), "hi"),
        (Item("姓名 😀".encode()), "姓名 😀"),
        (Item(b"caf\xe9", "text/plain", "latin-1"), "café"),
        (Item("caf\xe9".encode("utf-16"), "text/plain", "utf-16"), "café"),
        (Item(b"hi", "application/octet-stream"), "hi"),
        (Item("  kept \n as it is "), "  kept \n as it is "),
        (Item("\u202eमुझे"), "\u202eमुझे"),
        (Item("\u200b.\u200b"), "\u200b.\u200b"),
        (Item("\ufeffe\u0301 \ufb01 \x00"), "\ufeffe\u0301 \ufb01 \x00"),
        (Item("\ue000"), "\ue000"),
        (Item("\u0301"), "\u0301"),
        (Item("0"), "0"),
    ],
)
def test_text_comes_through_unchanged(item: Item, text: str) -> None:
    """pytorch/serve#1922, aws/sagemaker-python-sdk#4869: str and bytes alike."""
    assert text_of(item, LIMIT) == text


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (Item(""), UnprocessableInstance),
        (Item(b""), UnprocessableInstance),
        (Item(" \t\r\n\u3000\xa0"), UnprocessableInstance),
        (Item("\u200b"), UnprocessableInstance),
        (Item("\u200b \u200d\u2060\ufeff\u00ad\u202e\x00\x1b\u2028\u2029"), UnprocessableInstance),
        (Item(0), UnprocessableInstance),
        (Item(False), UnprocessableInstance),
        (Item(1.5), UnprocessableInstance),
        (Item(None), UnprocessableInstance),
        (Item([]), UnprocessableInstance),
        (Item(["a"]), UnprocessableInstance),
        (Item({}), UnprocessableInstance),
        (Item({"text": "a"}), UnprocessableInstance),
        (Item(b"\xff\xfe\xfd"), MalformedRequest),
        (Item(b"\xc3("), MalformedRequest),
        (Item("half a pair \ud800"), MalformedRequest),
        (Item(b"a", "text/plain", "utf-16"), MalformedRequest),
        (Item(b"caf\xc3\xa9", "text/plain", "ascii"), MalformedRequest),
        (Item(b"a", "text/plain", "no-such-charset"), UnsupportedMedia),
        (Item(b"a", "text/plain", "hex"), UnsupportedMedia),
        (Item(b"a", "text/plain", "utf\x008"), UnsupportedMedia),
        (Item(PNG, "image/png"), UnsupportedMedia),
        (Item(b"RIFF", "audio/wav"), UnsupportedMedia),
        (Item(b"RIFF", "video/mp4"), UnsupportedMedia),
        (Item("a" * (LIMIT + 1)), TooLarge),
        (Item(b"a" * (LIMIT + 1)), TooLarge),
        (Item("é" * (LIMIT // 2 + 1)), TooLarge),
        (Item(b"\xff" * (LIMIT + 1)), TooLarge),
    ],
)
def test_what_is_no_text_is_refused(item: Item, error: type[RequestError]) -> None:
    """pytorch/serve#1225, pytorch/serve#1142: a reason and a 4xx."""
    with pytest.raises(error) as caught:
        text_of(item, LIMIT)
    assert type(caught.value) is error


def test_the_limit_counts_utf8_bytes_and_is_allowed_itself() -> None:
    assert text_of(Item("é" * (LIMIT // 2)), LIMIT) == "é" * (LIMIT // 2)
    assert text_of(Item(b"a" * LIMIT), LIMIT) == "a" * LIMIT
    assert text_of(Item("é".encode("latin-1") * 60, "text/plain", "latin-1"), 120) == "é" * 60
    with pytest.raises(TooLarge):
        text_of(Item("é".encode("latin-1") * 60, "text/plain", "latin-1"), 119)


@pytest.mark.parametrize(
    ("value", "named"),
    [
        (True, "a boolean"),
        (0, "a number"),
        (0.5, "a number"),
        (None, "null"),
        ([], "a list"),
        ({}, "an object without text, data, inputs, b64 or instances"),
    ],
)
def test_the_message_names_the_json_type(value: Any, named: str) -> None:
    with pytest.raises(UnprocessableInstance) as text_error:
        text_of(Item(value), LIMIT)
    assert str(text_error.value) == f"A text must be a string, not {named}."
    with pytest.raises(UnprocessableInstance) as image_error:
        image_bytes_of(Item(value), LIMIT)
    assert str(image_error.value) == f"An image must be file bytes or a base64 string, not {named}."


@pytest.mark.parametrize(
    "item",
    [
        Item(PNG),
        Item(PNG, "image/png"),
        Item(PNG, "application/octet-stream"),
        Item(PNG_BASE64),
        Item(PNG_BASE64, "application/json"),
        Item(PNG_BASE64.encode()),
        Item(f"data:image/png;base64,{PNG_BASE64}".encode()),
        Item(PNG_BASE64[:20] + "\r\n" + PNG_BASE64[20:]),
        Item(f"data:image/png;base64,{PNG_BASE64}"),
        Item(f"data:image/png;name=a;base64,{PNG_BASE64}"),
        Item(f"data:;base64,{PNG_BASE64}", "application/json"),
    ],
)
def test_every_form_of_an_image_gives_the_same_bytes(item: Item) -> None:
    """pytorch/serve#1019"""
    assert image_bytes_of(item, LIMIT) == PNG


@pytest.mark.parametrize("value", [PNG_BASE64, {"b64": PNG_BASE64}, {"data": PNG_BASE64}, {"inputs": PNG_BASE64}])
def test_every_json_form_of_an_image_gives_the_same_bytes(value: Any) -> None:
    """pytorch/serve#1019"""
    (item,) = items(Request({"body": value}, {"content-type": "application/json"}, "")).items
    assert image_bytes_of(item, LIMIT) == PNG


@pytest.mark.parametrize(
    ("item", "error"),
    [
        (Item(""), UnprocessableInstance),
        (Item(b""), UnprocessableInstance),
        (Item("data:image/png;base64,"), UnprocessableInstance),
        (Item(0), UnprocessableInstance),
        (Item(None), UnprocessableInstance),
        (Item([]), UnprocessableInstance),
        (Item([1, 2]), UnprocessableInstance),
        (Item({}), UnprocessableInstance),
        (Item("not base64!"), MalformedRequest),
        (Item(b"data:image/png;base64,\xff"), MalformedRequest),
        (Item(b"QUJ"), MalformedRequest),
        (Item(base64.b64encode(b"\0" * (LIMIT + 2))), TooLarge),
        (Item("QUJ"), MalformedRequest),
        (Item("QUI=QUI="), MalformedRequest),
        (Item("姓名"), MalformedRequest),
        (Item("\ud800"), MalformedRequest),
        (Item("data:image/png,raw"), MalformedRequest),
        (Item("data:image/png;base64"), UnprocessableInstance),
        (Item(b"hi", "text/plain"), UnsupportedMedia),
        (Item("aGk=", "text/plain"), UnsupportedMedia),
        (Item(b"RIFF", "audio/wav"), UnsupportedMedia),
        (Item(b"\0" * (LIMIT + 1)), TooLarge),
        (Item(b"\0" * (LIMIT + 1), "image/png"), TooLarge),
        (Item(base64.b64encode(b"\0" * (LIMIT + 2)).decode()), TooLarge),
    ],
)
def test_what_is_no_image_is_refused(item: Item, error: type[RequestError]) -> None:
    with pytest.raises(error) as caught:
        image_bytes_of(item, LIMIT)
    assert type(caught.value) is error


def test_base64_that_is_too_long_is_refused_before_it_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    def decode(*args: Any, **kwargs: Any) -> bytes:
        raise AssertionError("decoded")

    monkeypatch.setattr(base64, "b64decode", decode)
    with pytest.raises(TooLarge):
        image_bytes_of(Item("A" * (LIMIT * 4 // 3 + 4)), LIMIT)
    with pytest.raises(TooLarge):
        image_bytes_of(Item("data:image/png;base64," + "!" * (LIMIT * 2)), LIMIT)


def test_only_what_forms_send_untyped_may_be_base64() -> None:
    assert image_bytes_of(Item(PNG_BASE64.encode(), "image/png"), LIMIT) == PNG_BASE64.encode()


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF"])
@given(width=st.integers(1, 40), height=st.integers(1, 40), colour=st.integers(0, 255))
def test_no_image_file_is_taken_for_base64(kind: str, width: int, height: int, colour: int) -> None:
    Image.new("L", (width, height), colour).save(stream := io.BytesIO(), kind)
    assert image_bytes_of(Item(stream.getvalue()), 100_000) == stream.getvalue()


@given(st.binary(min_size=1, max_size=LIMIT - 3))
def test_base64_of_any_bytes_gives_those_bytes(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert image_bytes_of(Item(text), LIMIT) == data
    assert image_bytes_of(Item(f"data:image/x;base64,{text}"), LIMIT) == data


@given(st.one_of(st.text(), st.binary(), st.none(), st.floats(), st.lists(st.text())), st.text(), st.text())
def test_any_item_is_decoded_or_refused(value: Any, media_type: str, charset: str) -> None:
    item = Item(value, media_type, charset)
    text, image = attempt(text_of, item), attempt(image_bytes_of, item)
    assert text in {400, 413, 415, 422} or (isinstance(text, str) and text.strip() and len(text.encode()) <= LIMIT)
    assert image in {400, 413, 415, 422} or (isinstance(image, bytes) and 0 < len(image) <= LIMIT)


def attempt(decode: Callable[[Item, int], object], item: Item) -> object:
    """What is decoded, or the status of the refusal."""
    try:
        return decode(item, LIMIT)
    except RequestError as error:
        return error.status


@pytest.mark.parametrize("secret", ["swordfish-1", "pa55\ud800"])
def test_no_message_quotes_the_request(secret: str) -> None:
    refused = [
        Item({"a": secret}),
        Item([secret]),
        Item(secret * 50),
        Item(secret.encode("utf-8", "replace"), "image/x"),
    ]
    for item in refused:
        with pytest.raises(RequestError) as caught:
            text_of(item, LIMIT)
        assert secret not in str(caught.value)
    for value in (f"data:{secret},x", f"!{secret}", {"a": secret}):
        with pytest.raises(RequestError) as caught:
            image_bytes_of(Item(value), LIMIT)
        assert secret not in str(caught.value)
