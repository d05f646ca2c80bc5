"""What Marsmith wants to reach, and whether a run did: ratios of figures of one run on one machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from benchmarks.speed.results import Results, lone_p50, throughput
from benchmarks.speed.roster import OURS
from benchmarks.speed.subjects import Task

# Any of these multiplies int8 several times as fast as float32; AVX2 alone does not.
FAST_INT8 = frozenset({"avx512_vnni", "avx_vnni", "amx_int8", "i8mm"})
TWEETS, SMALL_PHOTOS, LARGE_PHOTOS = "tweets", "224 px photos", "12 MP photos"


@dataclass(frozen=True, slots=True)
class Target:
    """One figure of ours by the same of `baseline`, or by the limit where that is None.

    `bound` is the least ratio or, where `at_least` is false, the largest; `without_int8` is
    that of processors that are slow at int8. `subject` says of which of ours; None takes the best.
    """

    name: str
    task: Task
    inputs: str
    figure: str
    baseline: str | None
    bound: float | None
    at_least: bool = True
    without_int8: float | None = None
    subject: str | None = None


@dataclass(frozen=True, slots=True)
class Reached:
    """What a run says about a target; `met` is None where none is set."""

    name: str
    subject: str
    bound: float | None
    at_least: bool
    measured: float
    met: bool | None

    @property
    def margin(self) -> float | None:
        """By which share the figure is better than its bound; below 0 it is worse."""
        if self.bound is None or not self.measured:
            return None
        ratio = self.measured / self.bound
        return (ratio if self.at_least else 1 / ratio) - 1


TARGETS = (
    Target("tweets/s, 32 clients, by B0", "sentiment", TWEETS, "throughput", "B0", 10, without_int8=8),
    Target("tweets/s, 32 clients, by B1", "sentiment", TWEETS, "throughput", "B1", 3, without_int8=2.7),
    Target("tweets/s, 32 clients, by B3", "sentiment", TWEETS, "throughput", "B3", 3, without_int8=2.5),
    Target("tweets/s, 32 clients, by B5", "sentiment", TWEETS, "throughput", "B5", 2.5),
    Target("tweets/s, 32 clients, by TorchServe without a model", "sentiment", TWEETS, "throughput", "noop", None),
    Target("tweet, p50 of one client, by B1", "sentiment", TWEETS, "lone p50", "B1", 0.4, at_least=False),
    Target("12 MP photos/s, 32 clients, by B2", "food", LARGE_PHOTOS, "throughput", "B2", 5),
    Target("12 MP photos/s, 32 clients, by B3", "food", LARGE_PHOTOS, "throughput", "B3", 3),
    Target("12 MP photos, dish as with full decode", "food", LARGE_PHOTOS, "right", None, 0.995, subject=OURS),
    Target("224 px photos/s, 32 clients, by B2", "food", SMALL_PHOTOS, "throughput", "B2", 1.5),
    Target("224 px photos/s, by TorchServe without a model", "food", SMALL_PHOTOS, "throughput", "noop", None),
    Target("worker ready, by B1", "sentiment", TWEETS, "worker ready", "B1", 0.45, at_least=False),
    Target("memory (PSS) of a further worker, by B1", "sentiment", TWEETS, "further worker", "B1", 0.3, at_least=False),
    Target("fp32 arithmetic of tweets, by matrix products", "sentiment", TWEETS, "peak", None, 0.65, subject=OURS),
    Target(
        "fp32 arithmetic of 224 px photos, by matrix products", "food", SMALL_PHOTOS, "peak", None, 0.65, subject=OURS
    ),
)


def reached(results: Results, targets: Sequence[Target] = TARGETS) -> Iterator[Reached]:
    """Each target of which the run has all figures."""
    slow_int8 = not FAST_INT8 & set(results["machine"]["features"])
    for target in targets:
        ratios = {
            name: ratio for name in _ours(results, target) if (ratio := _ratio(results, target, name)) is not None
        }
        if not ratios:
            continue
        subject = (max if target.at_least else min)(ratios, key=ratios.__getitem__)
        bound = target.without_int8 if slow_int8 and target.without_int8 else target.bound
        measured = ratios[subject]
        met = None if bound is None else (measured >= bound if target.at_least else measured <= bound)
        yield Reached(target.name, subject, bound, target.at_least, measured, met)


def stored(results: Results) -> list[dict[str, Any]]:
    """The same as plain data."""
    return [{**asdict(one), "margin": one.margin} for one in reached(results)]


def _ours(results: Results, target: Target) -> list[str]:
    found = results["tasks"].get(target.task)
    if found is None or target.inputs not in found["sets"]:
        return []
    names = [name for name in found["sets"][target.inputs]["subjects"] if name.partition(":")[0] == OURS]
    return [name for name in names if target.subject in (None, name)]


def _ratio(results: Results, target: Target, name: str) -> float | None:
    ours = _figure(results, target, name)
    if target.baseline is None or ours is None:
        return ours
    theirs = _figure(results, target, target.baseline)
    return ours / theirs if theirs else None


def _figure(results: Results, target: Target, name: str) -> float | None:
    """A figure of one subject, None where it was not measured."""
    found = results["tasks"][target.task]
    figures = found["sets"][target.inputs]
    one, facts = figures["subjects"].get(name), found["subjects"].get(name, {})
    if one is None:
        return None
    match target.figure:
        case "throughput":
            return float(throughput(one)["median"])
        case "lone p50":
            return p50["median"] if (p50 := lone_p50(one)) else None
        case "right":
            return one["agreement"]["share"] if one.get("agreement") else None
        case "worker ready":
            return facts["worker_s"]["median"] if facts.get("worker_s") else None
        case "further worker":
            return facts["memory"]["further_worker"]["pss"] if facts.get("memory") else None
        case "peak":
            return float(throughput(one)["median"] * figures["flops"] / results["limit"]["fp32"])
    raise ValueError(f"{target.figure} is no figure")
