"""What a body is, by its Content-Type, its Content-Encoding and, where it has no type, by what it plainly is."""

import gzip
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from handlers import encodings
from handlers.errors import MalformedRequest, TooLarge
from handlers.food import FoodHandler
from handlers.work import Work
from tests.handlers.shouter import between
from tests.handlers.transformers_reference import Reference
from tests.handlers.worker import Answer, Part, Post, Worker

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
LINES = (
    "application/jsonlines",
    "application/x-jsonlines",
    "application/jsonl",
    "application/json-lines",
    "application/x-ndjson",
    "application/ndjson",
    "text/jsonl",
    "text/x-ndjson",
    "Application/JSONLines; charset=utf-8",
)


@pytest.fixture(params=["true", "false"], autouse=True)
def _decoding(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, worker: Worker) -> None:
    """Whether TorchServe reads JSON and texts before the handler does, once that is loaded: nobody outside can tell."""
    monkeypatch.setenv("TS_DECODE_INPUT_REQUEST", request.param)


@pytest.fixture(scope="module")
def images(image_root: Path) -> Worker:
    return Worker(FoodHandler(), image_root)


def lines_of(answer: Answer) -> list[Any]:
    assert answer.content_type.startswith("application/jsonlines")
    assert answer.body.endswith(b"\n")
    return [json.loads(line) for line in answer.body.decode().split("\n")[:-1]]


@pytest.mark.parametrize("media_type", LINES)
def test_json_lines_are_answered_line_by_line(worker: Worker, media_type: str) -> None:
    """SageMaker's Batch Transform joins lines of answers with lines of requests."""
    body = b'{"text": "a"}\r\n"b"\n\n{"text": \n7\n["c"]\n{"data": "refuse"}\n"caf\xc3\xa9"'
    (answer,) = between(worker, Post(body, media_type))
    assert answer.status == 200
    values = lines_of(answer)
    assert [value.get("error", {}).get("code", 200) for value in values] == [200, 200, 400, 400, 422, 422, 415, 200]
    assert [values[0], values[1], values[-1]] == [{"shout": "A"}, {"shout": "B"}, {"shout": "CAFÉ"}]


@pytest.mark.parametrize(
    ("body", "count"), [(b'"a"', 1), (b'"a"\n', 1), (b'"a"\r\n', 1), (b'\xef\xbb\xbf"a"\n"b"\n', 2), (b'"a\\nb"\n', 1)]
)
def test_a_last_line_may_end_or_not(worker: Worker, body: bytes, count: int) -> None:
    (answer,) = between(worker, Post(body, "application/jsonlines"))
    assert len(lines_of(answer)) == count


@pytest.mark.parametrize(("body", "status"), [(b"", 422), (b"\n" * 100, 413), (b'"a"\n' * 65, 413)])
def test_no_line_and_too_many_are_refused(worker: Worker, body: bytes, status: int) -> None:
    (answer,) = between(worker, Post(body, "application/x-ndjson"))
    assert (answer.status, answer.error["code"]) == (status, status)


def test_a_field_of_json_lines_is_a_body_of_them(worker: Worker) -> None:
    (answer,) = between(worker, Post.form(Part("file", b'"a"\n"b"\n', "application/jsonlines")))
    assert lines_of(answer) == [{"shout": "A"}, {"shout": "B"}]


@pytest.mark.parametrize(
    "media_type",
    [JSON, "text/json", "text/x-json", "application/x-json", "application/vnd.api+json", "TEXT/JSON; charset=utf-8"],
)
def test_json_is_json_whatever_it_is_called(worker: Worker, media_type: str) -> None:
    good, broken = between(worker, Post(b'{"text": "caf\xc3\xa9"}', media_type), Post(b'{"text"', media_type))
    assert good.value == {"shout": "CAFÉ"}
    assert (broken.status, broken.error["type"]) == (400, "malformed")


@pytest.mark.parametrize("media_type", ["", "application/octet-stream", "binary/octet-stream"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"text": "a"}', {"shout": "A"}),
        (b' \n{ "text": "a"}', {"shout": "A"}),
        (b'["a", {"text": "b"}]', [{"shout": "A"}, {"shout": "B"}]),
        (b'{"instances": ["a"]}', {"predictions": [{"shout": "A"}]}),
        (b"[12:30] hello", {"shout": "[12:30] HELLO"}),
        (b"{curly}", {"shout": "{CURLY}"}),
        (b'"quoted"', {"shout": '"QUOTED"'}),
    ],
)
def test_a_body_without_a_type_is_json_where_it_plainly_is(
    worker: Worker, media_type: str, body: bytes, expected: Any
) -> None:
    (answer,) = between(worker, Post(body, media_type))
    assert (answer.status, answer.value) == (200, expected)


