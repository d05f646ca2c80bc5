"""What each part of an input adds to a network's logits, by asking the network about the input without some of them.

Shapley values, estimated over random orders of the parts (Castro, Gómez and Tejada 2009), each order together with its
reverse, which cancels much of the error (Mitchell et al. 2022). Neither gradients nor attention are looked at, so what
is explained is the very network that serves, in whatever precision and family. Each order's shares add up to the
difference between the logits of the whole input and those of the input without any part: so does their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from handlers.errors import Overloaded

BoolArray = npt.NDArray[np.bool_]
Float64Array = npt.NDArray[np.float64]
# The network: which parts are there, bool[N, parts] -> logits [N, labels].
Network = Callable[[BoolArray], npt.NDArray[np.floating]]

METHOD = "Shapley values, sampled over permutations"
# The same input is explained the same way each time.
SEED = 0
# Runs of the network between two looks at the clock.
RUNS_AT_ONCE = 16
# So many parts have no other orders than one and its reverse.
EXACT_PARTS = 2


@dataclass(frozen=True, slots=True)
class Explanation:
    """`shares` float64[parts, labels] add up to `logits` less `baseline`, float64[labels], after `runs` runs."""

    shares: Float64Array
    logits: Float64Array
    baseline: Float64Array
    runs: int


def most_parts(runs: int) -> int:
    """How many parts can be explained with that many runs: an order and its reverse take twice as many."""
    return max(1, runs // 2)


def explain(network: Network, parts: int, runs: int, check_time: Callable[[], None] = lambda: None) -> Explanation:
    """Explain an input of at least one part with about `runs` runs of the network; more runs are more exact.

    `check_time` raises Overloaded when no time is left: then the orders so far are the answer, or, where there is
    none, the exception passes through.
    """
    return explain_each([(network, parts)], runs, check_time)[0]


def explain_each(inputs: Sequence[tuple[Network, int]], runs: int, check_time: Callable[[], None]) -> list[Explanation]:
    """Explain several inputs, each a network and its number of parts, that share runs and time (see `explain`).

    They take turns, so that when time runs out each has an answer or none.
    """
    samplers = [_Sampler(network, parts, check_time) for network, parts in inputs]
    turns = zip_longest(*(_orders(parts, runs // len(inputs)) for _, parts in inputs))
    try:
        for turn in turns:
            for sampler, order in zip(samplers, turn, strict=True):
                if order is not None:
                    sampler.add(order)
    except Overloaded:
        if not all(sampler.orders for sampler in samplers):
            raise
    return [sampler.explanation() for sampler in samplers]


def _orders(parts: int, runs: int) -> Iterator[npt.NDArray[np.int64]]:
    """Random orders, each followed by its reverse: pairs, as many as the runs allow, and at least one.

    One pair is all that there is for one part or two.
    """
    rng = np.random.default_rng(SEED)
    for _ in range(max(1, (runs - 2) // (2 * (parts - 1))) if parts > EXACT_PARTS else 1):
        order = rng.permutation(parts)
        yield order
        yield order[::-1]


class _Sampler:
    """One input's explanation as it grows."""

    def __init__(self, network: Network, parts: int, check_time: Callable[[], None]) -> None:
        self._network = network
        self._parts = parts
        self._check_time = check_time
        self._known: dict[bytes, Float64Array] = {}
        self._total: Float64Array = np.zeros(())
        self.orders = 0

    def add(self, order: npt.NDArray[np.int64]) -> None:
        """Let one order speak. Raises Overloaded, and then it has not spoken."""
        self._check_time()
        shares = np.empty((self._parts, self._ask(_all(self._parts)).shape[1]))
        shares[order] = np.diff(self._ask(_growing(order)), axis=0)
        self._total = self._total + shares
        self.orders += 1

    def explanation(self) -> Explanation:
        """The mean of the orders so far, at least one."""
        baseline, logits = self._ask(_all(self._parts))
        return Explanation(self._total / self.orders, logits, baseline, len(self._known))

    def _ask(self, masks: BoolArray) -> Float64Array:
        """The network's logits float64[N, labels] for bool[N, parts], of which it is asked none twice."""
        new = list({key: mask for mask in masks if (key := mask.tobytes()) not in self._known}.items())
        for begin in range(0, len(new), RUNS_AT_ONCE):
            self._check_time()
            keys, some = zip(*new[begin : begin + RUNS_AT_ONCE], strict=True)
            self._known |= zip(keys, self._network(np.stack(some)).astype(np.float64), strict=True)
        return np.stack([self._known[mask.tobytes()] for mask in masks])


def _all(parts: int) -> BoolArray:
    """bool[2, parts]: no part, and every part."""
    return np.array([[False] * parts, [True] * parts])


def _growing(order: npt.NDArray[np.int64]) -> BoolArray:
    """bool[parts + 1, parts]: no part, then one more in each row."""
    parts = len(order)
    masks = np.zeros((parts + 1, parts), dtype=bool)
    masks[:, order] = np.tri(parts + 1, parts, -1, dtype=bool)
    return masks
