"""How many cores a worker may use, by its affinity mask and the quotas of its cgroups, and how they are shared."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.cores import available_cores, intra_op_threads

CORES = 8
OWN, MOUNTS = "proc/self/cgroup", "proc/self/mountinfo"
V2 = "30 24 0:26 {top} {place} rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate"
V1 = "33 25 0:29 {top} {place} rw,nosuid - cgroup cgroup rw,{controllers}"
AT_V2 = V2.format(top="/", place="/sys/fs/cgroup")
AT_V1 = V1.format(top="/", place="/sys/fs/cgroup/cpu,cpuacct", controllers="cpu,cpuacct")
TOP = "sys/fs/cgroup"
V1_TOP = "sys/fs/cgroup/cpu,cpuacct"


def v1(directory: str, quota: str, period: str = "100000\n") -> dict[str, str]:
    return {f"{directory}/cpu.cfs_quota_us": quota, f"{directory}/cpu.cfs_period_us": period}


DEEP = "/user.slice/job_7/step_0"
CASES: dict[str, tuple[dict[str, str], int]] = {
    "nothing is known": ({}, 8),
    "no quota": ({OWN: "0::/\n", MOUNTS: AT_V2, f"{TOP}/cpu.max": "max 100000\n"}, 8),
    "two cores": ({OWN: "0::/\n", MOUNTS: AT_V2, f"{TOP}/cpu.max": "200000 100000\n"}, 2),
    "two and a half cores": ({OWN: "0::/\n", MOUNTS: AT_V2, f"{TOP}/cpu.max": "250000 100000\n"}, 2),
    "half a core": ({OWN: "0::/\n", MOUNTS: AT_V2, f"{TOP}/cpu.max": "50000 100000\n"}, 1),
    "more than there are": ({OWN: "0::/\n", MOUNTS: AT_V2, f"{TOP}/cpu.max": "1600000 100000\n"}, 8),
    "another period": ({OWN: "0::/\n", MOUNTS: AT_V2, f"{TOP}/cpu.max": "30000 10000\n"}, 3),
    "no period": ({OWN: "0::/\n", MOUNTS: AT_V2, f"{TOP}/cpu.max": "300000\n"}, 3),
    "of a unit of systemd": (
        {OWN: "0::/system.slice/a.service\n", MOUNTS: AT_V2, f"{TOP}/system.slice/a.service/cpu.max": "50000 100000"},
        1,
    ),
    "of the slice above it": (
        {OWN: f"0::{DEEP}\n", MOUNTS: AT_V2, f"{TOP}{DEEP}/cpu.max": "max 1", f"{TOP}/user.slice/cpu.max": "3 1"},
        3,
    ),
    "the least on the way": (
        {
            OWN: f"0::{DEEP}\n",
            MOUNTS: AT_V2,
            f"{TOP}{DEEP}/cpu.max": "6 1",
            f"{TOP}/user.slice/job_7/cpu.max": "2 1",
            f"{TOP}/user.slice/cpu.max": "4 1",
            f"{TOP}/cpu.max": "5 1",
        },
        2,
    ),
    "not of a neighbour": ({OWN: "0::/a\n", MOUNTS: AT_V2, f"{TOP}/b/cpu.max": "1 1", f"{TOP}/a/b/cpu.max": "1 1"}, 8),
    "of a container that sees the host's name": (
        {OWN: "0::/system.slice/docker-1.scope\n", MOUNTS: AT_V2, f"{TOP}/cpu.max": "2 1"},
        2,
    ),
    "of a cgroup that is mounted itself": (
        {
            OWN: "0::/docker/1/inner\n",
            MOUNTS: V2.format(top="/docker/1", place="/sys/fs/cgroup"),
            f"{TOP}/inner/cpu.max": "3 1",
        },
        3,
    ),
    "of a cgroup outside of the namespace": (
        {OWN: "0::/../other\n", MOUNTS: AT_V2, f"{TOP}/cpu.max": "4 1", f"{TOP}/other/cpu.max": "1 1"},
        4,
    ),
    "mounted elsewhere": (
        {OWN: "0::/a\n", MOUNTS: V2.format(top="/", place="/my\\040cgroups"), "my cgroups/a/cpu.max": "2 1"},
        2,
    ),
    "another tree is mounted too": (
        {
            OWN: "0::/a\n",
            MOUNTS: f"{AT_V2}\n" + V2.format(top="/b", place="/mnt"),
            f"{TOP}/a/cpu.max": "3 1",
            "mnt/cpu.max": "1 1",
        },
        3,
    ),
    "its own is the top of a tree, and another is mounted too": (
        {
            OWN: "0::/\n",
            MOUNTS: f"{AT_V2}\n" + V2.format(top="/b", place="/mnt"),
            f"{TOP}/cpu.max": "3 1",
            "mnt/cpu.max": "1 1",
        },
        3,
    ),
    "a number without end": ({f"{TOP}/cpu.max": f"{'9' * 5000} 1"}, 8),
    "version 1, no quota": ({OWN: "4:cpu,cpuacct:/\n", MOUNTS: AT_V1, **v1(V1_TOP, "-1\n")}, 8),
    "version 1": ({OWN: "4:cpu,cpuacct:/\n", MOUNTS: AT_V1, **v1(V1_TOP, "300000\n")}, 3),
    "version 1, a tenth": ({OWN: "4:cpu,cpuacct:/\n", MOUNTS: AT_V1, **v1(V1_TOP, "10000\n")}, 1),
    "version 1, below": (
        {
            OWN: "11:memory:/x\n4:cpuset:/y\n3:cpu,cpuacct:/slurm/uid_1/job_2\n1:name=systemd:/z\n",
            MOUNTS: AT_V1,
            **v1(f"{V1_TOP}/slurm", "200000"),
            **v1(f"{V1_TOP}/slurm/uid_1/job_2", "400000"),
            **v1(f"{V1_TOP}/x", "100000"),
        },
        2,
    ),
    "version 1 in a container": (
        {
            OWN: "3:cpu,cpuacct:/docker/1\n",
            MOUNTS: V1.format(top="/docker/1", place="/sys/fs/cgroup/cpu,cpuacct", controllers="cpu,cpuacct"),
            **v1(V1_TOP, "200000"),
        },
        2,
    ),
    "version 1, another controller": (
        {
            OWN: "3:memory:/\n",
            MOUNTS: V1.format(top="/", place="/sys/fs/cgroup/cpuset", controllers="cpuset"),
            **v1("sys/fs/cgroup/cpuset", "100000"),
        },
        8,
    ),
    "both versions": (
        {
            OWN: "3:cpu,cpuacct:/a\n0::/b\n",
            MOUNTS: f"{V2.format(top='/', place='/sys/fs/cgroup/unified')}\n{AT_V1}",
            **v1(f"{V1_TOP}/a", "300000"),
            "sys/fs/cgroup/unified/b/cpu.max": "5 1",
        },
        3,
    ),
    "the usual place, version 2": ({f"{TOP}/cpu.max": "2 1"}, 2),
    "the usual place, version 1": (v1(f"{TOP}/cpu", "200000"), 2),
    "empty files": ({OWN: "", MOUNTS: "", f"{TOP}/cpu.max": "", **v1(f"{TOP}/cpu", "", "")}, 8),
    "only a newline": ({OWN: "\n", MOUNTS: "\n", f"{TOP}/cpu.max": "\n", **v1(f"{TOP}/cpu", "\n")}, 8),
    "no quota in the file": ({**v1(f"{TOP}/cpu", "")}, 8),
    "no period in the file": ({f"{TOP}/cpu/cpu.cfs_quota_us": "300000\n"}, 8),
    "not numbers": ({f"{TOP}/cpu.max": "lots of it"}, 8),
    "not whole numbers": ({f"{TOP}/cpu.max": "1.5 1"}, 8),
    "digits that are not ASCII": ({f"{TOP}/cpu.max": "\u00b2 1"}, 8),
    "negative": ({f"{TOP}/cpu.max": "-5 100000"}, 8),
    "a period of none": ({f"{TOP}/cpu.max": "100000 0"}, 8),
    "a quota of none": ({f"{TOP}/cpu.max": "0 100000"}, 8),
    "three words": ({f"{TOP}/cpu.max": "1 1 1"}, 8),
    "lines of other forms": ({OWN: "x\n0\n::\n0:\n0::relative\n", MOUNTS: "- \na b c - d\n - cgroup2\n"}, 8),
}


@pytest.mark.parametrize(("files", "cores"), CASES.values(), ids=CASES.keys())
def test_the_least_quota_of_the_cgroups_cuts_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cores: int
) -> None:
    """pytorch/serve#2432, pytorch/serve#2023, pytorch/serve#1128, pytorch/serve#1138"""
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(CORES)))
    assert available_cores(tmp_path) == cores


