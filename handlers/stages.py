"""The stages of a batch: find the instances, decode them, ask the network about them or explain them, and respond.

Each looks at all requests of the batch together, at those that cost least first, and each leaves an error where it has
nothing else. So nothing that a request holds, and nothing that a hook raises, reaches another request.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from handlers.answers import answer, refuse
from handlers.errors import NotSupported, RequestError, TooLarge, UnprocessableInstance
from handlers.guard import fault, guard
from handlers.parallel import side_by_side
from handlers.requests import Item, Items, Request, items
from handlers.responses import Response, plain
from handlers.settings import Settings
from handlers.turns import Place, answered, cheapest_first, parts

InstanceT = TypeVar("InstanceT")
ResultT = TypeVar("ResultT")

# Instances, by weight, that `predict` gets at once, so that the clock is looked at between.
PREDICT_INSTANCES = 16
# Of a batch's time, what requests that cost more than others may take to be decoded: the network needs the rest for
# those that cost less.
DECODE_SHARE = 0.5


class Hooks(Protocol[InstanceT, ResultT]):
    """What the stages ask of a handler (see base.py)."""

    parallel_decode: ClassVar[bool]
    settings: Settings
    threads: int
    decode_threads: int

    def decode(self, item: Item, /) -> InstanceT: ...  # noqa: D102
    def predict(self, instances: Sequence[InstanceT], /) -> Sequence[ResultT]: ...  # noqa: D102
    def explain(self, instance: InstanceT, /) -> object: ...  # noqa: D102
    def weight(self, instance: InstanceT, /) -> int: ...  # noqa: D102
    def check_time(self, share: float = 1.0, /) -> None: ...  # noqa: D102
    def _encode(self, result: ResultT, /) -> object: ...


@dataclass(slots=True)
class Job(Generic[InstanceT, ResultT]):
    """One request on its way. Each stage fills its own list, in which the errors of the one before keep their places.

    `refusal` is what answers the request as a whole.
    """

    request: Request
    found: Items = field(default_factory=lambda: Items([]))
    instances: list[InstanceT | RequestError] = field(default_factory=list)
    results: list[ResultT | RequestError] = field(default_factory=list)
    values: list[Any | RequestError] = field(default_factory=list)
    refusal: RequestError | None = None

    @property
    def errors(self) -> list[RequestError]:
        """What was refused of it: the whole, or some of its instances."""
        return [self.refusal] if self.refusal else [value for value in self.values if isinstance(value, RequestError)]


Jobs = Sequence[Job[InstanceT, ResultT]]


def find(hooks: Hooks[InstanceT, ResultT], jobs: Jobs[InstanceT, ResultT]) -> None:
    """Find each request's instances, or refuse it."""

    def found_in(request: Request) -> Items:
        if request.explain and not hooks.settings.options.explain_runs:
            raise NotSupported("This archive explains nothing: it was built without explain = true.")
        return items(request, hooks.settings.options.max_instances)

    for job in jobs:
        found = guard(found_in, job.request)
        if isinstance(found, RequestError):
            job.refusal = found
            continue
        job.found = found
        if not found.items:
            job.refusal = UnprocessableInstance("The list is empty: send at least one instance.")


def decode(hooks: Hooks[InstanceT, ResultT], jobs: Jobs[InstanceT, ResultT]) -> None:
    """Decode the instances, several at once where the handler allows it; refuse requests that cost too much."""
    asked = [job.found.items for job in jobs]
    places = cheapest_first(asked, Item.size)
    sizes = [sum(map(Item.size, items)) for items in asked]

    def decoded_in_time(place: Place) -> InstanceT:
        if sizes[place.request] * len(sizes) > sum(sizes):
            hooks.check_time(DECODE_SHARE)
        hooks.check_time()
        return decoded(hooks, asked[place.request][place.instance])

    at_once = max(1, min(hooks.threads, len(places))) if hooks.parallel_decode else 1
    hooks.decode_threads = hooks.threads // at_once
    values = side_by_side(partial(guard, decoded_in_time), places, at_once)
    for job, instances in zip(jobs, answered(asked, places, values), strict=True):
        job.instances = instances
        job.refusal = job.refusal or _excess(hooks, job)


