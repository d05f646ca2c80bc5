"""What one worker uses of the machine: threads, memory, and the time of a batch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from handlers.cores import available_cores, intra_op_threads
from handlers.settings import Options

# Workers of every model on this machine together, set by whoever starts the server; else this model's own number.
WORKERS_VARIABLE = "MARSMITH_WORKERS"
# TorchServe ends a worker that takes longer than this for a batch (model-config.yaml), and every request in it.
RESPONSE_TIMEOUT_S = 120
# Nothing new is begun after this share of it; what was begun has the rest.
BEGIN_SHARE = 0.4


@dataclass(frozen=True, slots=True)
class Plan:
    """The `threads` of the network, whether workers share its weights, and a batch's seconds for beginning work."""

    threads: int
    share_weights: bool
    begin_seconds: float

    @classmethod
    def of(cls, config: Mapping[str, Any], options: Options, environ: Mapping[str, str] = os.environ) -> Plan:
        """The plan of model-config.yaml and the handler's options. Raises ValueError for a number that is none."""
        own_workers = int(config.get("minWorkers") or 1)
        workers = int(environ.get(WORKERS_VARIABLE) or own_workers)
        share = options.share_weights
        return cls(
            threads=options.threads or intra_op_threads(available_cores(), workers),
            share_weights=own_workers > 1 if share == "auto" else share == "yes",
            begin_seconds=BEGIN_SHARE * float(config.get("responseTimeout") or RESPONSE_TIMEOUT_S),
        )
