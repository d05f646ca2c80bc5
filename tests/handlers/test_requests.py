"""What TorchServe hands over becomes instances: every row of the table in handlers/requests.py."""

from collections.abc import Mapping
from typing import Any

import pytest
from ts.context import Context, RequestProcessor

from handlers.decoding import text_of
from handlers.errors import MalformedRequest, UnprocessableInstance, UnsupportedMedia
from handlers.requests import Item, Items, Request, items

JSON = "application/json"


def request(fields: Mapping[str, Any], content_type: str | None = None) -> Request:
    return Request(fields, {} if content_type is None else {"content-type": content_type}, "id-1")


def body(value: Any, content_type: str | None = None) -> Items:
    return items(request({"body": value}, content_type))


def many(*values: Any, envelope: str | None = None) -> Items:
    return Items([Item(value) for value in values], many=True, envelope=envelope)


@pytest.mark.parametrize(
    ("value", "content_type", "expected"),
    [
        (bytearray(b"hi"), None, Item(b"hi")),
        (bytearray(b"hi"), "application/octet-stream", Item(b"hi", "application/octet-stream")),
        (bytearray(b"\xff\xd8"), "image/jpeg", Item(b"\xff\xd8", "image/jpeg")),
        ("hi", "text/plain", Item("hi", "text/plain")),
        (bytearray(b"\xe9"), "text/plain; charset=Latin-1", Item(b"\xe9", "text/plain", "latin-1")),
        (bytearray(b""), None, Item(b"")),
    ],
)
def test_a_raw_body_is_one_instance_under_its_media_type(value: Any, content_type: str | None, expected: Item) -> None:
    assert body(value, content_type) == Items([expected])


@pytest.mark.parametrize("value", ["hi", "", "[1]", 0, False, None, 1.5, True])
def test_a_json_scalar_is_one_instance(value: Any) -> None:
    assert body(value, JSON) == Items([Item(value, JSON)])


@pytest.mark.parametrize("key", ["text", "data", "inputs", "b64"])
def test_a_json_object_gives_the_value_of_its_key(key: str) -> None:
    """pytorch/serve#1004, pytorch/serve#1267"""
    assert body({key: "hi", "other": 1}, JSON) == Items([Item("hi", JSON)])


@pytest.mark.parametrize("key", ["text", "data", "inputs", "b64"])
def test_a_list_under_the_key_is_many_instances(key: str) -> None:
    assert body({key: ["a", {"text": "b"}, 3]}, JSON) == many("a", "b", 3)


def test_a_json_list_is_one_instance_for_each_element() -> None:
    """pytorch/serve#2068, pytorch/serve#1394"""
    assert body(["a", {"data": "b"}, None, ["c"]], JSON) == many("a", "b", None, ["c"])


def test_a_list_of_one_is_still_answered_with_a_list() -> None:
    """pytorch/serve#730, pytorch/serve#2853"""
    assert body(["a"], JSON) == many("a")


def test_kserve_instances_are_answered_in_predictions() -> None:
    """pytorch/serve#2158, pytorch/serve#1302, pytorch/serve#911"""
    assert body({"instances": ["a", {"b64": "b"}, {"data": "c"}]}, JSON) == many("a", "b", "c", envelope="predictions")


@pytest.mark.parametrize("value", ["a", {"text": "a"}, None, 0])
def test_instances_that_are_no_list_are_refused(value: Any) -> None:
    with pytest.raises(UnprocessableInstance, match="must be a list"):
        body({"instances": value}, JSON)


@pytest.mark.parametrize("value", [{}, {"txt": "a"}, {"TEXT": "a"}])
def test_an_object_without_a_known_key_is_left_for_the_decoder_to_judge(value: Any) -> None:
    assert body(value, JSON) == Items([Item(value, JSON)])
    assert body(["a", value], JSON) == many("a", value)


