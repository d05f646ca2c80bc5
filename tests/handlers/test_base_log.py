"""What BatchHandler logs: where a fault came from, and never a word of a request."""

import logging
from pathlib import Path

import pytest

from tests.handlers import shouter
from tests.handlers.shouter import GOOD, NEIGHBOUR, Shouter, make_root, text
from tests.handlers.worker import Part, Post, Worker

SECRET = "swordfish"


def secrets() -> list[Post]:
    kinds = ["bad-decode", "bad-predict", "bad-encode", "refuse", "fine", "half \ud800"]
    return [
        *(Post.json(f"{SECRET} {kind}") for kind in kinds),
        Post.json([f"{SECRET} {kind}" for kind in kinds]),
        Post.json({SECRET: SECRET}),
        Post(SECRET.encode() + b"\xff", "text/plain; charset=utf-16"),
        Post(b'{"text": "' + SECRET.encode(), "application/vnd.x+json"),
        Post(SECRET.encode(), "image/png"),
        Post.json(SECRET * 500),
        Post.form(Part(SECRET, b"\xff"), Part("b", SECRET.encode())),
    ]


def test_no_text_of_a_request_is_logged_printed_or_echoed_in_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """kserve/kserve#1889, pytorch/serve#2162: even where an exception quotes it."""
    worker = Worker(Shouter(), make_root(tmp_path, max_text_bytes=4000))
    with caplog.at_level(logging.DEBUG):
        answers = worker.predict(*secrets())
    assert "KeyError at shouter.py:" in caplog.text
    assert "RuntimeError at shouter.py:" in caplog.text
    assert "ValueError at shouter.py:" in caplog.text
    assert SECRET not in caplog.text
    assert capfd.readouterr() == ("", "")
    assert [answer.status for answer in answers] == [500, 500, 500, 415, 200, 400, 200, 422, 200, 400, 415, 413, 200]
    assert all(SECRET.encode() not in answer.body for answer in answers), "results are in upper case, so it is an echo"


def test_the_log_names_the_line_that_failed(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    """pytorch/serve#410"""
    worker.predict(text("bad-encode"))
    (record,) = [record for record in caplog.records if record.name == "marsmith"]
    line = next(
        n for n, code in enumerate(Path(shouter.__file__).read_text().splitlines(), 1) if "raise ValueError(re" in code
    )
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"ValueError at shouter.py:{line} < base.py:")


def test_good_requests_are_not_logged_at_all(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    """kserve/kserve#1889, pytorch/serve#2162"""
    with caplog.at_level(logging.DEBUG):
        worker.predict(GOOD, NEIGHBOUR, Post(b"{", "application/vnd.x+json"))
    assert caplog.messages
    assert all(message.startswith("[METRICS]") for message in caplog.messages)
