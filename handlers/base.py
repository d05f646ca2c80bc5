"""BatchHandler, what every handler here derives from: a list of requests in, a list of responses out.

How a batch goes through it, and where each step is:

    TorchServe's rows      -> requests    envelopes.py   what TorchServe hands over, a service envelope taken off
    requests               -> items       requests.py    JSON, a form, KServe or SageMaker: one item for each instance
    items                  -> instances   your `decode`  a refused item gets its error, and its neighbours do not
    instances              -> results     your `predict` a part of the batch at a time, the cheapest requests first
    results                -> values      your `encode`  what json.dumps takes
    values                 -> responses   answers.py     in the form that each request asked in, as bytes

stages.py carries a batch through these steps. A handler gives three hooks, and what runs once when a worker starts:

    class Lengths(BatchHandler[str, int]):
        def decode(self, item):            # one item -> one instance; raise a RequestError to refuse it
            return text_of(item, self.settings.options.max_text_bytes)

        def predict(self, instances):      # instances -> results, in order
            return [len(text) for text in instances]

        def encode(self, result):          # one result -> a JSON value
            return {"length": result}

sentiment.py and food.py are the two handlers that Marsmith ships.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar, Generic

from handlers import stages
from handlers.engine import Network, open_network
from handlers.envelopes import leave_bodies_unread, opened
from handlers.errors import NotSupported, Overloaded, RequestError
from handlers.golden import golden_requests
from handlers.metrics import DECODE, ENCODE, EXPLAIN, INSTANCES, NETWORK, REJECTED, Metrics
from handlers.plan import Plan
from handlers.requests import Item, Request, items
from handlers.responses import plain
from handlers.settings import Settings, SettingsError
from handlers.stages import PREDICT_INSTANCES, InstanceT, Job, ResultT
from handlers.turns import parts

logger = logging.getLogger("marsmith")


class BatchHandler(Generic[InstanceT, ResultT]):
    """What TorchServe calls: `initialize` once, then `handle` for each batch.

    An exception of a hook that is no RequestError is a fault of the handler: it is logged without the request's
    content and answered 500, for that one item only.
    """

    # What a subclass may set: with `parallel_decode`, as many items of a batch are decoded at once as there are
    # threads, for a `decode` that several threads may call, and that lets go of Python's lock.
    parallel_decode: ClassVar[bool] = False

    # What a subclass may use, once `load` is called.
    settings: Settings
    model_dir: Path
    threads: int  # of the network, by the thread plan
    decode_threads: int  # that are left to each call of `decode`
    share_weights: bool
    metrics: Metrics

    begin_seconds: float  # of a batch, after which nothing new is begun
    _begun: float = float("inf")

    # The hooks of a subclass.

    def load(self) -> None:
        """Open what `predict` needs from `self.model_dir`. Called once. Raises anything when it cannot be opened."""

    def decode(self, item: Item) -> InstanceT:
        """One item as it came -> one instance. Raises RequestError to refuse it."""
        raise NotImplementedError

    def predict(self, instances: Sequence[InstanceT]) -> Sequence[ResultT]:
        """The results of at least one instance, in order."""
        raise NotImplementedError

    def encode(self, result: ResultT) -> object:
        """One result -> what json.dumps takes (arrays, tensors and their scalars too)."""
        raise NotImplementedError

    def weight(self, instance: InstanceT) -> int:  # noqa: ARG002 - for a subclass to look at
        """How many ordinary instances this one costs `predict`."""
        return 1

    def explain(self, instance: InstanceT) -> object:  # noqa: ARG002 - for a subclass to look at
        """One instance -> its prediction and why, as JSON. Raises NotSupported where there is nothing to say."""
        raise NotSupported("This model's handler explains nothing.")

    # What the hooks may call.

    def open_network(self) -> Network:
        """The archive's network, by the thread plan and the settings."""
        precision = self.settings.precision
        return open_network(self.model_dir, self.threads, precision, share_weights=self.share_weights)

    def check_time(self, share: float = 1.0) -> None:
        """Raise Overloaded when a batch has taken this share of its time, after which nothing more may be begun."""
        if time.monotonic() > self._begun + share * self.begin_seconds:
            raise Overloaded

    # What TorchServe calls.

    def initialize(self, context: Any) -> None:
        """Read the settings, load the model and warm it up.

        Raises RuntimeError with the reason, whatever went wrong: TorchServe's worker reports no other exception.
        """
        try:
            warm = self._initialize(Path(context.system_properties["model_dir"]), context.model_yaml_config or {})
        except (SystemExit, KeyboardInterrupt):
            raise
        except SettingsError as error:
            raise RuntimeError(f"Model failed to load: {error}") from error
        except BaseException as error:  # a Rust panic is no Exception
            raise RuntimeError(f"Model failed to load: {type(error).__name__}: {error}") from error
        name, version = self.settings.name, self.settings.version
        logger.info("%s %s loaded, %d threads, warmed up by %d golden instances", name, version, self.threads, warm)

    def _initialize(self, archive: Path, config: Mapping[str, Any]) -> int:
        """Returns the number of instances that the model was warmed up with."""
        self.model_dir = archive / "model"
        self.settings = Settings.load(self.model_dir / "serving.json", config.get("handler"))
        plan = Plan.of(config, self.settings.options)
        self.threads = self.decode_threads = plan.threads
        self.share_weights, self.begin_seconds = plan.share_weights, plan.begin_seconds
        self.metrics = Metrics()
        self.load()
        warm = self._warm_up(golden_requests(archive))
        leave_bodies_unread()
        return warm

    def _warm_up(self, requests: Sequence[Request]) -> int:
        """Answer the golden requests, so that the first client's is not slow; returns how many instances they held.

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
