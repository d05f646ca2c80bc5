"""One request with what a right answer to it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

from marsmith.torchserve.worker import WorkerRequest

# Every text holds a word that begins so; none may be in a log.
MARK = "zqcanary"
# The kind of a request that must be answered as when it is alone.
GOOD = "good"
# How the kinds of requests that ask for much work begin.
SLOW = "slow"
OK, MALFORMED, TOO_LARGE, UNSUPPORTED, UNPROCESSABLE = 200, 400, 413, 415, 422


class Shape(Enum):
    """How an answer of status 200 holds its results."""

    ONE = "the result itself"
    LIST = "a list"
    PREDICTIONS = "an object with `predictions`, a list"
    V2 = "a v2 response"
    GRPC = "a v2 response whose data are no strings; errors come in it too"
    ANY = "not known: the request is at the edge of what is read at all"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What may become of one instance: its statuses, and the name of the good instance whose answer it must get."""

    statuses: frozenset[int]
    good: str = ""

    @classmethod
    def of(cls, *statuses: int) -> Outcome:
        """An instance that may end in these statuses."""
        return cls(frozenset(statuses))


@dataclass(frozen=True, slots=True)
class Expected:
    """A right answer: its statuses, its shape, and the outcome of each instance; `request_id` is the client's own."""

    statuses: frozenset[int]
    shape: Shape = Shape.ONE
    outcomes: tuple[Outcome, ...] = ()
    request_id: str = ""

    @classmethod
    def refusal(cls, *statuses: int, shape: Shape = Shape.ONE) -> Expected:
        """An error for the request as a whole."""
        return cls(frozenset(statuses), shape)

    @classmethod
    def one(cls, outcome: Outcome) -> Expected:
        """One instance, whose status is the request's."""
        return cls(outcome.statuses, Shape.ONE, (outcome,))


@dataclass(frozen=True, slots=True)
class Case:
    """Request `number` of a run. `kind` says what was done, never with what content."""

    number: int
    kind: str
    request: WorkerRequest
    expected: Expected

    @property
    def slow(self) -> bool:
        """Whether it asks for much work."""
        return self.kind.startswith(SLOW)


def canary(rng: Random) -> str:
    """A word that stands in no log by chance."""
    return f"{MARK}{rng.getrandbits(40):010x}"
