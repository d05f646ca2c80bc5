"""The warm-up: golden requests that the worker answers for nobody before it is ready."""

import json
from pathlib import Path
from typing import Any

import pytest

from handlers.golden import MOST
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
