"""A closed loop counts right answers, and every other outcome as a failure."""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import ClassVar
from urllib.parse import urlsplit

import pytest

from marsmith.load.loops import NO_ANSWER, RETRY_S, Sent
from marsmith.tune.load import figures, measured
from tests.packaging.web import Answers, serving

pytestmark = pytest.mark.slow


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
    load = measured(port, "/", bodies, clients=3, seconds=SECONDS, warm_up_s=0.1)
    assert load.failed == 0
    assert set(Counting.seen) == {b"a", b"b", b"c"}
    assert load.per_second * SECONDS == pytest.approx(len(load.latencies_ms), abs=len(bodies))
    assert 0 < len(load.latencies_ms) <= sum(Counting.seen.values())
    assert load.percentile(0.5) <= load.percentile(0.95) <= load.latencies_ms[-1]


@pytest.mark.parametrize(("bad", "status"), [(b"bad", 503), (b"broken", NO_ANSWER)])
def test_what_is_no_good_answer_is_a_failure(port: int, bad: bytes, status: int) -> None:
    load = measured(port, "/", [(b"good", ""), (bad, "")], clients=1, seconds=SECONDS, warm_up_s=0)
    assert load.statuses == {status: Counting.seen[bad]}
    assert load.failed == Counting.seen[bad] > 0
    assert 0 < len(load.latencies_ms) <= Counting.seen[b"good"]


def test_a_client_that_is_refused_rests_before_it_asks_again(port: int) -> None:
    measured(port, "/", [(b"bad", "")], clients=1, seconds=SECONDS, warm_up_s=0)
    assert Counting.seen[b"bad"] <= SECONDS / RETRY_S + 2


def test_a_server_that_is_not_there_ends_the_loop_too() -> None:
    load = measured(9, "/", [(b"good", "")], clients=2, seconds=SECONDS, warm_up_s=0, least=10**6)
    assert load.failed > 0
    assert (load.per_second, load.latencies_ms, load.percentile(0.5)) == (0, (), 0)


def test_a_window_grows_until_enough_came(port: int) -> None:
    measured(port, "/", [(b"bad", "")], clients=1, seconds=4 * RETRY_S, warm_up_s=0, least=8)
    assert Counting.seen[b"bad"] >= 8


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.6, 0.9])
@pytest.mark.parametrize("rate", [17.0, 25.0])
def test_batches_that_are_answered_at_once_give_the_true_rate(rate: float, phase: float) -> None:
    batch, clients, took = 16, 32, 16 / rate  # one batch is in work while the other waits
    asked = [
        Sent(0, phase + (turn - clients // batch) * took, phase + turn * took, 200)
        for turn in range(-10, 30)
        for _ in range(batch)
    ]
    load = figures(asked, 1.0, 6.0)
    assert load.per_second == pytest.approx(rate)
    assert load.noise == pytest.approx(0.0, abs=0.01)
