"""In which order a batch's instances are worked on: those of cheap requests first, so that no other starves them.

When the time of a batch is over, what was not begun is answered 503: so that falls on the requests that cost most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

from handlers.errors import RequestError

ArgumentT = TypeVar("ArgumentT")
ValueT = TypeVar("ValueT")


class Place(NamedTuple):
    """Where an instance stands: which request of the batch it is of, and which of its instances it is."""

    request: int
    instance: int


def cheapest_first(
    requests: Sequence[Sequence[ArgumentT | RequestError]], cost: Callable[[ArgumentT], int]
) -> list[Place]:
    """The places of all instances that are no error, by what their requests' instances cost together.

    Requests that cost the same keep their order, as do the instances of each.
    """
    costs = [sum(cost(one) for one in instances if not isinstance(one, RequestError)) for instances in requests]
    return [
        Place(request, instance)
        for request in sorted(range(len(requests)), key=costs.__getitem__)
        for instance, one in enumerate(requests[request])
        if not isinstance(one, RequestError)
    ]


def answered(
    requests: Sequence[Sequence[ArgumentT | RequestError]],
    places: Sequence[Place],
    values: Sequence[ValueT | RequestError],
) -> list[list[ValueT | RequestError]]:
    """`values` in the places of what they were made of; errors stay in theirs."""
    found: list[list[Any]] = [list(instances) for instances in requests]
    for place, value in zip(places, values, strict=True):
        found[place.request][place.instance] = value
    return found


def parts(weights: Sequence[int], most: int) -> Iterator[slice]:
    """Slices of what has these weights, each of at most `most` or of a single one, in order."""
    begin = total = 0
    for place, weight in enumerate(weights):
        if place > begin and total + weight > most:
            yield slice(begin, place)
            begin, total = place, 0
        total += weight
    if weights:
        yield slice(begin, len(weights))