@pytest.mark.parametrize("body", [b'{"text": "a"', b'["a", ', b'{"text": "a"}\n{"text": "b"}'])
def test_broken_json_without_a_type_is_no_text(worker: Worker, body: bytes) -> None:
    (answer,) = between(worker, Post(body, "application/octet-stream"))
    assert (answer.status, answer.error["type"]) == (415, "unsupported_media")
    assert "application/json" in answer.error["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {'{"text":"see https://example.org/?v': '1"}'},
        {'{"text":"a?v': "1", "x": '2"}'},
        {' {"text":"a': ' b"}'},
        {'["a': 'b"]'},
        {"is 1 1": "2?"},
        {"What a day! I like =": ""},
        {"x" * 101: "y"},
    ],
    ids=range(7),
)
def test_json_and_text_that_curl_sent_as_a_form_are_refused_with_a_hint(
    worker: Worker, fields: Mapping[str, str]
) -> None:
    """`curl -d` without a Content-Type: what stood behind `=`, `&`, `+` and `%` cannot be told any more."""
    parts = tuple(Part(name, value.encode(), "") for name, value in fields.items())
    (answer,) = between(worker, Post(parts=parts, content_type=FORM))
    assert (answer.status, answer.error["type"]) == (415, "unsupported_media")
    assert "Content-Type: application/json" in answer.error["message"]


@pytest.mark.parametrize("name", ["text", "user.comment", "item[0]", "a-b", "été", "x:y"])
def test_a_form_that_is_one_is_read(worker: Worker, name: str) -> None:
    (answer,) = between(worker, Post(parts=(Part(name, b"a=b & c", ""),), content_type=FORM))
    assert answer.value == {"shout": "A=B & C"}


UNREAD = (
    "application/xml",
    "application/pdf",
    "application/x-npy",
    "application/x-protobuf",
    "application/msgpack",
    "application/vnd.ms-excel",
    "application/json-seq",
    "text/csv",
    "text/tab-separated-values",
    "audio/wav",
    "font/woff",
)
READ_AS_TEXT = ("text/plain", "text/html", "text/markdown", "text/x-anything")


@pytest.mark.parametrize("media_type", UNREAD)
def test_what_is_declared_as_something_else_is_no_text(worker: Worker, media_type: str) -> None:
    body, part = between(worker, Post(b"hello", media_type), Post.form(Part("a", b"hi"), Part("b", b"x", media_type)))
    assert (body.status, body.error["type"]) == (415, "unsupported_media")
    assert part.value[0] == {"shout": "HI"}
    assert part.value[1]["error"]["code"] == 415


@pytest.mark.parametrize("media_type", READ_AS_TEXT)
def test_other_texts_are_texts(worker: Worker, media_type: str) -> None:
    (answer,) = between(worker, Post(b"<b>hello</b>", media_type))
    assert answer.value == {"shout": "<B>HELLO</B>"}


@pytest.mark.parametrize("media_type", [*UNREAD, *READ_AS_TEXT])
def test_an_image_model_reads_none_of_them(images: Worker, media_type: str) -> None:
    (answer,) = images.predict(Post(b"GIF89a", media_type))
    assert (answer.status, answer.error["type"]) == (415, "unsupported_media")


@pytest.mark.parametrize("media_type", ["image/anything", "application/x-image", "application/octet-stream", ""])
def test_an_image_model_reads_images_however_they_are_called(images: Worker, media_type: str) -> None:
    (answer,) = images.predict(Post(b"GIF89a", media_type))
    assert (answer.status, answer.error["type"]) == (400, "malformed")  # it was tried


def test_the_binary_tensors_of_kserve_are_refused(worker: Worker) -> None:
    header = {"inputs": [{"name": "x", "shape": [1], "datatype": "BYTES", "parameters": {"binary_data_size": 9}}]}
    body = json.dumps(header).encode() + b"\x05\x00\x00\x00hello"
    (answer,) = between(worker, Post(body, headers={"Inference-Header-Content-Length": "99"}))
    assert (answer.status, answer.error["type"]) == (415, "unsupported_media")
    assert "Binary tensors" in answer.error["message"]


def raw_deflate(data: bytes) -> bytes:
    compress = zlib.compressobj(wbits=-15)
    return compress.compress(data) + compress.flush()


