"""The load generator counts what a server did, and leaves out nobody who had to wait."""

import json
import statistics
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from benchmarks.speed.limit import ROOT
from benchmarks.speed.load import Outcome, Plan, outcome, run
from marsmith.load.loops import NO_ANSWER, Sent, arrivals
from tests.benchmarks.fake_server import slow_server

TIMEOUT_S = 60


def plan(port: int, bodies: list[Path], **changes: object) -> Plan:
    values = {
        "port": port,
        "path": "/",
        "content_type": "text/plain",
        "bodies": [str(body) for body in bodies],
        "mode": "closed",
        "seconds": 0.5,
    }
    return Plan(**{**values, **changes})  # type: ignore[arg-type]


@pytest.fixture
def bodies(tmp_path: Path) -> list[Path]:
    files = [tmp_path / f"{index}.bin" for index in range(3)]
    for index, file in enumerate(files):
        file.write_text(f"input {index}")
    return files


@pytest.mark.slow
def test_a_closed_loop_records_every_answer_beside_its_input(bodies: list[Path]) -> None:
    with slow_server(0.01) as server:
        found = run(plan(server.port, bodies, clients=2))
    assert len(found.answers) == server.asked
    assert {(index, answer) for index, answer in found.answers} == {(index, f"input {index}") for index in range(3)}
    assert found.failed == 0
    assert 0 < found.answered <= server.asked
    assert found.seconds == 0.5
    assert found.per_second == found.answered / 0.5


def test_a_closed_loop_goes_on_until_it_has_answers_enough(bodies: list[Path]) -> None:
    with slow_server(0.05) as server:
        found = run(plan(server.port, bodies, clients=2, seconds=0.01, least=6))
    assert server.asked >= 2 + 6
    assert found.answered >= 6 - 1
    assert found.seconds >= 5 * 0.05


@pytest.mark.slow
def test_refused_requests_are_failures_and_no_answers(bodies: list[Path]) -> None:
    with slow_server(0.01, fail_every=2) as server:
        found = run(plan(server.port, bodies))
    assert found.failed == server.asked // 2
    assert found.statuses == {"200": server.asked - found.failed, "503": found.failed}
    assert len(found.answers) == server.asked - found.failed


def test_a_server_that_is_gone_is_a_failure_and_not_the_end_of_the_generator(bodies: list[Path]) -> None:
    with slow_server(0) as server:
        port = server.port
    found = run(plan(port, bodies, seconds=0.05))
    assert found.answered == 0
    assert set(found.statuses) == {str(NO_ANSWER)}


@pytest.mark.slow
def test_who_arrives_at_a_busy_server_waits_from_the_moment_of_arrival(bodies: list[Path]) -> None:
    """40 arrivals in a second at a server of 20 a second: the last is done after 2 s at least, and waited for 1 s.

    A generator that sends the next request only after an answer would see 50 ms for each of them.
    """
    with slow_server(0.05) as server:
        found = run(plan(server.port, bodies, mode="open", rate=40.0, seconds=1.0))
    due = arrivals(40.0, 1.0)
    assert server.asked == len(found.latencies_ms) == len(due)
    assert found.latencies_ms[-1] >= (len(due) * 0.05 - 1.0) * 1000
    assert statistics.median(found.latencies_ms) >= 100


def test_throughput_counts_by_the_time_inside_the_window_and_latency_by_the_moment_due() -> None:
    sent = [
        Sent(0, due=0.5, done=1.5, status=200, answer=b"due in the warm-up"),
        Sent(1, due=1.5, done=2.0, status=200, answer=b"inside"),
        Sent(2, due=2.5, done=9.0, status=200, answer=b"answered after the window"),
        Sent(0, due=2.6, done=2.7, status=503, answer=b""),
    ]
    found = outcome(sent, 1.0, 3.0)
    # Half of the first, all of the second, and half a second of the third's 6.5.
    assert found.answered == pytest.approx(0.5 + 1 + 0.5 / 6.5)
    assert found.latencies_ms == [500.0, 6500.0]
    assert found.failed == 1


@pytest.mark.slow
def test_the_generator_is_a_process_of_its_own(bodies: list[Path], tmp_path: Path) -> None:
    found_file, plan_file = tmp_path / "outcome.json", tmp_path / "plan.json"
    with slow_server(0.01) as server:
        plan_file.write_text(json.dumps(asdict(plan(server.port, bodies))))
        command = [sys.executable, "-m", "benchmarks.speed.load", str(plan_file), str(found_file)]
        subprocess.run(command, cwd=ROOT, check=True, timeout=TIMEOUT_S)
    found = Outcome(**json.loads(found_file.read_text()))
    assert len(found.answers) == server.asked > 0
