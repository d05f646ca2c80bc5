"""Rows as a run could have measured them."""

from typing import Any

from marsmith.tune.accuracy import Accuracy
from marsmith.tune.measure import Row
from marsmith.tune.setting import Setting

SETTING = Setting("fp32", workers=1, threads=2, batch_size=16, max_batch_delay_ms=5)


def row(setting: Setting = SETTING, **figures: Any) -> Row:
    """A row of 100 ± 1 requests/s, 10 ms for one client and 200 MB, where `figures` do not say otherwise."""
    usual: dict[str, Any] = {"per_second": 100.0, "noise": 1.0, "p50_ms": 300.0, "p95_ms": 400.0, "lone_p50_ms": 10.0}
    usual |= {"memory_bytes": 200_000_000, "failures": {}, "others": 0.0}
    return Row(setting, **{**usual, "accuracy": Accuracy(5, 1.0, 1e-6), **figures})
