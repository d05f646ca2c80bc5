"""A handler that asks for it has several items of a batch decoded at once, which nobody outside can tell."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from handlers.base import BatchHandler
from handlers.metrics import SECONDS
from handlers.requests import Item
from tests.handlers.shouter import GOOD, Shouter, between, make_root, text
from tests.handlers.worker import Post, Worker

# Never waited for where all is right.
PATIENCE_S = 30
THREADS = 3


class Panic(BaseException):
    """What a Rust library raises when it panics: no Exception."""


class Parallel(Shouter):
    """Decodes on several threads, and notes on which, and how many threads it may use itself."""

    parallel_decode = True

    def load(self) -> None:
        super().load()
        self.decoded_on: list[int] = []
        self.left: list[int] = []

    def decode(self, item: Item) -> str:
        self.decoded_on.append(threading.get_ident())
        self.left.append(self.decode_threads)
        if item.value == "no memory":
            raise MemoryError
        if item.value == "panic":
            raise Panic(item.value)
        return super().decode(item)


class Meeting(Parallel):
    """Each `decode` waits until THREADS of them are at work."""

    def load(self) -> None:
        super().load()
        self.together = threading.Barrier(THREADS)

    def decode(self, item: Item) -> str:
        self.together.wait(PATIENCE_S)
        return super().decode(item)


def loaded(handler: BatchHandler[Any, Any], root: Path, threads: int = THREADS) -> Worker:
    return Worker(handler, make_root(root), {"handler": {"threads": threads}})


def test_as_many_are_decoded_at_once_as_the_plan_has_threads_whatever_request_they_are_of(tmp_path: Path) -> None:
    handler = Meeting()
    worker = loaded(handler, tmp_path)
    one, many, last = worker.predict(text("a"), Post.json(["b", "c", "d"]), Post.json({"instances": ["e", "f"]}))
    assert one.value == {"shout": "A"}
    assert many.value == [{"shout": "B"}, {"shout": "C"}, {"shout": "D"}]
    assert last.value == {"predictions": [{"shout": "E"}, {"shout": "F"}]}
    assert len(set(handler.decoded_on)) == THREADS


def test_only_a_handler_that_asks_for_it_is_called_from_other_threads(tmp_path: Path) -> None:
    class Serial(Parallel):
        parallel_decode = False

    handler = Serial()
    loaded(handler, tmp_path).predict(*(text(word) for word in "abcdef"))
    assert set(handler.decoded_on) == {threading.get_ident()}
    assert set(handler.left) == {THREADS}


@pytest.mark.parametrize(
    ("threads", "items", "left"), [(8, 1, 8), (8, 2, 4), (8, 3, 2), (8, 8, 1), (8, 20, 1), (1, 5, 1)]
)
def test_what_decoders_take_for_themselves_and_the_items_at_once_stay_within_the_plan(
    tmp_path: Path, threads: int, items: int, left: int
) -> None:
    """pytorch/serve#2432"""
    handler = Parallel()
    loaded(handler, tmp_path, threads).predict(*([GOOD] * items))
    assert handler.left == [left] * items
    assert min(threads, items) * left <= threads
    if items == 1:
        assert handler.decoded_on == [threading.get_ident()]


@pytest.mark.parametrize("body", ["panic", "no memory", "bad-decode", "refuse"])
def test_a_bad_item_fails_alone(tmp_path: Path, body: str, caplog: pytest.LogCaptureFixture) -> None:
    worker = loaded(Parallel(), tmp_path)
    answers = between(worker, *([text(body), text("fine")] * 5), Post.json([body, "x", body]))
    status = 415 if body == "refuse" else 500
    assert [answer.status for answer in answers] == [status, 200] * 5 + [200]
    assert answers[-1].value[1] == {"shout": "X"}
    assert body not in caplog.text


@pytest.mark.parametrize("stop", [SystemExit, KeyboardInterrupt])
def test_a_wish_to_stop_is_not_swallowed(tmp_path: Path, stop: type[BaseException]) -> None:
    """Also one of another thread."""
    ours, begun = threading.get_ident(), threading.Event()

    class Stopping(Parallel):
        def decode(self, item: Item) -> str:
            if threading.get_ident() != ours:
                begun.set()
                raise stop
            assert begun.wait(PATIENCE_S)
            return super().decode(item)

    worker = loaded(Stopping(), tmp_path)
    with pytest.raises(stop):
        worker.predict(GOOD, GOOD)


def test_nothing_is_begun_when_the_time_is_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each decoded item takes a second of a clock that the test owns; 40 % of the response timeout are 4 s."""
    lock, seconds = threading.Lock(), 0.0

    class Slow(Parallel):
        def decode(self, item: Item) -> str:
            nonlocal seconds
            with lock:
                seconds += 1
            return super().decode(item)

    handler = Slow()
    worker = Worker(handler, make_root(tmp_path), {"responseTimeout": 10, "handler": {"threads": THREADS}})
    monkeypatch.setattr(time, "monotonic", lambda: seconds)
    answers = worker.predict(*([GOOD] * 20))
    assert [answer.status for answer in answers] == [503] * 20
    # Five, and what the other threads had begun by then.
    assert 5 <= len(handler.decoded_on) < 5 + THREADS


def test_counts_from_all_threads_add_up_and_their_seconds_are_the_batchs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Counting(Meeting):
        def decode(self, item: Item) -> str:
            with self.metrics.stage("inner"):
                for _ in range(500):
                    self.metrics.add("letters_total")
                return super().decode(item)

    handler = Counting()
    worker = loaded(handler, tmp_path)
    counted: dict[tuple[str, str], float] = {}
    monkeypatch.setattr(handler.metrics, "send", lambda _: counted.update(handler.metrics._counts))
    started = time.perf_counter()
    worker.predict(*([GOOD] * (2 * THREADS)))
    elapsed = time.perf_counter() - started
    assert counted["letters_total", ""] == 500 * 2 * THREADS
    seconds = {kind: value for (name, kind), value in counted.items() if name == SECONDS}
    assert seconds.keys() == {"decode", "inner", "network", "encode"}
    assert sum(seconds.values()) <= elapsed
