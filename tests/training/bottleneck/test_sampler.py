import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from training.bottleneck.records import SAMPLES, RunFacts, bf16_capable
from training.bottleneck.sampler import Sampler


def sampled_until(folder: Path, enough: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """The samples as soon as they are enough; pytest's own limit ends the wait."""
    while True:
        lines = (folder / SAMPLES).read_text().splitlines(keepends=True) if (folder / SAMPLES).exists() else []
        samples = [json.loads(line) for line in lines if line.endswith("\n")]
        if enough(samples):
            return samples
        time.sleep(0.02)


RANK = """
import json, pathlib, sys, time
from training.bottleneck.sampler import Sampler
if sys.argv[2] == "0":
    with Sampler(pathlib.Path(sys.argv[1]), interval_s=0.05):
        time.sleep(60)
while True:
    pass
"""
LAUNCHER = """
import subprocess, sys
ranks = [subprocess.Popen([sys.executable, "-c", sys.argv[2], sys.argv[1], rank]) for rank in "01"]
try:
    sys.stdin.read()
finally:
    for rank in ranks:
        rank.kill()
        rank.wait()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "other_counts"), [("2", True), ("1", False)])
def test_every_rank_of_the_machine_counts_as_training(tmp_path: Path, ranks: str, other_counts: bool) -> None:
    """The rank that samples sleeps; the other one is busy, and is no other program."""
    environment = os.environ | {"LOCAL_WORLD_SIZE": ranks, "PYTHONPATH": os.pathsep.join(sys.path)}
    launcher = subprocess.Popen(
        [sys.executable, "-c", LAUNCHER, str(tmp_path), RANK], stdin=subprocess.PIPE, env=environment
    )
    try:
        samples = sampled_until(tmp_path, lambda found: len(found) >= 40)
    finally:
        launcher.communicate()
    busy = sum(sample["process"] for sample in samples[5:]) > 0.1 * len(samples)
    assert busy == other_counts


def test_cores_memory_and_loader_workers_are_sampled(tmp_path: Path) -> None:
    loader = DataLoader(TensorDataset(torch.zeros(10_000)), num_workers=2)
    with Sampler(tmp_path, interval_s=0.05):
        batches = iter(loader)
        next(batches)
        samples = sampled_until(tmp_path, lambda found: any(sample["workers"] == 2 for sample in found))
        del batches
    for sample in samples:
        assert len(sample["cores"]) == len(os.sched_getaffinity(0))
        assert all(0 <= use <= 1 for use in sample["cores"])
        assert sample["rss_bytes"] > 10_000_000
        assert sample["process"] >= 0
    times = [sample["at"] for sample in samples]
    assert times == sorted(times)
    assert times[0] > 0


def test_sampling_ends_with_the_block(tmp_path: Path) -> None:
    with Sampler(tmp_path, interval_s=0.01):
        sampled_until(tmp_path, bool)
    size = (tmp_path / SAMPLES).stat().st_size
    time.sleep(0.1)
    assert (tmp_path / SAMPLES).stat().st_size == size


def test_the_facts_of_a_run_on_this_machine(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    found = RunFacts.here(torch.device("cpu"), workers=3, ranks=2, bf16=True)
    assert (found.device, found.workers, found.ranks, found.threads, found.bf16) == ("cpu", 3, 2, 1, True)
    assert found.cores == len(os.sched_getaffinity(0))
    found.write(tmp_path)
    assert RunFacts(**json.loads((tmp_path / "run.json").read_text())) == found


def test_bf16_is_there_only_where_the_cpu_says_so(monkeypatch: Any) -> None:
    for name, capable in (("avx512_bf16", True), ("amx_bf16", True), ("avx512_f", False)):
        monkeypatch.setattr(torch.cpu, "get_capabilities", lambda name=name: {name: True, "amx_bf16_other": False})
        assert bf16_capable(torch.device("cpu")) is capable
