"""A closed loop counts right answers, and every other outcome as a failure."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from marsmith.tune.load import closed_loop
from tests.packaging.web import Answers, serving

SECONDS = 0.5


class Counting(Answers):
    """Answers 200, but 503 to the body `bad`, and nothing at all to `broken`; counts the bodies."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[Counter[bytes]] = Counter()
    lock = threading.Lock()

    def answer(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.lock:
            self.seen[body] += 1
        if body == b"broken":
            self.close_connection = True
            return
        self.send_response(503 if body == b"bad" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")


@pytest.fixture
def port() -> Iterator[int]:
    Counting.seen.clear()
    with serving(Counting) as url:
        yield urlsplit(url).port or 0


def test_every_client_asks_and_every_body_is_sent(port: int) -> None:
    bodies = [(name.encode(), "text/plain") for name in "abc"]
    load = closed_loop(port, "/", bodies, clients=3, seconds=SECONDS, warm_up_s=0.1)
    assert load.failed == 0
    assert set(Counting.seen) == {b"a", b"b", b"c"}
    assert load.per_second * SECONDS == pytest.approx(len(load.latencies_ms))
    assert 0 < len(load.latencies_ms) <= sum(Counting.seen.values())
    assert load.percentile(0.5) <= load.percentile(0.95) <= load.latencies_ms[-1]


@pytest.mark.parametrize("bad", [b"bad", b"broken"])
def test_what_is_no_good_answer_is_a_failure(port: int, bad: bytes) -> None:
    load = closed_loop(port, "/", [(b"good", ""), (bad, "")], clients=1, seconds=SECONDS, warm_up_s=0)
    assert load.failed == Counting.seen[bad] > 0
    assert len(load.latencies_ms) in (Counting.seen[b"good"], Counting.seen[b"good"] - 1)


def test_a_server_that_is_not_there_ends_the_loop_too() -> None:
    load = closed_loop(9, "/", [(b"good", "")], clients=2, seconds=SECONDS, warm_up_s=0)
    assert load.failed > 0
    assert (load.per_second, load.latencies_ms, load.percentile(0.5)) == (0, (), 0)
