"""The warm-up: golden requests that the worker answers for nobody before it is ready."""

import base64
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from handlers.errors import UnprocessableInstance
from handlers.golden import MOST
from handlers.requests import Item
from tests.handlers.shouter import GOOD, GOOD_BODY, Shouter, make_root
from tests.handlers.worker import Worker


def root(directory: Path, *requests: dict[str, Any], **options: int) -> Path:
    make_root(directory, **options)
    (directory / "MAR-INF").mkdir()
    (directory / "MAR-INF/golden.json").write_text(json.dumps({"format": 1, "requests": requests}))
    return directory


def test_the_network_has_seen_golden_requests_before_the_first_client(handler: Shouter, tmp_path: Path) -> None:
    worker = Worker(handler, root(tmp_path, {"text": "one", "expect": {}}, {"json": {"text": "two"}}, {"text": "x"}))
    assert handler.batches == [["one", "two", "x"]]
    assert worker.predict(GOOD)[0].body == GOOD_BODY


def test_more_golden_requests_do_not_make_it_later(handler: Shouter, tmp_path: Path) -> None:
    Worker(handler, root(tmp_path, *({"text": str(number)} for number in range(50))))
    assert handler.batches == [[str(number) for number in range(MOST)]]


def test_what_a_limit_refuses_is_left_out(handler: Shouter, tmp_path: Path) -> None:
    Worker(handler, root(tmp_path, {"text": "much too long"}, {"text": "ok"}, max_text_bytes=5))
    assert handler.batches == [["ok"]]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [("bad-decode", "KeyError"), ("bad-predict", "RuntimeError"), ("bad-encode", "ValueError"), ("nan", "ValueError")],
)
def test_a_model_that_cannot_answer_its_golden_requests_is_not_served(
    handler: Shouter, tmp_path: Path, bad: str, reason: str
) -> None:
    with pytest.raises(RuntimeError, match=f"^Model failed to load: {reason}: "):
        Worker(handler, root(tmp_path, {"text": "ok"}, {"text": bad}))


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"requests": 5}', '{"requests": [5]}'])
def test_a_broken_golden_json_is_said_at_load(handler: Shouter, tmp_path: Path, content: str) -> None:
    (root(tmp_path) / "MAR-INF/golden.json").write_text(content)
    with pytest.raises(RuntimeError, match=r"^Model failed to load: "):
        Worker(handler, tmp_path)


def test_an_image_comes_as_a_client_sends_it(tmp_path: Path) -> None:
    seen: list[Item] = []

    class Bytes(Shouter):
        def decode(self, item: Item) -> str:
            seen.append(item)
            return "picture"

    Worker(Bytes(), root(tmp_path, {"image": base64.b64encode(b"\x89PNG").decode()}))
    assert seen == [Item(b"\x89PNG", "application/octet-stream")]


def test_what_is_refused_while_serving_is_refused_at_load(tmp_path: Path) -> None:
    class Refusing(Shouter):
        def encode(self, result: str) -> object:
            raise UnprocessableInstance("No.")

    Worker(Refusing(), root(tmp_path, {"text": "one"}, {"json": []}, {"json": {"instances": 5}}))


def test_a_panic_of_a_library_is_said_at_load(tmp_path: Path) -> None:
    class Panic(BaseException):
        """As pyo3's, no Exception."""

    class Panicking(Shouter):
        def predict(self, instances: Sequence[str]) -> Sequence[str]:
            raise Panic("poisoned")

    with pytest.raises(RuntimeError, match=r"^Model failed to load: Panic: poisoned"):
        Worker(Panicking(), root(tmp_path, {"text": "one"}))


def test_a_long_list_is_cut_to_what_a_request_may_hold(
    handler: Shouter, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "marsmith"):
        Worker(handler, root(tmp_path, {"json": [str(number) for number in range(500)]}, max_instances=20))
    assert [len(batch) for batch in handler.batches] == [16, 4]
    assert "warmed up by 20 golden instances" in caplog.text


def test_no_more_is_begun_than_in_the_time_of_a_batch(handler: Shouter, tmp_path: Path) -> None:
    Worker(handler, root(tmp_path, {"text": "one"}), {"responseTimeout": 1e-9})
    assert handler.batches == []