@pytest.mark.parametrize(
    "content_type", [JSON, "Application/JSON", "application/json; charset=utf-8", "application/vnd.x+json"]
)
@pytest.mark.parametrize("buffer", [bytearray, bytes])
def test_json_that_torchserve_did_not_decode_is_decoded(content_type: str, buffer: type[bytes | bytearray]) -> None:
    """pytorch/serve#1839, aws/sagemaker-python-sdk#3341: with decode_input_request=false every body is a bytearray."""
    assert body(buffer(b'["a", {"text": "b"}]'), content_type) == many("a", "b")
    assert [item.value for item in body(buffer('"h\u00e9"'.encode()), content_type).items] == ["h\u00e9"]


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"{'a': 1}", b"\xff\xfe\xfd", b"[" * 100_000, b'"\xff"', b"1" * 5000, b"nonsense"],
    ids=lambda data: repr(data[:10]),
)
def test_malformed_json_is_a_malformed_request(data: bytes) -> None:
    with pytest.raises(MalformedRequest, match="not valid JSON") as caught:
        body(bytearray(data), JSON)
    assert caught.value.status == 400


def test_a_form_of_several_fields_is_one_instance_for_each() -> None:
    fields = {"a": bytearray(b"x"), "b": "y", "c": {"text": "z"}}
    assert items(request(fields, "multipart/form-data; boundary=q")) == many(b"x", "y", "z")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (bytearray(b"\x89PNG"), Items([Item(b"\x89PNG")])),
        ("hi", Items([Item("hi")])),
        ({"text": "hi"}, Items([Item("hi")])),
        (["a", "b"], many("a", "b")),
        (bytearray(b""), Items([Item(b"")])),
    ],
)
@pytest.mark.parametrize("name", ["data", "file", "anything"])
def test_a_form_of_one_field_is_its_value(name: str, value: Any, expected: Items) -> None:
    assert items(request({name: value}, "multipart/form-data; boundary=q")) == expected


def form(*fields: tuple[str, Any, str]) -> Items:
    """The items of a form's fields: name, value as TorchServe has it, and the part's Content-Type."""
    values, parts = {name: value for name, value, _ in fields}, {name: kind for name, _, kind in fields}
    return items(Request(values, {"content-type": "multipart/form-data; boundary=q"}, "id-1", parts))


@pytest.mark.parametrize(
    ("value", "content_type", "expected"),
    [
        (bytearray(b"\x89PNG"), "image/png", Items([Item(b"\x89PNG", "image/png")])),
        (bytearray(b"caf\xe9"), "text/plain; charset=latin-1", Items([Item(b"caf\xe9", "text/plain", "latin-1")])),
        (bytearray(b'["a", "b"]'), "application/json; charset=utf-8", many("a", "b")),
        (bytearray(b'{"instances": ["a"]}'), "application/json", many("a", envelope="predictions")),
        ("hi", "text/plain", Items([Item("hi", "text/plain")])),
    ],
)
@pytest.mark.parametrize("name", ["data", "body"])
def test_a_form_of_one_field_is_a_body_under_the_fields_own_content_type(
    name: str, value: Any, content_type: str, expected: Items
) -> None:
    """TorchServe decodes a part's JSON only where its Content-Type has no parameters."""
    assert form((name, value, content_type)) == expected


def test_the_parts_of_a_form_are_read_each_under_its_own_content_type() -> None:
    found = form(
        ("body", bytearray(b"hi"), ""),
        ("latin", bytearray(b"caf\xe9"), "text/plain; charset=latin-1"),
        ("json", bytearray(b'{"text": "a"}'), "application/json; charset=utf-8"),
        ("photo", bytearray(b"\xff\xd8"), "image/jpeg"),
        ("list", ["a"], JSON),
    )
    assert found == Items(
        [
            Item(b"hi"),
            Item(b"caf\xe9", "text/plain", "latin-1"),
            Item("a", JSON),
            Item(b"\xff\xd8", "image/jpeg"),
            Item(["a"], JSON),
        ],
        many=True,
    )


def test_a_part_that_is_no_json_is_told_in_its_place() -> None:
    first, broken, last = form(("a", "x", ""), ("b", bytearray(b"{"), "application/json; v=1"), ("c", "z", "")).items
    assert (first, last) == (Item("x"), Item("z"))
    assert isinstance(broken.value, MalformedRequest)


