"""Hold an answer against what is right: every way in which it is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from benchmarks.hostile.case import MARK, OK, Case, Outcome, Shape
from marsmith.torchserve.worker import WorkerAnswer

TOLERANCE = 1e-4
SCORES_SUM_TOLERANCE = 1e-3
CONTENT_TYPE = "application/json; charset=utf-8"
STATUS, INVALID, HARMED = "wrong status", "invalid answer", "harmed neighbour"
ERROR_FIELDS = {"code", "type", "message", "request_id"}
TENSOR = "predictions"
# The id that marsmith.torchserve.worker gives a request, by its place in the batch.
REQUEST_ID = "request-{}"


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with an answer; `text` never quotes what was sent."""

    kind: str
    text: str


class Judge:
    """Knows what each good instance is answered when it is alone: `known`, by its name."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        self._known = known

    def faults(self, case: Case, answer: WorkerAnswer, place: int) -> Iterator[Fault]:
        """Everything wrong with the answer to the request at `place` of its batch."""
        if answer.status not in case.expected.statuses:
            yield Fault(STATUS, f"status {answer.status}, not {_listed(case.expected.statuses)}")
            return
        try:
            body = strict(answer.body)
            if answer.headers.get("content-type") != CONTENT_TYPE:
                raise ValueError("the content type is not JSON's")
            yield from self._body(case, answer.status, body, REQUEST_ID.format(place))
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            yield Fault(INVALID, f"status {answer.status}: {type(error).__name__}: {error}")

    def _body(self, case: Case, status: int, body: Any, request_id: str) -> Iterator[Fault]:
        expected = case.expected
        if expected.shape is Shape.ANY and status == OK:
            return
        if status != OK:
            error = _tensor(body, "", grpc=True)[0] if expected.shape is Shape.GRPC else body
            check_error(error, request_id)
            if error["error"]["code"] != status:
                yield Fault(STATUS, f"status {status}, but the body says {error['error']['code']}")
            return
        results = _results(body, expected.shape, expected.request_id or request_id)
        if len(results) != len(expected.outcomes):
            raise ValueError(f"{len(results)} results for {len(expected.outcomes)} instances")
        for place, (result, outcome) in enumerate(zip(results, expected.outcomes, strict=True)):
            yield from self._result(result, outcome, request_id, f"result {place}")

    def _result(self, result: Any, outcome: Outcome, request_id: str, where: str) -> Iterator[Fault]:
        status = OK
        if "error" in result:
            check_error(result, request_id)
            status = result["error"]["code"]
        if status not in outcome.statuses:
            yield Fault(STATUS, f"{where} has status {status}, not {_listed(outcome.statuses)}")
        elif status == OK:
            check_result(result)
            if outcome.good and (harm := difference(self._known[outcome.good], result)):
                yield Fault(HARMED, f"{where}, {outcome.good}: {harm}")


def strict(body: bytes) -> Any:
    """The JSON value. Raises ValueError for what RFC 8259 does not know: NaN, infinities, names that stand twice."""
    return json.loads(body.decode("utf-8"), parse_constant=_refuse, object_pairs_hook=_unique)


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in an object")
    return found


def check_error(body: Any, request_id: str) -> None:
    """Raise ValueError unless the body is an error as the README has it, which quotes nothing of the request."""
    error = body["error"]
    if set(body) != {"error"} or set(error) != ERROR_FIELDS:
        raise ValueError("an error has other fields than documented")
    if type(error["code"]) is not int or not error["type"] or not error["message"]:
        raise ValueError("an error says nothing")
    if error["request_id"] != request_id:
        raise ValueError("an error names another request")
    if MARK in error["message"] + error["type"]:
        raise ValueError("an error quotes the request")


def check_result(result: Mapping[str, Any]) -> None:
    """Raise ValueError unless the result is a label with probabilities, or dishes with theirs."""
    scores = scores_of(result)
    if not scores or not all(0 <= score <= 1 for score in scores.values()):
        raise ValueError("scores are no probabilities")
    if "dishes" in result:
        return
    if abs(math.fsum(scores.values()) - 1) > SCORES_SUM_TOLERANCE or result["score"] != max(scores.values()):
        raise ValueError("scores do not fit together")
    if scores[result["label"]] != result["score"] or type(result["truncated"]) is not bool or result["tokens"] < 1:
        raise ValueError("a result's fields do not fit together")


def scores_of(result: Mapping[str, Any]) -> dict[str, float]:
    """A result's scores by label."""
    if "dishes" in result:
        return {dish["label"]: dish["score"] for dish in result["dishes"]}
    return dict(result["scores"])


def difference(alone: Mapping[str, Any], got: Mapping[str, Any]) -> str:
    """Where an answer is not the one that the instance gets alone; empty where it is.

    Of dishes, only the best are answered: one that is missing has at most the last one's score.
    """
    if any(alone.get(key) != got.get(key) for key in ("tokens", "truncated")):
        return "another part of the text was read"
    before, after = scores_of(alone), scores_of(got)
    last_before, last_after = min(before.values()), min(after.values())
    for label in before.keys() | after.keys():
        moved = abs(before.get(label, last_before) - after.get(label, last_after))
        if not moved <= TOLERANCE:
            return f"the score of {label} moved by {moved:.3g}"
    return ""


def _results(body: Any, shape: Shape, request_id: str) -> list[Any]:
    match shape:
        case Shape.ONE:
            return [body]
        case Shape.LIST:
            return _list(body)
        case Shape.PREDICTIONS:
            if set(body) != {"predictions"}:
                raise ValueError("a v1 answer has other fields than `predictions`")
            return _list(body["predictions"])
    return _tensor(body, request_id, grpc=shape is Shape.GRPC)


def _tensor(body: Any, request_id: str, *, grpc: bool) -> list[Any]:
    (tensor,) = body["outputs"]
    if set(body) != {"model_name", "model_version", "id", "outputs"} or (request_id and body["id"] != request_id):
        raise ValueError("a v2 answer has other fields than documented")
    data = _list(tensor["data"])
    if (tensor["name"], tensor["datatype"], tensor["shape"]) != (TENSOR, "BYTES", [len(data)]):
        raise ValueError("a v2 answer's tensor is not as documented")
    return data if grpc else [strict(one.encode("utf-8")) for one in data]


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError("an answer is no list")
    return value


def _listed(statuses: frozenset[int]) -> str:
    return " or ".join(map(str, sorted(statuses)))
