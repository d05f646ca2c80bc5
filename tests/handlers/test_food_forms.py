"""Every form that a photo is sent in gets the answer of the bare file."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from handlers.food import FoodHandler
from tests.handlers.pictures import encode, picture
from tests.handlers.worker import Answer, Part, Post, Worker

FILE = encode(picture(64, 48))
OTHER = encode(picture(48, 64, seed=6), "JPEG")
TEXT, OTHER_TEXT = (base64.b64encode(data).decode() for data in (FILE, OTHER))


@pytest.fixture(scope="module")
def worker(image_root: Path) -> Worker:
    return Worker(FoodHandler(), image_root, {"handler": {"threads": 1}})


@pytest.fixture(scope="module")
def dishes(worker: Worker) -> list[Any]:
    """The scores of the two files, sent bare, up to what another batch may change."""
    answers = worker.predict(Post(FILE, "image/png"), Post(OTHER, "image/jpeg"))
    first, second = (scores(answer.value) for answer in answers)
    assert first != pytest.approx(second, abs=1e-2)
    return [pytest.approx(first, abs=1e-5), pytest.approx(second, abs=1e-5)]


def scores(value: Any) -> dict[str, float]:
    return {dish["label"]: dish["score"] for dish in value["dishes"]}


def v2(*data: Any, **keys: Any) -> dict[str, Any]:
    return {**keys, "inputs": [{"name": "photo", "shape": [len(data)], "datatype": "BYTES", "data": list(data)}]}


def tensor(answer: Answer) -> list[Any]:
    (output,) = answer.value["outputs"]
    return [json.loads(element) if isinstance(element, str) else element for element in output["data"]]


@pytest.mark.parametrize(
    "part",
    [
        Part("data", TEXT.encode(), ""),
        Part("data", f"data:image/png;base64,{TEXT}".encode(), ""),
        Part("anything", FILE, ""),
        Part("data", FILE, "image/png"),
        Part("data", json.dumps({"b64": TEXT}).encode(), "application/json; charset=utf-8"),
    ],
    ids=["base64", "data URL", "file", "typed file", "JSON"],
)
@pytest.mark.parametrize("decode", ["true", "false"])
def test_a_form_field(
    worker: Worker, dishes: list[Any], monkeypatch: pytest.MonkeyPatch, part: Part, decode: str
) -> None:
    """pytorch/serve#1019: a field without a Content-Type of its own is text in HTML forms, so it may be base64."""
    monkeypatch.setenv("TS_DECODE_INPUT_REQUEST", decode)
    (answer,) = worker.predict(Post.form(part))
    assert answer.status == 200
    assert scores(answer.value) == dishes[0]


def test_the_fields_of_a_form_and_a_text_among_them(worker: Worker, dishes: list[Any]) -> None:
    """pytorch/serve#1230"""
    (answer,) = worker.predict(
        Post.form(
            Part("a", FILE, "image/png"), Part("b", b"a note"), Part("c", OTHER_TEXT.encode(), ""), Part("d", b"x", "")
        )
    )
    first, note, last, junk = answer.value
    assert [scores(first), scores(last)] == dishes
    assert (note["error"]["code"], junk["error"]["code"]) == (415, 400)


def test_tensors_of_base64_strings(worker: Worker, dishes: list[Any]) -> None:
    """pytorch/serve#2158, pytorch/serve#1302, pytorch/serve#911: several requests of several photos in one batch"""
    one, two = worker.predict(
        Post.json(v2(TEXT, f"data:image/jpeg;base64,{OTHER_TEXT}", id="one")), Post.json(v2(OTHER_TEXT, "junk", 3))
    )
    assert one.value["id"] == "one"
    assert [scores(element) for element in tensor(one)] == dishes
    assert scores(tensor(two)[0]) == dishes[1]
    assert [element["error"]["code"] for element in tensor(two)[1:]] == [400, 422]


def test_tensors_of_files_by_grpc(worker: Worker, dishes: list[Any]) -> None:
    """TorchServe's gRPC endpoint makes base64 of them, and hands no headers over."""
    body = json.dumps(v2(TEXT, OTHER_TEXT, model_name="food", id="")).encode()
    (answer,) = worker.predict(Post(parts=(Part("body", body, "application/json"),)))
    assert [scores(element) for element in tensor(answer)] == dishes
