"""The cores that this process may use, and each worker's share of them. The same file in both halves."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

ROOT = Path("/")
CGROUP2 = "cgroup2"
# The kernel's default period, which cpu.max may leave out: Documentation/admin-guide/cgroup-v2.rst.
DEFAULT_PERIOD_US = "100000"
# A quota or period in microseconds, which the kernel keeps in 64 bits.
NUMBER = re.compile(r"[1-9][0-9]{0,18}")


def available_cores(root: Path = ROOT) -> int:
    """CPU cores this process may use, at least 1: its affinity mask, cut by the least CPU quota of its cgroups.

    `root` is where /proc and /sys are. What cannot be read, or is not a quota, does not count.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(min([cores, *_quotas(root)])))


def intra_op_threads(cores: int, workers: int) -> int:
    """The thread plan: workers x threads never pass the cores, and every worker has at least one thread."""
    return max(1, cores // max(1, workers))


@dataclass(frozen=True, slots=True)
class _Mount:
    """A mounted hierarchy of cgroups that may have CPU quotas: `top` is the cgroup that lies at `place`."""

    version2: bool
    top: PurePosixPath
    place: Path


def _quotas(root: Path) -> Iterator[float]:
    """The CPU quota, in cores, of each cgroup from this process's own up to the top of what is mounted."""
    own, mounts = _own_cgroups(root), _mounts(root)
    for version2 in (True, False):
        of_version = [mount for mount in mounts if mount.version2 == version2]
        # A cgroup of another namespace is below no mount here: then what is mounted is all that can be seen of it.
        for mount in [one for one in of_version if _below(own.get(version2), one) is not None] or of_version:
            below = _below(own.get(version2), mount) or ()
            for depth in range(len(below) + 1):
                quota = _quota(mount.place.joinpath(*below[:depth]), version2=version2)
                if quota is not None:
                    yield quota


def _below(cgroup: PurePosixPath | None, mount: _Mount) -> tuple[str, ...] | None:
    """The directories from what is mounted down to the cgroup; None where it is not below."""
    if cgroup is None or ".." in cgroup.parts or not cgroup.is_relative_to(mount.top):
        return None
    return cgroup.relative_to(mount.top).parts


def _own_cgroups(root: Path) -> dict[bool, PurePosixPath]:
    """The cgroup of this process in version 2, by True, and in version 1's hierarchy of the CPU controller, by False.

    A line of /proc/self/cgroup is HIERARCHY:CONTROLLERS:PATH (cgroups(7)); version 2 is 0::PATH.
    """
    found = {}
    for line in _read(root / "proc/self/cgroup").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if path.startswith("/") and (hierarchy == "0" or "cpu" in controllers.split(",")):
            found[hierarchy == "0"] = PurePosixPath(path)
    return found


def _mounts(root: Path) -> list[_Mount]:
    """Where hierarchies with CPU quotas are mounted; where nothing says that, the usual places.

    A line of /proc/self/mountinfo is ID PARENT DEVICE TOP PLACE OPTIONS [TAGS] - TYPE SOURCE OPTIONS (proc(5)).
    """
    found = []
    for line in _read(root / "proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        fields, kinds = before.split(), after.split()
        if len(fields) > 4 and len(kinds) > 2 and (kinds[0] == CGROUP2 or _has_cpu(kinds)):
            top, place = _unescaped(fields[3]), _unescaped(fields[4])
            found.append(_Mount(kinds[0] == CGROUP2, PurePosixPath(top), root / place.lstrip("/")))
    usual = root / "sys/fs/cgroup"
    return found or [_Mount(True, PurePosixPath("/"), usual), _Mount(False, PurePosixPath("/"), usual / "cpu")]


def _has_cpu(kinds: list[str]) -> bool:
    return kinds[0] == "cgroup" and "cpu" in kinds[2].split(",")


def _unescaped(path: str) -> str:
    """A path of mountinfo, where a space is written as its octal number."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def _quota(cgroup: Path, *, version2: bool) -> float | None:
    """The CPU quota of one cgroup in cores, None where there is none."""
    if version2:
        limit, _, period = _read(cgroup / "cpu.max").strip().partition(" ")
        period = period or DEFAULT_PERIOD_US
    else:
        limit, period = _read(cgroup / "cpu.cfs_quota_us").strip(), _read(cgroup / "cpu.cfs_period_us").strip()
    # "max" in version 2 and -1 in version 1 mean that there is no limit.
    if not all(NUMBER.fullmatch(word) for word in (limit, period)):
        return None
    return int(limit) / int(period)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
