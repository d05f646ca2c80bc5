import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from training.bottleneck.clock import PHASES, NoClock, StepClock, steps_file, timed

MEAN_OF_TWO_RANKS = """
import sys
from pathlib import Path
import torch
import torch.distributed as dist
from torch import nn
from training.bottleneck.clock import StepClock, timed_allreduce

torch.set_num_threads(1)
rank, folder = int(sys.argv[1]), Path(sys.argv[2])
dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)

def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 3))

with StepClock(folder, rank) as clock:
    plain = nn.parallel.DistributedDataParallel(network())
    # A small bucket, so that there are several.
    hooked = nn.parallel.DistributedDataParallel(network(), bucket_cap_mb=0.01)
    hooked.register_comm_hook(clock, timed_allreduce)
    for step in range(3):
        inputs = torch.randn(8, 64, generator=torch.Generator().manual_seed(10 * step + rank))
        plain(inputs).square().mean().backward()
        with clock.phase("backward"):
            hooked(inputs).square().mean().backward()
        clock.step(8)
    for expected, got in zip(plain.parameters(), hooked.parameters(), strict=True):
        torch.testing.assert_close(got.grad, expected.grad, rtol=0, atol=0)
    torch.save([parameter.grad for parameter in hooked.parameters()], folder / f"gradients{rank}.pt")
# Neither rank may leave, nor a reducer hold the group, while gloo's threads are at work: that ends in std::terminate.
dist.barrier()
del plain, hooked
dist.destroy_process_group()
"""


class Time:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def clock(tmp_path: Path, time: Time) -> StepClock:
    return StepClock(tmp_path, now=time)


def records(folder: Path, rank: int = 0) -> list[dict[str, float]]:
    return [json.loads(line) for line in steps_file(folder, rank).read_text().splitlines()]


def test_a_step_is_the_sum_of_its_phases_and_the_rest(clock: StepClock, time: Time, tmp_path: Path) -> None:
    time.now += 50  # between steps: nobody's
    with clock.phase("data"):
        time.now += 1
    time.now += 0.5
    for _ in range(2):
        with clock.phase("forward"):
            time.now += 2
    with clock.phase("optimizer"):
        time.now += 4
    clock.step(7)
    clock.close()
    phases = {"data": 1, "forward": 4, "backward": 0, "communication": 0, "optimizer": 4}
    assert records(tmp_path) == [{"step": 1, "samples": 7, "seconds": 9.5, **phases}]


def test_a_phase_inside_another_is_subtracted_from_it(clock: StepClock, time: Time, tmp_path: Path) -> None:
    with clock.phase("backward"):
        time.now += 1
        with clock.phase("communication"):
            time.now += 2
        time.now += 4
    clock.step(1)
    clock.close()
    (record,) = records(tmp_path)
    assert (record["backward"], record["communication"], record["seconds"]) == (5, 2, 7)


def test_backward_after_the_last_gradients_left_is_waiting(clock: StepClock, time: Time, tmp_path: Path) -> None:
    with clock.phase("backward"):
        time.now += 1
        clock.gradients_sent()
        time.now += 2
        clock.gradients_sent()
        time.now += 4
        with clock.phase("communication"):
            time.now += 8
    with clock.phase("backward"):
        time.now += 16
    clock.step(1)
    clock.close()
    (record,) = records(tmp_path)
    assert (record["backward"], record["communication"]) == (19, 12)


def test_gradients_sent_outside_backward_change_nothing(clock: StepClock, time: Time, tmp_path: Path) -> None:
    clock.gradients_sent()
    with clock.phase("backward"):
        time.now += 1
    clock.step(1)
    clock.close()
    assert records(tmp_path)[0]["communication"] == 0


def test_the_end_of_the_batches_belongs_to_no_step(clock: StepClock, time: Time, tmp_path: Path) -> None:
    def batches() -> list[int]:
        time.now += 1
        return [3, 4]

    for _ in range(2):
        for batch in timed(clock, batches()):
            with clock.phase("forward"):
                time.now += batch
            clock.step(batch)
    clock.close()
    assert [record["seconds"] for record in records(tmp_path)] == [3, 4, 3, 4]
    assert [record["step"] for record in records(tmp_path)] == [1, 2, 3, 4]


def test_a_phase_that_fails_is_closed(clock: StepClock, time: Time, tmp_path: Path) -> None:
    def fail() -> None:
        time.now += 1
        raise RuntimeError

    with pytest.raises(RuntimeError), clock.phase("forward"):
        fail()
    with clock.phase("backward"):
        time.now += 2
    clock.step(1)
    clock.close()
    assert (records(tmp_path)[0]["forward"], records(tmp_path)[0]["backward"]) == (1, 2)


def test_an_unknown_phase_is_refused(clock: StepClock) -> None:
    with pytest.raises(ValueError, match="'loss' is no phase: data, forward"), clock.phase("loss"):
        pass


def test_steps_reach_the_disk_while_the_run_goes_on(clock: StepClock, time: Time, tmp_path: Path) -> None:
    clock.step(1)
    time.now += 6
    clock.step(1)
    assert len(records(tmp_path)) == 2
    for _ in range(50):
        clock.step(1)
    assert len(records(tmp_path)) == 52


def test_a_resumed_run_drops_the_torn_line_and_counts_on(tmp_path: Path, time: Time) -> None:
    with StepClock(tmp_path, now=time) as clock:
        clock.step(1)
    with steps_file(tmp_path, 0).open("a") as file:
        file.write('{"step": 2, "sam')
    with StepClock(tmp_path, start=1, now=time) as clock:
        clock.step(1)
    assert [record["step"] for record in records(tmp_path)] == [1, 2]


def test_no_clock_takes_the_same_calls(tmp_path: Path) -> None:
    with NoClock() as clock:
        assert list(timed(clock, [1, 2])) == [1, 2]
        for name in PHASES:
            with clock.phase(name):
                clock.gradients_sent()
        clock.step(1)
        clock.discard()
    assert {name for name in dir(NoClock) if name[0] != "_"} == {name for name in dir(StepClock) if name[0] != "_"}


@pytest.mark.slow
def test_the_hook_times_communication_and_leaves_the_gradients_of_ddp(tmp_path: Path) -> None:
    ranks = [
        subprocess.Popen([sys.executable, "-c", MEAN_OF_TWO_RANKS, str(rank), str(tmp_path)], stderr=subprocess.PIPE)
        for rank in range(2)
    ]
    for process in ranks:
        _, errors = process.communicate(timeout=120)
        assert process.returncode == 0, errors.decode()
    for rank in range(2):
        steps = records(tmp_path, rank)
        assert [step["step"] for step in steps] == [1, 2, 3]
        assert all(step["communication"] > 0 and step["backward"] > 0 for step in steps)
    first, second = (torch.load(tmp_path / f"gradients{rank}.pt", weights_only=True) for rank in range(2))
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    torch.manual_seed(1)
    alone = nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 3))
    for step in range(3):
        for rank in range(2):
            inputs = torch.randn(8, 64, generator=torch.Generator().manual_seed(10 * step + rank))
            (alone(inputs).square().mean() / 2).backward()
    torch.testing.assert_close([p.grad for p in alone.parameters()], first)
