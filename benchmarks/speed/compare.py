"""Two runs side by side: what became slower or larger by more than noise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.speed.results import Results
from benchmarks.speed.roster import OURS

# A loss past this share is flagged.
TOLERATED_LOSS = 0.15
# By whom a figure is measured, if both runs have it: the machine may have been faster or slower that day.
YARDSTICKS = ("B1", "B2", "B3", "B5", "B0")


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a run: what it is, of whom, and whether more is better."""

    what: str
    subject: str
    value: float
    more_is_better: bool


@dataclass(frozen=True, slots=True)
class Change:
    """A figure then and now; `gain` is above 1 for the better. `yardstick` names who both were measured by."""

    what: str
    subject: str
    gain: float
    yardstick: str | None

    @property
    def lost(self) -> bool:
        """Whether it is worse by more than is tolerated."""
        return self.gain < 1 - TOLERATED_LOSS

    def __str__(self) -> str:
        by = f"measured by {self.yardstick}" if self.yardstick else "absolute, since no baseline is in both runs"
        return f"{self.subject}: {self.what} is {self.gain:.2f} times as good as before ({by})"


def figures(results: Results) -> Iterator[Figure]:
    """Every figure that is compared, of every subject."""
    for task, found in results["tasks"].items():
        for name, facts in found["subjects"].items():
            for key, label in (("worker_s", "worker ready, s"), ("start_s", "server ready, s"), ("pack_s", "build, s")):
                value = facts.get(key)
                if value:
                    yield Figure(f"{task}: {label}", name, value["median"] if isinstance(value, dict) else value, False)
            if (memory := facts.get("memory")) and memory["further_worker"]["pss"] > 0:
                yield Figure(f"{task}: memory of a further worker", name, memory["further_worker"]["pss"], False)
        for chosen, figures_of in found["sets"].items():
            for name, one in figures_of["subjects"].items():
                yield from _speeds(f"{task}, {chosen}", name, one)


def _speeds(where: str, name: str, one: Results) -> Iterator[Figure]:
    if bound := one.get("in_process"):
        yield Figure(f"{where}: answers/s", name, bound["per_second"]["median"], True)
        return
    busiest = max(one["closed"], key=int)
    for clients, closed in one["closed"].items():
        if clients == busiest:
            yield Figure(f"{where}: answers/s", name, closed["per_second"]["median"], True)
        elif "p50" in closed["latency_ms"]:
            yield Figure(f"{where}: p50 of {clients} client", name, closed["latency_ms"]["p50"]["median"], False)


def compare(old: Results, new: Results) -> list[Change]:
    """The changes of Marsmith's figures that both runs have, the worst first."""
    before, after = ({(one.what, one.subject): one for one in figures(run)} for run in (old, new))
    changes = []
    for key in before.keys() & after.keys():
        what, subject = key
        if subject.partition(":")[0] != OURS:
            continue
        gain = _gain(before[key], after[key])
        yardstick = next((name for name in YARDSTICKS if {(what, name)} <= before.keys() & after.keys()), None)
        if yardstick:
            gain /= _gain(before[what, yardstick], after[what, yardstick])
        changes.append(Change(what, subject, gain, yardstick))
    return sorted(changes, key=lambda change: (change.gain, change.what))


def _gain(before: Figure, after: Figure) -> float:
    if not before.value or not after.value:
        return float(after.value >= before.value) if before.more_is_better else 1.0
    ratio = after.value / before.value
    return ratio if before.more_is_better else 1 / ratio
