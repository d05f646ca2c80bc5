"""Plain words about a run: rules with named thresholds over its summary. Each says what was seen and what to change."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from training.bottleneck.records import RunFacts

# Shares of a step's time. Below them, what could be gained is less than a few per cent.
STARVING_DATA_SHARE = 0.10
BOUND_COMMUNICATION_SHARE = 0.20
BOUND_COMPUTE_SHARE = 0.70
# Of the kernels' time.
BOUND_GEMM_SHARE = 0.50
# Standard deviation over mean. Steps of equal work on a quiet machine stay below 0.1.
FLUCTUATING_CV = 0.25
# A phase that is a small part of a step may fluctuate.
FLUCTUATING_SHARE = 0.10
# Mean use of all cores, above which one more process slows the others.
BUSY_CORES = 0.90
# Cores' worth of time that other programs take.
OTHER_LOAD_CORES = 0.5
# The training process itself.
CORES_FOR_TRAINING = 1


@dataclass(frozen=True, slots=True)
class Findings:
    """What the rules look at: `share` and `cv` by phase in 0..1; what is not known is None.

    `cores_use` is the mean over all cores, 0..1, and `other_load` how many of them other programs keep busy.
    """

    share: dict[str, float]
    cv: dict[str, float]
    facts: RunFacts | None
    cores_use: float | None
    other_load: float | None
    gemm_share: float | None


@dataclass(frozen=True, slots=True)
class Advice:
    """The name of a rule that holds, the figures that it saw, and what to change."""

    rule: str
    seen: str
    change: str


def advise(found: Findings) -> list[Advice]:
    """All advice of the rules that hold, most pressing first; "balanced" where none does."""
    given = [advice for rule in RULES for advice in rule(found)]
    return given or list(_balanced(found))


def crowded(facts: RunFacts) -> bool:
    """Whether the loader alone has more processes than the machine has cores."""
    return facts.ranks * facts.workers > facts.cores


def fitting_workers(facts: RunFacts) -> int:
    """Workers of each rank such that every loader and training process has a core; at least 1."""
    return max(1, facts.cores // facts.ranks - CORES_FOR_TRAINING)


def _too_many_workers(found: Findings) -> Iterator[Advice]:
    facts, use = found.facts, found.cores_use
    if facts is None or not crowded(facts) or (use is not None and use < BUSY_CORES):
        return
    busy = "their use was not sampled" if use is None else f"{use:.0%} busy"
    yield Advice(
        "too many workers for the cores",
        f"{facts.ranks * facts.workers} loader workers share {facts.cores} cores ({busy}) with the training itself.",
        f"Use {_workers(fitting_workers(facts))}, and more only while the step gets faster.",
    )


def _starving(found: Findings) -> Iterator[Advice]:
    if found.share["data"] < STARVING_DATA_SHARE:
        return
    facts = found.facts
    seen = f"The step waits for data {found.share['data']:.0%} of its time"
    if facts is None:
        change = "Use more loader workers while there are idle cores, or make decoding and augmentation cheaper."
    elif facts.workers < fitting_workers(facts):
        seen += f" with {_workers(facts.workers)} and {facts.cores} cores"
        change = f"Use {_workers(fitting_workers(facts))}."
    else:
        seen += f" with {_workers(facts.workers)}, and no core of {facts.cores} is left for more"
        change = "Make loading cheaper: store smaller photos, decode at a fraction of the size, augment in batches."
    yield Advice("data loader starves", seen + ".", change)


def _communication(found: Findings) -> Iterator[Advice]:
    share = found.share["communication"]
    if share >= BOUND_COMMUNICATION_SHARE:
        yield Advice(
            "communication-bound",
            f"{share:.0%} of the step waits for the gradients of other ranks.",
            "Accumulate gradients over several batches, make batches larger, send gradients in bf16, or use fewer and "
            "faster nodes; compare the ranks first, because the wait for a slow one looks the same.",
        )


def _fluctuating(found: Findings) -> Iterator[Advice]:
    cv, facts = found.cv["backward"], found.facts
    if cv < FLUCTUATING_CV or found.share["backward"] < FLUCTUATING_SHARE:
        return
    if found.other_load is not None and found.other_load >= OTHER_LOAD_CORES:
        change = f"Other programs keep {found.other_load:.1f} cores busy: move them away, and measure again."
    elif facts is not None and facts.workers and facts.ranks * (facts.workers + facts.threads) > facts.cores:
        change = "Loader workers and training threads want more cores than there are: use fewer of either."
    else:
        change = "Look for inputs of uneven size, for a slow rank, and for other load on the machine."
    yield Advice("backward fluctuates", f"Backward's standard deviation is {cv:.0%} of its mean.", change)


def _gemm(found: Findings) -> Iterator[Advice]:
    facts, compute = found.facts, found.share["forward"] + found.share["backward"]
    if facts is None or facts.bf16 or not facts.bf16_capable:
        return
    if compute >= BOUND_COMPUTE_SHARE and found.gemm_share is not None and found.gemm_share >= BOUND_GEMM_SHARE:
        yield Advice(
            "GEMM-bound: try bf16",
            f"Forward and backward take {compute:.0%} of the step, matrix products {found.gemm_share:.0%} of the "
            f"kernels' time, in fp32 on a {facts.device} that can multiply in bf16.",
            "Train under bf16 autocast and compare the loss curves.",
        )


def _balanced(found: Findings) -> Iterator[Advice]:
    largest = max(found.share, key=lambda name: found.share[name])
    yield Advice(
        "balanced",
        f"No phase passes its threshold; {largest} is the largest with {found.share[largest]:.0%} of the step.",
        "Nothing cheap is left: larger batches, a smaller model or more devices are what remains.",
    )


def _workers(count: int) -> str:
    return f"{count} loader worker{'' if count == 1 else 's'} a rank"


RULES: tuple[Callable[[Findings], Iterator[Advice]], ...] = (
    _too_many_workers,
    _starving,
    _communication,
    _fluctuating,
    _gemm,
)