def test_bytes_that_are_not_text_are_no_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / TOP).mkdir(parents=True)
    (tmp_path / TOP / "cpu.max").write_bytes(b"\xff\xfe 1")
    (tmp_path / "proc/self/cgroup").mkdir(parents=True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(CORES)))
    assert available_cores(tmp_path) == CORES


def test_the_affinity_mask_counts_and_not_the_machines_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3, 5, 7})
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    assert available_cores(tmp_path) == 3


@pytest.mark.parametrize(("count", "cores"), [(6, 6), (None, 1)])
def test_a_system_without_affinity_masks_counts_its_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int | None, cores: int
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: count)
    assert available_cores(tmp_path) == cores


@pytest.mark.parametrize(
    ("cores", "workers", "threads"),
    [(8, 1, 8), (8, 2, 4), (8, 3, 2), (8, 8, 1), (8, 16, 1), (1, 1, 1), (64, 5, 12), (4, 0, 4)],
)
def test_the_plan_shares_the_cores_among_the_workers(cores: int, workers: int, threads: int) -> None:
    assert intra_op_threads(cores, workers) == threads


@given(st.integers(1, 512), st.integers(1, 512))
def test_the_plan_never_passes_the_cores(cores: int, workers: int) -> None:
    threads = intra_op_threads(cores, workers)
    assert threads >= 1
    assert threads * workers <= cores or threads == 1
    assert (threads + 1) * workers > cores, "a core is left idle that every worker could have used"