BODY = b'{"text": "caf\xc3\xa9"}'
ENCODED = {
    "gzip": gzip.compress(BODY),
    "GZIP": gzip.compress(BODY),
    " x-gzip ": gzip.compress(BODY[:5]) + gzip.compress(b"") + gzip.compress(BODY[5:]),
    "deflate": zlib.compress(BODY),
    "Deflate": raw_deflate(BODY),
    "identity": BODY,
    "": BODY,
}


@pytest.mark.parametrize("encoding", ENCODED)
@pytest.mark.parametrize("media_type", [JSON, "application/vnd.x+json", ""])
def test_a_compressed_body_is_inflated(worker: Worker, encoding: str, media_type: str) -> None:
    (answer,) = between(worker, Post(ENCODED[encoding], media_type, headers={"Content-Encoding": encoding}))
    assert (answer.status, answer.value) == (200, {"shout": "CAFÉ"})


def test_texts_and_lines_are_inflated_too(worker: Worker) -> None:
    gzipped = {"content-encoding": "gzip"}
    text, lines = between(
        worker,
        Post(gzip.compress(b"caf\xe9"), "text/plain; charset=latin-1", headers=gzipped),
        Post(gzip.compress(b'"a"\n"b"'), "application/jsonlines", headers=gzipped),
    )
    assert text.value == {"shout": "CAFÉ"}
    assert len(lines_of(lines)) == 2


@pytest.mark.parametrize("encoding", ["br", "zstd", "compress", "gzip, gzip", "gzip,deflate", "utf-8", "aws-chunked"])
def test_other_encodings_are_refused_by_name(worker: Worker, encoding: str) -> None:
    (answer,) = between(worker, Post(BODY, JSON, headers={"Content-Encoding": encoding}))
    assert (answer.status, answer.error["type"]) == (415, "unsupported_media")
    assert "Content-Encoding" in answer.error["message"]


def test_a_form_is_not_inflated(worker: Worker) -> None:
    form = Post(parts=(Part("text", b"a"),), content_type=FORM, headers={"Content-Encoding": "gzip"})
    (answer,) = between(worker, form)
    assert (answer.status, answer.error["type"]) == (415, "unsupported_media")


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", BODY),
        ("gzip", b""),
        ("gzip", gzip.compress(BODY)[:-1]),
        ("gzip", gzip.compress(BODY)[:12]),
        ("gzip", gzip.compress(BODY) + b"x"),
        ("gzip", gzip.compress(BODY) + bytes(8)),
        ("gzip", gzip.compress(BODY)[:-8] + bytes(8)),
        ("gzip", zlib.compress(BODY)),
        ("deflate", zlib.compress(BODY)[:-1]),
        ("deflate", zlib.compress(BODY) + zlib.compress(BODY)),
        ("deflate", raw_deflate(BODY) + b"x"),
        ("deflate", b""),
    ],
    ids=range(12),
)
def test_what_is_damaged_or_not_whole_is_malformed(worker: Worker, encoding: str, body: bytes) -> None:
    (answer,) = between(worker, Post(body, JSON, headers={"Content-Encoding": encoding}))
    assert (answer.status, answer.error["type"]) == (400, "malformed")
    assert "Content-Encoding" in answer.error["message"]


def test_no_more_is_inflated_than_a_request_may_have(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "MAX_INFLATED_BYTES", 2_000_000)
    assert encodings.inflated(gzip.compress(bytes(2_000_000)), "gzip", Work()) == bytes(2_000_000)
    for bomb in (gzip.compress(bytes(2_000_001)), gzip.compress(bytes(1_000_000)) * 3, gzip.compress(bytes(5_000_000))):
        with pytest.raises(TooLarge, match="2000000 bytes"):
            encodings.inflated(bomb, "gzip", Work())
    with pytest.raises(MalformedRequest):
        encodings.inflated(gzip.compress(bytes(1000))[:-2], "gzip", Work())


def test_members_are_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 28 MB, each 20 bytes may be a file of nothing."""
    monkeypatch.setattr(encodings, "MEMBER_NS", 1_000_000)
    work = Work(milliseconds=5)
    assert encodings.inflated(gzip.compress(b"") * 5, "gzip", work) == b""
    with pytest.raises(TooLarge, match="longer than 5 ms"):
        encodings.inflated(gzip.compress(b"") * 6, "gzip", Work(milliseconds=5))


def test_a_compressed_text_gets_the_scores_of_the_text(reference: Reference) -> None:
    plain, gzipped = reference.worker.predict(
        Post(b"good day", "text/plain"),
        Post(gzip.compress(b"good day"), "text/plain", headers={"Content-Encoding": "gzip"}),
    )
    assert gzipped.body == plain.body
