"""BatchHandler: one list of requests in, one list of responses out; a bad request never touches its neighbours."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Generic

from handlers import stages
from handlers.engine import Network, available_cores, intra_op_threads, open_network
from handlers.envelopes import leave_bodies_unread, opened
from handlers.errors import NotSupported, Overloaded, RequestError
from handlers.golden import golden_requests
from handlers.metrics import DECODE, ENCODE, EXPLAIN, INSTANCES, NETWORK, REJECTED, Metrics
from handlers.requests import Item, Request, items
from handlers.responses import plain
from handlers.settings import Settings, SettingsError
from handlers.stages import PREDICT_INSTANCES, InstanceT, Job, ResultT
from handlers.turns import parts

logger = logging.getLogger("marsmith")

# Workers of every model on this machine together, set by whoever starts the server; else this model's own number.
WORKERS_VARIABLE = "MARSMITH_WORKERS"
# TorchServe ends a worker that takes longer than this for a batch (model-config.yaml), and every request in it.
RESPONSE_TIMEOUT_S = 120
# Nothing new is begun after this share of it; what was begun has the rest.
BEGIN_SHARE = 0.4


class BatchHandler(Generic[InstanceT, ResultT]):
    """What TorchServe calls: `initialize` once, then `handle` for each batch.

    A subclass gives `load`, which runs once, and three hooks, each with one plain-data job: `decode` (one item ->
    one instance), `predict` (instances -> results, batched) and `encode` (one result -> JSON value). To refuse an
    item, `decode` raises a RequestError. Any other exception is a fault of the handler: logged without the
    request's content, answered 500, for that one item only. `metrics` counts what the hooks tell it to.

    `threads` are those of the thread plan. With `parallel_decode`, as many items of a batch are decoded at once: for a
    `decode` that several threads may call, and that leaves Python's lock. `decode_threads` are then left to each.
    """

    parallel_decode: ClassVar[bool] = False
    settings: Settings
    model_dir: Path
    threads: int
    share_weights: bool
    decode_threads: int
    metrics: Metrics
    begin_seconds: float = BEGIN_SHARE * RESPONSE_TIMEOUT_S
    _begun: float = float("inf")

    def load(self) -> None:
        """Open what `predict` needs from `self.model_dir`."""

    def open_network(self) -> Network:
        """The archive's network, by the thread plan and the settings."""
        precision = self.settings.precision
        return open_network(self.model_dir, self.threads, precision, share_weights=self.share_weights)

    def decode(self, item: Item) -> InstanceT:
        """One item as it came -> one instance. Raises RequestError to refuse it."""
        raise NotImplementedError

    def predict(self, instances: Sequence[InstanceT]) -> Sequence[ResultT]:
        """The results of at least one instance, in order."""
        raise NotImplementedError

    def weight(self, instance: InstanceT) -> int:  # noqa: ARG002 - for a subclass to look at
        """How many ordinary instances this one costs `predict`."""
        return 1

    def encode(self, result: ResultT) -> object:
        """One result -> what json.dumps takes (arrays, tensors and their scalars too)."""
        raise NotImplementedError

    def explain(self, instance: InstanceT) -> object:  # noqa: ARG002 - for a subclass to look at
        """One instance -> its prediction and why, as JSON. Raises NotSupported where there is nothing to say."""
        raise NotSupported("This model's handler explains nothing.")

    def check_time(self, share: float = 1.0) -> None:
        """Raise Overloaded when a batch has taken this share of its time, after which nothing more may be begun."""
        if time.monotonic() > self._begun + share * self.begin_seconds:
            raise Overloaded

    def initialize(self, context: Any) -> None:
        """Read the settings and load the model.

        Raises RuntimeError with the reason, whatever went wrong: TorchServe's worker reports no other exception.
        """
        archive = Path(context.system_properties["model_dir"])
        self.model_dir = archive / "model"
        config = context.model_yaml_config or {}
        try:
            self.settings = Settings.load(self.model_dir / "serving.json", config.get("handler"))
            workers = int(os.environ.get(WORKERS_VARIABLE) or config.get("minWorkers") or 1)
            share = self.settings.options.share_weights
            own_workers = int(config.get("minWorkers") or 1)
            self.share_weights = own_workers > 1 if share == "auto" else share == "yes"
            self.threads = self.settings.options.threads or intra_op_threads(available_cores(), workers)
            self.decode_threads = self.threads
            self.begin_seconds = BEGIN_SHARE * float(config.get("responseTimeout") or RESPONSE_TIMEOUT_S)
            self.metrics = Metrics()
            self.load()
            warm = self._warm_up(golden_requests(archive))
            leave_bodies_unread()
        except (SystemExit, KeyboardInterrupt):
            raise
        except SettingsError as error:
            raise RuntimeError(f"Model failed to load: {error}") from error
        except BaseException as error:  # a Rust panic is no Exception
            raise RuntimeError(f"Model failed to load: {type(error).__name__}: {error}") from error
        name, version = self.settings.name, self.settings.version
        logger.info("%s %s loaded, %d threads, warmed up by %d golden instances", name, version, self.threads, warm)

    def _warm_up(self, requests: Sequence[Request]) -> int:
        """Answer golden requests for nobody, so that the first client's is not slow; how many instances they held.

        A network that cannot answer them raises, and is not served. What is refused is left out: an operator's limits
        may be narrower than the build's. No more is begun than in the time of one batch.
        """
        self._begun = time.monotonic()
        instances: list[InstanceT] = []
        for request in requests:
            with suppress(RequestError):
                instances += [stages.decoded(self, item) for item in items(request, sys.maxsize).items]
        del instances[self.settings.options.max_instances :]
        for part in self._parts(instances):
            with suppress(RequestError):
                self.check_time()
                for result in self.predict(part):
                    self._encode(result)
        self.metrics.send(None)
        return len(instances)

    def handle(self, data: list[dict[str, Any]], context: Any) -> list[Any]:
        """One body for each request of the batch; statuses and content types go through the context.

        Under a service envelope of TorchServe, `data` and the answers are what that has and needs (envelopes.py).
        """
        self._begun = time.monotonic()
        options = self.settings.options
        with self.metrics.stage(DECODE):
            batch = opened(data, context, options.work_ms, options.max_instances)
            jobs: list[Job[InstanceT, ResultT]] = [Job(request) for request in batch.requests]
            stages.find(self, jobs)
            stages.decode(self, jobs)
        accepted = [job for job in jobs if not job.refusal]
        predicted = [job for job in accepted if not job.request.explain]
        with self.metrics.stage(NETWORK):
            stages.predict(self, predicted)
        if explained := [job for job in accepted if job.request.explain]:
            with self.metrics.stage(EXPLAIN):
                stages.explain(self, explained)
        with self.metrics.stage(ENCODE):
            stages.encode(self, predicted)
            bodies = batch.answer([stages.respond(self, job) for job in jobs])
        self.metrics.add(INSTANCES, sum(len(job.found.items) for job in jobs))
        for error in (error for job in jobs for error in job.errors):
            self.metrics.add(REJECTED, kind=error.type)
        self.metrics.send(getattr(context, "metrics", None))
        return bodies

    def _encode(self, result: ResultT) -> object:
        return plain(self.encode(result))

    def _parts(self, instances: Sequence[InstanceT]) -> Iterator[Sequence[InstanceT]]:
        """The instances that `predict` gets at once."""
        return (instances[part] for part in parts(list(map(self.weight, instances)), PREDICT_INSTANCES))
