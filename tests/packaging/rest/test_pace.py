"""A busy server is asked again, by fewer at once, for a while; every input is answered or has its own error."""

import io
import json
import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from marsmith.cli.predicting import predict_to
from marsmith.errors import ClientError
from marsmith.rest import pace
from marsmith.rest.client import CONCURRENCY, NOT_SENT, Client
from marsmith.rest.pace import Pace, StoppedError, Try, retry_after_s
from tests.packaging.web import Answers, serving

QUEUE = 3
FULL = {"code": 503, "type": "ServiceUnavailableException", "message": "no worker is available to serve the request"}
FAILED = {"code": 503, "type": "InternalServerException", "message": "Prediction failed"}


class Busy(Answers):
    """A TorchServe with a queue of QUEUE, which answers 503 where more ask at once. Some texts are never answered."""

    protocol_version = "HTTP/1.1"
    lock = threading.Lock()
    waiting = 0
    most = 0
    asked: ClassVar[dict[str, int]] = {}

    @classmethod
    def reset(cls) -> None:
        cls.waiting, cls.most, cls.asked = 0, 0, {}

    def answer(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        cls = type(self)
        with cls.lock:
            cls.waiting += 1
            cls.most = max(cls.most, cls.waiting)
            cls.asked[text] = count = cls.asked.get(text, 0) + 1
            full = cls.waiting > QUEUE
        time.sleep(0.005)
        if text == "broken" or (text == "broken once" and count == 1):
            self.close_connection = True
        elif text == "failed":
            self.say(503, FAILED)
        elif full or text == "busy":
            self.say(503, FULL)
        else:
            self.say(200, {"label": text, "score": 1.0})
        with cls.lock:
            cls.waiting -= 1

    def say(self, status: int, value: Any) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(pace, "FIRST_PAUSE_S", 0.002)
    monkeypatch.setattr(pace, "LONGEST_PAUSE_S", 0.02)
    Busy.reset()
    with serving(Busy) as address:
        yield address


@pytest.mark.slow
def test_every_line_is_answered_in_its_place_however_small_the_queue(url: str) -> None:
    texts = [str(number) for number in range(200)]
    answers = list(Client(url).predict_many("m", texts))
    assert [answer.body["label"] for answer in answers] == texts
    assert Busy.most > QUEUE  # it was flooded at first


@pytest.mark.slow
def test_what_is_never_answered_has_its_own_error_and_is_not_asked_for_ever(url: str) -> None:
    client = Client(url)
    texts = ["a", "busy", "b", "failed", "broken", "c", "broken once"]
    answers = dict(zip(texts, client.predict_many("m", texts), strict=True))
    assert {text: answer.status for text, answer in answers.items()} == {
        "a": 200,
        "busy": 503,
        "b": 200,
        "failed": 503,
        "broken": NOT_SENT,
        "c": 200,
        "broken once": 200,
    }
    assert (Busy.asked["busy"], Busy.asked["failed"], Busy.asked["broken"]) == (
        pace.TRIES,
        1,
        pace.TRIES_OF_BROKEN,
    )


@pytest.mark.slow
def test_a_server_that_is_out_of_service_is_not_waited_for_with_every_line(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "PATIENCE_S", 0)
    answers = list(Client(url).predict_many("m", ["busy"] * 50))
    assert {answer.status for answer in answers} == {503}
    assert Busy.asked["busy"] == 50


def test_fewer_are_sent_at_once_after_a_refusal_and_more_while_all_goes_well() -> None:
    one = Pace(CONCURRENCY)
    with one._turn() as began:
        pass
    one._learn(began, busy=True)
    one._learn(began, busy=True)  # of the same moment
    assert one._room == CONCURRENCY / 2
    for _ in range(10):
        with one._turn() as began:
            pass
        one._learn(began, busy=True)
    assert one._room == 1
    for _ in range(1000):
        one._learn(began, busy=False)
    assert one._room == CONCURRENCY


def test_what_waits_is_let_go_when_it_is_stopped() -> None:
    one = Pace(1)
    tried = threading.Event()

    def busy() -> Try[None]:
        tried.set()
        return Try(None, 2, retry_after_s=30)

    ended: list[type[BaseException]] = []

    def ask() -> None:
        try:
            one.ask(busy)
        except StoppedError as error:
            ended.append(type(error))

    thread = threading.Thread(target=ask)
    thread.start()
    assert tried.wait(10)
    one.stop()
    thread.join(10)
    assert ended == [StoppedError]


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("", 0),
        ("0", 0),
        (" 7 ", 7),
        ("3600", 30),
        ("9" * 5000, 30),
        ("-5", 0),
        ("nan", 0),
        ("inf", 0),
        ("1e3", 0),
        ("\u0663", 0),
        ("soon", 0),
        (formatdate(0, usegmt=True), 0),
        (formatdate(4e9, usegmt=True), 30),
        ("Wed, 21 Oct 99999 07:28:00 GMT", 0),
    ],
)
def test_retry_after_is_respected_within_bounds(header: str, seconds: float) -> None:
    assert retry_after_s(header) == seconds


@pytest.mark.slow
@pytest.mark.parametrize("to_file", [True, False])
def test_what_was_answered_before_ctrl_c_is_kept(
    to_file: bool, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts, output = tmp_path / "texts.txt", tmp_path / "out.jsonl"
    texts.write_text("".join(f"{number}\n" for number in range(1000)))
    pressed = iter(range(1000))

    def line(*arguments: Any) -> str:
        if next(pressed) == 5:
            raise KeyboardInterrupt
        return json.dumps(arguments[0])

    monkeypatch.setattr("marsmith.cli.predicting.json_line", line)
    out, err = (Console(file=io.StringIO(), width=200) for _ in range(2))
    with pytest.raises(KeyboardInterrupt):
        predict_to("m", [], texts, output if to_file else None, url, {}, as_json=False, out=out, err=err)
    assert "Stopped after 5 of 1000 inputs." in err.file.getvalue()  # type: ignore[attr-defined]
    if to_file:
        assert [json.loads(one)["line"] for one in output.read_text().splitlines()] == [1, 2, 3, 4, 5]
    else:
        assert out.file.getvalue().count("1.000") == 5  # type: ignore[attr-defined]


def test_a_server_that_does_not_exist_is_not_asked_again() -> None:
    with pytest.raises(ClientError, match="Nothing listens"):
        list(Client("http://127.0.0.1:9").predict_many("m", ["a"] * 50))
