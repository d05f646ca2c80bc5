"""What would end the worker, or hold it longer than TorchServe waits, is answered before it can."""

import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from handlers import stages
from handlers.requests import Item
from tests.handlers.shouter import GOOD, Shouter, between, make_root, text
from tests.handlers.worker import Post, Worker


class Panic(BaseException):
    """What a Rust library raises when it panics: no Exception."""


class Panicking(Shouter):
    def decode(self, item: Item) -> str:
        if item.value == "panic-decode":
            raise Panic(item.value)
        return super().decode(item)

    def predict(self, instances: Sequence[str]) -> Sequence[str]:
        if "panic-predict" in instances:
            raise Panic(instances)
        return super().predict(instances)


@pytest.mark.parametrize("body", ["panic-decode", "panic-predict"])
def test_a_panic_of_a_native_library_fails_its_own_request(
    tmp_path: Path, body: str, caplog: pytest.LogCaptureFixture
) -> None:
    worker = Worker(Panicking(), make_root(tmp_path))
    (answer,) = between(worker, text(body))
    assert (answer.status, answer.error["type"]) == (500, "internal")
    assert body not in caplog.text


@pytest.mark.parametrize("stop", [SystemExit, KeyboardInterrupt])
def test_a_wish_to_stop_is_not_swallowed(tmp_path: Path, stop: type[BaseException]) -> None:
    class Stopping(Shouter):
        def decode(self, item: Item) -> str:
            raise stop

    worker = Worker(Stopping(), make_root(tmp_path))
    with pytest.raises(stop):
        worker.predict(GOOD)


class Slow(Shouter):
    """Each decoded item and each predicted slice takes its time by a clock that the test owns."""

    seconds = 0.0

    def decode(self, item: Item) -> str:
        Slow.seconds += 1
        return super().decode(item)

    def predict(self, instances: Sequence[str]) -> Sequence[str]:
        Slow.seconds += 10
        return super().predict(instances)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    Slow.seconds = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: Slow.seconds)


@pytest.mark.usefixtures("clock")
def test_items_are_not_begun_after_the_share_of_the_response_timeout(tmp_path: Path) -> None:
    worker = Worker(Slow(), make_root(tmp_path), {"responseTimeout": 10})  # 40 % of it: 4 s
    (answer,) = worker.predict(Post.json([f"text {number}" for number in range(9)]))
    codes = [element.get("error", {}).get("code", 200) for element in answer.value]
    assert codes == [503] * 9  # five were decoded, and then it was too late to predict
    assert answer.value[0]["error"]["type"] == "overloaded"


@pytest.mark.usefixtures("clock")
def test_slices_are_predicted_while_there_is_time(tmp_path: Path) -> None:
    worker = Worker(Slow(), make_root(tmp_path), {"responseTimeout": 150})  # 60 s, of which decoding takes 40
    (answer,) = worker.predict(Post.json([f"text {number}" for number in range(40)]))
    codes = [element.get("error", {}).get("code", 200) for element in answer.value]
    assert codes == [200] * 40
    (tmp_path / "more").mkdir()
    Slow.seconds = 0.0
    worker = Worker(Slow(), make_root(tmp_path / "more"), {"responseTimeout": 125})  # 50 s: two slices
    (answer,) = worker.predict(Post.json([f"text {number}" for number in range(40)]))
    codes = [element.get("error", {}).get("code", 200) for element in answer.value]
    assert codes == [200] * 2 * stages.PREDICT_INSTANCES + [503] * 8


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "rot13", "hex", "utf-7", "iso-8859-99"])
def test_a_client_cannot_choose_a_codec_that_is_no_charset(tmp_path: Path, charset: str) -> None:
    worker = Worker(Shouter(), make_root(tmp_path))
    (answer,) = between(worker, Post(b"abc", f"application/octet-stream; charset={charset}"))
    assert answer.status == 415


@pytest.mark.parametrize("charset", ["utf-8", "UTF8", "latin-1", "ISO-8859-15", "windows-1252", "us-ascii", "cp1251"])
def test_the_charsets_of_the_web_are_read(tmp_path: Path, charset: str) -> None:
    worker = Worker(Shouter(), make_root(tmp_path))
    (answer,) = between(worker, Post(b"abc", f"application/octet-stream; charset={charset}"))
    assert answer.value == {"shout": "ABC"}
