"""What a batch held and cost, as counters of TorchServe's metrics.

Counters alone: a rate of one over a rate of another is an average over whatever time a query looks at. Seconds are
counted by the stage that they were spent in; each second belongs to one stage.
"""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

INSTANCES = "marsmith_instances_total"
REJECTED = "marsmith_rejected_total"
TOKENS = "marsmith_tokens_total"
TRUNCATED = "marsmith_truncated_total"
PIXELS = "marsmith_pixels_total"
SECONDS = "marsmith_seconds_total"

# Stages: tokenising is told apart from the rest of decoding.
DECODE, TOKENISE, NETWORK, EXPLAIN, ENCODE = "decode", "tokenise", "network", "explain", "encode"


class Counter(NamedTuple):
    """A counter's unit, and the dimension that it has beside TorchServe's own, if any."""

    unit: str = "count"
    dimension: str = ""


# All that Marsmith's handlers count. A handler of your own may count by any other name, and by kind (dimension Kind).
COUNTERS: Mapping[str, Counter] = {
    INSTANCES: Counter(),
    REJECTED: Counter(dimension="Reason"),
    TOKENS: Counter(),
    TRUNCATED: Counter(),
    PIXELS: Counter("pixels"),
    SECONDS: Counter("s", "Stage"),
}
# To the microsecond.
DECIMALS = 6
# What would end a dimension's value, or the line.
NO_KIND = re.compile(r"[^\w.-]+")


class Metrics:
    """The counts of one batch, until they are sent. `add` may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], float] = defaultdict(float)
        self._senders: dict[str, Any] = {}
        self._stages = [""]
        self._since = 0.0
        self._thread = 0

    def add(self, name: str, value: float = 1, kind: str = "") -> None:
        """Count `value`; `kind` is the value of the counter's own dimension.

        A counter is counted by kind always or never: TorchServe knows it by its first line.
        """
        key = name, NO_KIND.sub("_", kind)
        with self._lock:
            self._counts[key] += value

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time inside for a stage, and not for the stage around it.

        Threads of `parallel_decode` have no stages of their own: their seconds pass while the batch's thread waits, and
        are counted there.
        """
        thread = threading.get_ident()
        if len(self._stages) == 1:
            self._thread = thread
        if thread != self._thread:
            yield
            return
        self._tick()
        self._stages.append(name)
        try:
            yield
        finally:
            self._tick()
            self._stages.pop()

    def _tick(self) -> None:
        now = time.perf_counter()
        if self._stages[-1]:
            self.add(SECONDS, now - self._since, self._stages[-1])
        self._since = now

    def send(self, cache: Any) -> None:
        """Give the counts to TorchServe's metrics cache, which prints one line for each, and begin again.

        None, where there is no TorchServe, takes nothing.
        """
        with self._lock:
            counts, self._counts = self._counts, defaultdict(float)
        if cache is None:
            return
        for (name, kind), value in counts.items():
            values = [cache.model_name, "Model"]
            self._sender(cache, name, kind).add_or_update(round(value, DECIMALS), [kind, *values] if kind else values)

    def _sender(self, cache: Any, name: str, kind: str) -> Any:
        if name not in self._senders:
            self._senders[name] = _registered(cache, name, Counter(dimension="Kind" if kind else ""))
        return self._senders[name]


def _registered(cache: Any, name: str, unknown: Counter) -> Any:
    """The counter as metrics.yaml describes it, or else as COUNTERS does."""
    try:
        return cache.get_metric(name)
    except Exception:  # its class is TorchServe's, which handlers do not import
        unit, dimension = COUNTERS.get(name, unknown)
        dimensions = ["ModelName", "Level"]
        return cache.add_metric_to_cache(name, unit, [dimension, *dimensions] if dimension else dimensions)