@pytest.mark.parametrize("charset", ["utf-16-le", "UTF-16BE", "iso-8859-1"])
def test_a_text_that_torchserve_read_as_utf8_is_read_in_its_own_charset(charset: str) -> None:
    """The bytes of "hi" in UTF-16LE are valid UTF-8 too."""
    data = "hi".encode(charset)
    expected = Items([Item(data, "text/plain", charset.lower())])
    assert body(data.decode("utf-8"), f"text/plain; charset={charset}") == expected


@pytest.mark.parametrize("value", ['{"text": "a"}', '["a"]', '"a"', "1", "null"])
def test_json_under_text_plain_stays_text(value: str) -> None:
    """pytorch/serve#1267"""
    assert body(value, "text/plain") == Items([Item(value, "text/plain")])
    assert body(bytearray(value.encode()), "text/plain") == Items([Item(value.encode(), "text/plain")])


@pytest.mark.parametrize("name", ["x", "model_name"])
def test_query_parameters_beside_a_body_are_no_instances(name: str) -> None:
    """`/invocations?x=y` of SageMaker gives them as fields."""
    request_ = Request({name: bytearray(b"y"), "body": bytearray(b'["a"]')}, {"content-type": JSON}, "id-1")
    assert items(request_) == many("a")


def test_no_field_at_all_is_refused_with_a_remedy() -> None:
    with pytest.raises(UnprocessableInstance, match="send it as application/json or text/plain"):
        items(request({}, "application/x-www-form-urlencoded"))


@pytest.mark.parametrize(
    ("header", "media_type", "charset"),
    [
        ("", "", "utf-8"),
        ("text/plain", "text/plain", "utf-8"),
        ("TEXT/Plain; CHARSET=UTF-16", "text/plain", "utf-16"),
        ('text/plain; charset="latin-1"', "text/plain", "latin-1"),
        ("text/plain; charset*=us-ascii'en'latin-1", "text/plain", "latin-1"),
        ("nonsense", "text/plain", "utf-8"),
        (";;;", "text/plain", "utf-8"),
    ],
)
def test_any_content_type_gives_a_media_type_and_a_charset(header: str, media_type: str, charset: str) -> None:
    assert body(b"x", header).items == [Item(b"x", media_type, charset)]


def context(*headers: Mapping[str, Any]) -> Context:
    made = Context("tiny", "/nowhere", {}, 8, None, "0.12.0")
    made.request_processor = [RequestProcessor(dict(header)) for header in headers]
    made.request_ids = {index: f"id-{index}" for index in range(len(headers))}
    return made


@pytest.mark.parametrize(
    "parameters",
    [
        "charset*0*=a; charset*=b",
        "charset*=b; charset*1=a",
        "charset*=\x00''a",
        f"charset*{'9' * 5000}=a",
        "charset=klingon",
        'charset="utf-8',
    ],
    ids=range(6),
)
def test_a_charset_that_cannot_be_read_is_unknown(parameters: str) -> None:
    """RFC 2231's parameters, out of order, are more than Python's email package can sort."""
    (item,) = body(bytearray(b"hi"), f"text/plain; {parameters}").items
    assert item.media_type == "text/plain"
    with pytest.raises(UnsupportedMedia, match="charset"):
        text_of(item, max_bytes=9)


@pytest.mark.parametrize("name", ["content-type", "Content-Type", "CONTENT-TYPE"])
def test_headers_are_found_in_any_case(name: str) -> None:
    read = Request.of({"body": b"[1]"}, context({}, {name: JSON}), 1)
    assert read.headers == {"content-type": JSON}
    assert read.request_id == "id-1"
    assert items(read) == many(1)


def test_the_headers_of_a_forms_parts_are_not_the_requests() -> None:
    headers = {"content-type": {"content-type": "image/png"}, "data": {"content-type": "text/plain"}, "Accept": "*/*"}
    read = Request.of({}, context(headers), 0)
    assert read.headers == {"accept": "*/*"}
    assert read.parts == {"content-type": "image/png", "data": "text/plain"}


def test_a_request_without_an_id_has_an_empty_one() -> None:
    made = context({})
    made.request_ids = None
    assert Request.of({}, made, 0).request_id == ""
