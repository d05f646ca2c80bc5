"""Work of other processes is told from that of this one and its children."""

import subprocess
import sys
import time

import pytest

from marsmith.tune import others

WORK_S = 0.3
WORK = f"import time\nwhile time.process_time() < {WORK_S}: pass\nprint(time.process_time())"
# The kernel counts in hundredths of a second, for each of few figures.
TICKS_S = 0.05


def test_a_childs_work_is_own_while_it_runs_and_after_it_ended() -> None:
    before = others.own_s()
    with subprocess.Popen(
        [sys.executable, "-c", f"{WORK}\ninput()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin
        assert child.stdout
        worked = float(child.stdout.readline())
        running = others.own_s()
        child.stdin.write("\n")
    assert running - before >= worked - TICKS_S
    assert others.own_s() - before >= worked - TICKS_S


def test_own_work_keeps_cores_busy() -> None:
    before, began = others.busy_s(), time.process_time()
    while time.process_time() - began < WORK_S:
        pass
    assert others.busy_s() - before >= WORK_S - TICKS_S


@pytest.mark.parametrize(("own", "cores"), [(3.0, 1.25), (8.0, 0.0), (8.02, 0.0)])
def test_others_are_what_is_busy_without_own_work(monkeypatch: pytest.MonkeyPatch, own: float, cores: float) -> None:
    clock = iter([100.0, 104.0])
    busy, mine = iter([50.0, 58.0]), iter([20.0, 20.0 + own])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(others, "busy_s", lambda: next(busy))
    monkeypatch.setattr(others, "own_s", lambda: next(mine))
    assert others.Others().cores() == pytest.approx(cores)
