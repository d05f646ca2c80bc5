"""BatchHandler: one list of requests in, one list of responses out; a bad request never touches its neighbours."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from handlers.engine import Network, available_cores, intra_op_threads, open_network
from handlers.errors import NotSupported, Overloaded, RequestError, TooLarge, UnprocessableInstance
from handlers.golden import golden_requests
from handlers.guard import fault, guard
from handlers.kserve import V2Answer
from handlers.metrics import DECODE, ENCODE, EXPLAIN, INSTANCES, NETWORK, REJECTED, Metrics
from handlers.parallel import side_by_side
from handlers.requests import Item, Items, Request, items
from handlers.responses import Response, plain
from handlers.settings import Settings, SettingsError

logger = logging.getLogger("marsmith")

InstanceT = TypeVar("InstanceT")
ResultT = TypeVar("ResultT")

# Workers of every model on this machine together, set by whoever starts the server; else this model's own number.
WORKERS_VARIABLE = "MARSMITH_WORKERS"
# TorchServe ends a worker that takes longer than this for a batch (model-config.yaml), and every request in it.
RESPONSE_TIMEOUT_S = 120
# Nothing new is begun after this share of it; what was begun has the rest.
BEGIN_SHARE = 0.4
# Instances, by weight, that `predict` gets at once, so that the clock is looked at between.
PREDICT_INSTANCES = 16


@dataclass(slots=True)
class _Job:
    """One request on its way: per item the item, its instance, its result, or the error that stands in its place."""

    request: Request
    shape: Items = field(default_factory=lambda: Items([]))
    slots: list[Any] = field(default_factory=list)
    failure: RequestError | None = None

    @property
    def errors(self) -> list[RequestError]:
        """What was refused of it: the whole, or some of its instances."""
        return [self.failure] if self.failure else [slot for slot in self.slots if isinstance(slot, RequestError)]


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
    _deadline: float = float("inf")

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

    def check_time(self) -> None:
        """Raise Overloaded when a batch has taken so long that nothing more of it may be begun."""
        if time.monotonic() > self._deadline:
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
        self._deadline = time.monotonic() + self.begin_seconds
        instances: list[InstanceT] = []
        for request in requests:
            with suppress(RequestError):
                instances += [self._decode(item) for item in items(request).items]
        del instances[self.settings.options.max_instances :]
        for part in self._parts(instances):
            with suppress(RequestError):
                self.check_time()
                for result in self.predict(part):
                    self._encode(result)
        self.metrics.send(None)
        return len(instances)

    def handle(self, data: list[dict[str, Any]], context: Any) -> list[bytes]:
        """One body for each request of the batch; statuses and content types go through the context."""
        self._deadline = time.monotonic() + self.begin_seconds
        with self.metrics.stage(DECODE):
            work_ms = self.settings.options.work_ms
            jobs = [self._open(Request.of(fields, context, index, work_ms)) for index, fields in enumerate(data)]
            _fill(jobs, self._decode_in_time)
        with self.metrics.stage(NETWORK):
            _fill([job for job in jobs if not job.request.explain], self._predict_in_time)
        if explained := [job for job in jobs if job.request.explain and not job.failure]:
            with self.metrics.stage(EXPLAIN):
                _fill(explained, self._explain_in_time)
        with self.metrics.stage(ENCODE):
            bodies = [self._respond(job).send(context, index) for index, job in enumerate(jobs)]
        self.metrics.add(INSTANCES, sum(len(job.slots) for job in jobs))
        for error in (error for job in jobs for error in job.errors):
            self.metrics.add(REJECTED, kind=error.type)
        self.metrics.send(getattr(context, "metrics", None))
        return bodies

    def _open(self, request: Request) -> _Job:
        job = _Job(request)
        limit = self.settings.options.max_instances
        try:
            if request.explain and not self.settings.options.explain_runs:
                raise NotSupported("This archive explains nothing: it was built without explain = true.")
            job.shape = items(request)
            if not job.shape.items:
                raise UnprocessableInstance("The list is empty: send at least one instance.")
            if len(job.shape.items) > limit:
                raise TooLarge(f"At most {limit} instances fit in one request.")
            job.slots = list(job.shape.items)
        except RequestError as error:
            job.failure = error
        except Exception as error:
            job.failure = fault(error)
        return job

    def _decode_in_time(self, found: Sequence[Item]) -> list[InstanceT | RequestError]:
        at_once = max(1, min(self.threads, len(found))) if self.parallel_decode else 1
        self.decode_threads = self.threads // at_once
        return side_by_side(partial(guard, self._decode), found, at_once)

    def _decode(self, item: Item) -> InstanceT:
        self.check_time()
        if isinstance(item.value, RequestError):
            raise item.value
        return self.decode(item)

    def _predict_in_time(self, instances: Sequence[InstanceT]) -> list[ResultT | RequestError]:
        results: list[ResultT | RequestError] = []
        for part in self._parts(instances):
            late = time.monotonic() > self._deadline
            results.extend([Overloaded()] * len(part) if late else self._predict(part))
        return results

    def _explain_in_time(self, instances: Sequence[InstanceT]) -> list[Any]:
        def explained(instance: InstanceT) -> object:
            self.check_time()
            return self.explain(instance)

        return [guard(explained, instance) for instance in instances]

    def _parts(self, instances: Sequence[InstanceT]) -> Iterator[Sequence[InstanceT]]:
        part: list[InstanceT] = []
        weight = 0
        for instance in instances:
            weight += self.weight(instance)
            if part and weight > PREDICT_INSTANCES:
                yield part
                part, weight = [], self.weight(instance)
            part.append(instance)
        if part:
            yield part

    def _predict(self, instances: Sequence[InstanceT]) -> Sequence[ResultT | RequestError]:
        """Results in order; when the batch fails, each instance is tried alone, so that only the culprit fails."""
        try:
            results = self.predict(instances)
            if len(results) == len(instances):
                return results
            raise ValueError(f"predict gave {len(results)} results for {len(instances)} instances")
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:  # a Rust panic is no Exception
            if len(instances) == 1:
                return [fault(error)]
        return [self._predict([instance])[0] for instance in instances]

    def _respond(self, job: _Job) -> Response:
        if job.failure is None:
            encode = plain if job.request.explain else self._encode
            job.slots = [s if isinstance(s, RequestError) else guard(encode, s) for s in job.slots]
            errors = [slot for slot in job.slots if isinstance(slot, RequestError)]
            if len(errors) == len(job.slots) and not job.shape.many:
                job.failure = errors[0]
        try:
            if job.failure is not None:
                raise job.failure
            return Response.ok(self._body(job))
        except RequestError as error:
            return self._refusal(job, error)
        except Exception as error:
            return self._refusal(job, fault(error))

    def _refusal(self, job: _Job, error: RequestError) -> Response:
        job.failure = error
        envelope, body = job.shape.envelope, error.body(job.request.request_id)
        if isinstance(envelope, V2Answer) and envelope.grpc:
            body = envelope.wrap([body], self.settings.name, self.settings.version)
        return Response.error(error.status, body)

    def _encode(self, result: ResultT) -> object:
        return plain(self.encode(result))

    def _body(self, job: _Job) -> object:
        if not job.shape.many:
            return job.slots[0]
        values = [s.body(job.request.request_id) if isinstance(s, RequestError) else s for s in job.slots]
        envelope = job.shape.envelope
        if isinstance(envelope, V2Answer):
            return envelope.wrap(values, self.settings.name, self.settings.version)
        return values if envelope is None else {envelope: values}


def _fill(jobs: list[_Job], answer: Callable[[list[Any]], list[Any]]) -> None:
    """Put what `answer` makes of all the jobs' instances in their places."""
    places = [(job, i) for job in jobs for i, slot in enumerate(job.slots) if not isinstance(slot, RequestError)]
    for (job, place), result in zip(places, answer([job.slots[i] for job, i in places]), strict=True):
        job.slots[place] = result
