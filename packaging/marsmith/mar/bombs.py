"""Zip bombs, told from the directory alone: nothing is unpacked to find them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from marsmith.ground.limits import MAX_RATIO, MAX_TOTAL_BYTES, RATIO_FREE_BYTES
from marsmith.mar import records
from marsmith.mar.directory import Directory
from marsmith.mar.problems import Problem


def check_limits(directory: Directory) -> Iterator[Problem]:
    """What would fill a disk or a memory when unpacked, or keep a reader busy with the same bytes again and again."""
    entries = [one.entry for one in directory.members]
    total = sum(entry.size for entry in entries)
    if total > MAX_TOTAL_BYTES:
        yield Problem("limit", None, f"it unpacks to {total:,} bytes, more than the {MAX_TOTAL_BYTES:,} allowed")
    if total > RATIO_FREE_BYTES and total > MAX_RATIO * directory.offset:
        worst = max(entries, key=lambda entry: entry.size / (entry.compressed + 1))
        yield Problem(
            "limit", worst.name, f"it unpacks to more than {MAX_RATIO} times its size, {worst.name} most: a zip bomb"
        )
    in_file = sorted(entries, key=lambda entry: entry.offset)
    for one, after in pairwise(in_file):
        if one.offset + records.LOCAL.size + one.compressed > after.offset:
            for name, other in ((one.name, after.name), (after.name, one.name)):
                yield Problem("limit", name, f"{name} shares bytes with {other}, as zip bombs do")