def decoded(hooks: Hooks[InstanceT, ResultT], item: Item) -> InstanceT:
    """One item -> one instance. Raises RequestError, and what the handler's hooks raise."""
    if isinstance(item.value, RequestError):
        raise item.value
    instance = hooks.decode(item)
    hooks.weight(instance)  # what that raises is this instance's fault
    return instance


def _excess(hooks: Hooks[InstanceT, ResultT], job: Job[InstanceT, ResultT]) -> RequestError | None:
    """What refuses a request whose instances together cost too much, though each alone does not."""
    if job.request.work.exceeded:
        return job.request.work.refusal()
    weights = [hooks.weight(one) for one in job.instances if not isinstance(one, RequestError)]
    most = hooks.settings.options.max_instances
    if len(weights) > 1 and sum(weights) > most:
        return TooLarge(f"The instances of one request may cost as much as {most} ordinary ones: send fewer at once.")
    return None


def predict(hooks: Hooks[InstanceT, ResultT], jobs: Jobs[InstanceT, ResultT]) -> None:
    """Ask the network about the instances, a part at a time."""
    asked = [job.instances for job in jobs]
    places = cheapest_first(asked, hooks.weight)
    instances: list[Any] = [asked[place.request][place.instance] for place in places]
    results: list[ResultT | RequestError] = []
    for part in parts(list(map(hooks.weight, instances)), PREDICT_INSTANCES):
        # In the order that the batch had them in.
        in_order = sorted(range(part.start, part.stop), key=places.__getitem__)
        values = dict(zip(in_order, _predicted(hooks, [instances[place] for place in in_order]), strict=True))
        results += [values[place] for place in range(part.start, part.stop)]
    for job, values_of_job in zip(jobs, answered(asked, places, results), strict=True):
        job.results = values_of_job


def _predicted(hooks: Hooks[InstanceT, ResultT], instances: Sequence[InstanceT]) -> Sequence[Any]:
    """Results in order, or errors in their places."""
    try:
        hooks.check_time()
    except RequestError as error:
        return [error] * len(instances)
    return _results(hooks, instances)


def _results(hooks: Hooks[InstanceT, ResultT], instances: Sequence[InstanceT]) -> Sequence[Any]:
    """Results in order; when the batch fails, each instance is tried alone, so that only the culprit fails."""
    try:
        results = hooks.predict(instances)
        if len(results) == len(instances):
            return results
        raise ValueError(f"predict gave {len(results)} results for {len(instances)} instances")
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # a Rust panic is no Exception
        if len(instances) == 1:
            return [fault(error)]
    return [_results(hooks, [instance])[0] for instance in instances]


def explain(hooks: Hooks[InstanceT, ResultT], jobs: Jobs[InstanceT, ResultT]) -> None:
    """Explain the instances."""

    def explained(instance: InstanceT) -> object:
        hooks.check_time()
        return plain(hooks.explain(instance))

    asked = [job.instances for job in jobs]
    places = cheapest_first(asked, hooks.weight)
    instances: list[Any] = [asked[place.request][place.instance] for place in places]
    values = [guard(explained, instance) for instance in instances]
    for job, values_of_job in zip(jobs, answered(asked, places, values), strict=True):
        job.values = values_of_job


def encode(hooks: Hooks[InstanceT, ResultT], jobs: Jobs[InstanceT, ResultT]) -> None:
    """Make JSON values of the results."""
    for job in jobs:
        job.values = [
            result if isinstance(result, RequestError) else guard(hooks._encode, result) for result in job.results
        ]


def respond(hooks: Hooks[InstanceT, ResultT], job: Job[InstanceT, ResultT]) -> Response:
    """The response to a request, whatever became of it."""
    settings = hooks.settings
    try:
        if job.refusal is None:
            return answer(job.request, job.found, job.values, settings)
    except RequestError as error:
        job.refusal = error
    except Exception as error:
        job.refusal = fault(error)
    return refuse(job.request, job.found, job.refusal, settings)
