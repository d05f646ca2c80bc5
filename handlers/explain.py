"""What each part of an input adds to a network's logits, by asking the network about the input without some of them.

Shapley values, estimated over random orders of the parts (Castro, Gómez and Tejada 2009), each order together with its
reverse, which cancels much of the error (Mitchell et al. 2022). Neither gradients nor attention are looked at, so what
is explained is the very network that serves, in whatever precision and family. Each order's shares add up to the
difference between the logits of the whole input and those of the input without any part: so does their mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

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
    memory = _Memory(network, check_time)
    baseline, logits = memory.ask(np.array([[False] * parts, [True] * parts]))
    total = np.zeros((parts, len(logits)))
    orders = 0
    for order in _orders(parts, runs):
        try:
            total[order] += np.diff(memory.ask(_growing(order)), axis=0)
        except Overloaded:
            if not orders:
                raise
            break
        orders += 1
    return Explanation(total / orders, logits, baseline, memory.runs)


def _orders(parts: int, runs: int) -> Iterator[npt.NDArray[np.int64]]:
    """Random orders, each followed by its reverse: pairs, as many as the runs allow, and at least one."""
    rng = np.random.default_rng(SEED)
    for _ in range(max(1, (runs - 2) // max(1, 2 * (parts - 1)))):
        order = rng.permutation(parts)
        yield order
        yield order[::-1]


def _growing(order: npt.NDArray[np.int64]) -> BoolArray:
    """bool[parts + 1, parts]: no part, then one more in each row."""
    parts = len(order)
    masks = np.zeros((parts + 1, parts), dtype=bool)
    masks[:, order] = np.tri(parts + 1, parts, -1, dtype=bool)
    return masks


class _Memory:
    """The network, which is asked about no mask twice."""

    def __init__(self, network: Network, check_time: Callable[[], None]) -> None:
        self._network = network
        self._check_time = check_time
        self._known: dict[bytes, Float64Array] = {}

    @property
    def runs(self) -> int:
        return len(self._known)

    def ask(self, masks: BoolArray) -> Float64Array:
        """float64[N, labels] of bool[N, parts]."""
        new = list({key: mask for mask in masks if (key := mask.tobytes()) not in self._known}.items())
        for begin in range(0, len(new), RUNS_AT_ONCE):
            self._check_time()
            keys, some = zip(*new[begin : begin + RUNS_AT_ONCE], strict=True)
            self._known |= zip(keys, self._network(np.stack(some)).astype(np.float64), strict=True)
        return np.stack([self._known[mask.tobytes()] for mask in masks])
