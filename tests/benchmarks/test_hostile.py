"""The requests are the same in every run, what is right is what the README says, and the judge finds what is wrong."""

import base64
import json
import os
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.hostile.case import GOOD as GOOD_KIND
from benchmarks.hostile.case import MARK, SLOW, Case, Expected, Outcome, Shape
from benchmarks.hostile.contract import Body, Contract, ImageRules, TextRules
from benchmarks.hostile.cost import cost_of, largest
from benchmarks.hostile.generator import MAKERS, Generator
from benchmarks.hostile.judge import HARMED, INVALID, STATUS, Judge
from benchmarks.hostile.log import Log
from benchmarks.hostile.pace import SLOW_S, USUAL_S, Cost, Pace, Watch
from benchmarks.hostile.prices import holds
from benchmarks.hostile.slow import BODIES, IMAGES
from marsmith.torchserve.worker import WorkerAnswer, WorkerRequest

JSON = "application/json"
GOOD = Outcome(frozenset({200}), "good")
TEXT = Contract(TextRules(), {"fine": GOOD})
IMAGE = Contract(ImageRules(), {b"jpeg": GOOD})


def expected(contract: Contract, value: object) -> Expected:
    return contract.body(Body(json.dumps(value).encode(), JSON))


def statuses(outcomes: Iterable[Outcome]) -> list[int]:
    return [status for outcome in outcomes for status in outcome.statuses]


@pytest.mark.parametrize("task", ["sentiment", "food"])
def test_a_number_is_the_same_request_in_every_run(task: str) -> None:
    one, other = Generator(task, 7), Generator(task, 7)
    assert [one.case(number) for number in range(300)] == [other.case(number) for number in range(300)]
    assert one.case(1) != Generator(task, 8).case(1)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["sentiment", "food"])
def test_every_kind_of_request_is_made_and_every_batch_has_a_good_one(task: str) -> None:
    batches = list(Generator(task, 7).batches(2000))
    cases = [case for batch in batches for case in batch]
    assert [case.number for case in cases] == list(range(2000))
    assert {case.kind.partition(":")[0] for case in cases} == {GOOD_KIND, SLOW, *MAKERS}
    assert all(any(case.kind == GOOD_KIND for case in batch) for batch in batches if len(batch) > 1)
    assert {len(batch) for batch in batches} == set(range(1, 17))


def test_every_text_that_is_not_blank_carries_the_canary() -> None:
    generator = Generator("sentiment", 7)
    made = [generator.instance(Random(number)) for number in range(300)]
    assert all(MARK in instance.value for instance in made if instance.kind != "blank")


@pytest.mark.parametrize(
    ("value", "shape", "outcomes"),
    [
        ("fine", Shape.ONE, [200]),
        ({"text": "x"}, Shape.ONE, [200]),
        ({"text": {"text": "x"}}, Shape.ONE, [422]),
        ({"data": ["x", " ", 5, {"b64": "x"}, [], {}]}, Shape.LIST, [200, 422, 422, 200, 422, 422]),
        ({"instances": ["x", None]}, Shape.PREDICTIONS, [200, 422]),
        ({"inputs": [{"shape": [2], "datatype": "BYTES", "data": ["x", ""]}]}, Shape.V2, [200, 422]),
        ({"inputs": [{"text": "x"}]}, Shape.LIST, [200]),
        ("\ud800", Shape.ONE, [400]),
        ("\u200b\u202e\n", Shape.ONE, [422]),
        ("é" * 524_288, Shape.ONE, [200]),
        ("é" * 524_289, Shape.ONE, [413]),
    ],
)
def test_the_contract_of_documents(value: object, shape: Shape, outcomes: list[int]) -> None:
    right = expected(TEXT, value)
    assert right.shape is shape
    assert statuses(right.outcomes) == outcomes
    assert right.statuses == ({200} if shape is not Shape.ONE else set(outcomes))


@pytest.mark.parametrize(
    ("value", "status"),
    [
        ([], 422),
        (["x"] * 65, 413),
        ({"instances": "x"}, 422),
        ({"inputs": [{"shape": [3], "datatype": "BYTES", "data": ["x"]}]}, 422),
        ({"inputs": [{"shape": [1], "datatype": "FP32", "data": [1.0]}]}, 422),
        ({"inputs": [{"shape": [1], "datatype": "BYTES", "data": ["x"]}], "id": 5}, 422),
    ],
)
def test_the_contract_refuses_whole_documents(value: object, status: int) -> None:
    assert expected(TEXT, value) == Expected(frozenset({status}))


def test_the_contract_of_bytes_and_forms() -> None:
    assert TEXT.body(Body("fine".encode("utf-16"), "text/plain", "utf-16")).outcomes == (GOOD,)
    assert TEXT.body(Body(b"\xff", "text/plain")).statuses == {400}
    assert TEXT.body(Body(b"x", "text/plain", "klingon")).statuses == {415}
    assert TEXT.body(Body(b"x", "image/png")).statuses == {415}
    assert TEXT.body(Body(b"{", "application/vnd.api+json")).statuses == {400}
    assert IMAGE.body(Body(b"jpeg", "text/plain")).statuses == {415}
    assert IMAGE.body(Body(b"jpeg", "image/png")).outcomes == (GOOD,)
    assert IMAGE.body(Body(b"jpg", "image/png")).statuses == {400}
    encoded = base64.b64encode(b"jpeg")
    assert IMAGE.form([Body(encoded), Body(b"x?"), Body(b"", "image/png")]).outcomes[0] == GOOD
    assert statuses(IMAGE.form([Body(encoded), Body(b"x?"), Body(b"", "image/png")]).outcomes) == [200, 400, 422]
    assert IMAGE.form([]).statuses == {422}
    assert expected(IMAGE, f"data:image/png;base64,{encoded.decode()}").outcomes == (GOOD,)
    assert expected(IMAGE, "data:image/png,x").statuses == {400}


def test_by_grpc_errors_come_as_results() -> None:
    tensor = {"name": "x", "datatype": "BYTES", "shape": [1], "data": ["?"]}
    body = Body(json.dumps({"model_name": "m", "id": "7", "inputs": [tensor]}).encode(), JSON)
    right = TEXT.body(body, headers=False)
    assert (right.shape, right.request_id, statuses(right.outcomes)) == (Shape.GRPC, "7", [400])


ALONE = {"label": "a", "score": 0.75, "scores": {"a": 0.75, "b": 0.25}, "tokens": 3, "truncated": False}
ERROR = {"error": {"code": 422, "type": "unprocessable", "message": "Nothing.", "request_id": "request-2"}}


def faults(right: Expected, value: object, status: int = 200, content_type: str | None = None) -> list[str]:
    body = value if isinstance(value, bytes) else json.dumps(value).encode()
    headers = {"content-type": content_type or "application/json; charset=utf-8"}
    case = Case(0, "test", WorkerRequest([]), right)
    return [fault.kind for fault in Judge({"good": ALONE}).faults(case, WorkerAnswer(status, "", headers, body), 2)]


def changed(value: Any, **fields: object) -> Any:
    return {**value, **fields}


def in_error(**fields: object) -> Any:
    return {"error": {**ERROR["error"], **fields}}


ONE, LIST = Expected.one(GOOD), Expected(frozenset({200}), Shape.LIST, (GOOD, Outcome.of(422)))
REFUSED = Expected.refusal(422)


def test_right_answers_have_no_fault() -> None:
    assert faults(ONE, ALONE) == []
    assert faults(ONE, changed(ALONE, score=0.75005, scores={"a": 0.75005, "b": 0.24995})) == []
    assert faults(LIST, [ALONE, ERROR]) == []
    assert faults(REFUSED, ERROR, 422) == []


@pytest.mark.parametrize(
    ("right", "value", "status", "fault"),
    [
        (ONE, ALONE, 500, STATUS),
        (REFUSED, in_error(code=400), 422, STATUS),
        (LIST, [ERROR, ERROR], 200, STATUS),
        (LIST, [ALONE, ALONE], 200, STATUS),
        (ONE, changed(ALONE, score=0.7502, scores={"a": 0.7502, "b": 0.2498}), 200, HARMED),
        (ONE, changed(ALONE, tokens=4), 200, HARMED),
        (ONE, changed(ALONE, truncated=True), 200, HARMED),
        (LIST, [ALONE], 200, INVALID),
        (LIST, ALONE, 200, INVALID),
        (ONE, changed(ALONE, label="b"), 200, INVALID),
        (ONE, changed(ALONE, scores={"a": 0.75, "b": 0.75}), 200, INVALID),
        (ONE, b'{"label": "a", "score": NaN}', 200, INVALID),
        (ONE, b'{"label": "a", "label": "a"}', 200, INVALID),
        (ONE, b"\xff", 200, INVALID),
        (ONE, b"", 200, INVALID),
        (REFUSED, b"null", 422, INVALID),
        (REFUSED, {"code": 422}, 422, INVALID),
        (REFUSED, in_error(request_id="request-1"), 422, INVALID),
        (REFUSED, in_error(message=f"What is {MARK}1?"), 422, INVALID),
        (REFUSED, in_error(detail=""), 422, INVALID),
    ],
)
def test_a_wrong_answer_is_found(right: Expected, value: object, status: int, fault: str) -> None:
    assert faults(right, value, status) == [fault]


def test_a_wrong_content_type_is_found() -> None:
    assert faults(ONE, ALONE, content_type="text/html") == [INVALID]


def batch(*kinds: str) -> list[Case]:
    return [Case(number, kind, WorkerRequest([]), ONE) for number, kind in enumerate(kinds)]


def test_neighbours_are_judged_by_time() -> None:
    """A batch may take two seconds of a core for each slow request in it, beside what all others take."""
    pace = Pace()
    usual, slow = batch("good", "form"), batch("good", "slow: JPEG of scans", "good")
    assert pace.add(usual, 0.5, Cost(USUAL_S - 0.1, 3)) == ""
    assert pace.add(slow, 2.5, Cost(USUAL_S + SLOW_S - 0.1, 100)) == ""
    assert pace.add(usual, 9.0, Cost(USUAL_S + 0.1, 3)) == "its batch took 6.1 s of a core, not 6.0"
    assert "not 8.0" in pace.add(slow, 9.0, Cost(USUAL_S + SLOW_S + 0.1, 90))
    assert (pace.beside_usual_s, pace.beside_slow_s, pace.slow) == ([0.5, 9.0], [2.5, 2.5, 9.0, 9.0], 2)
    assert pace.summary()["dearest"] == {"cpu_s": 8.1, "kind": "slow: JPEG of scans"}
    assert pace.summary()["largest"] == {"grown_mb": 100, "kind": "slow: JPEG of scans"}
    assert pace.rows()["beside a slow request"] == "5750 / 9000 ms"


def test_the_work_of_a_process_is_watched() -> None:
    watch = Watch(os.getpid())
    held = bytes(60_000_000).replace(b"\0", b"x")
    cost = watch.read()
    assert cost.seconds > 0
    assert len(held) / 1e6 * 0.9 < cost.grown_mb < 3 * len(held) / 1e6
    assert Watch(2**22).read() == Cost(0, 0)


@pytest.mark.parametrize("kind", BODIES)
def test_slow_requests_are_as_large_as_a_server_takes(kind: str) -> None:
    """config.properties: max_request_size."""
    body = BODIES[kind]()
    assert sum(len(part) for _, _, part in body.parts) <= 28_000_000
    assert body.parts


def test_what_an_image_costs_is_measured_in_a_process_of_its_own() -> None:
    cost = cost_of(IMAGES["PNG of colours"](1000))
    assert (cost.status, holds(cost)) == (200, True)
    assert 0 < cost.taken_s < 1
    assert 2 < cost.grown_mb < 40
    assert largest(lambda amount: bytes(amount * 1_000_000), 64) == 20  # too large a file is none that is allowed


def dishes(**scores: float) -> dict[str, Any]:
    return {"dishes": [{"label": label, "score": score, "nutrition": None} for label, score in scores.items()]}


def test_of_dishes_the_order_of_equals_is_open() -> None:
    judge = Judge({"good": dishes(ramen=0.5, sushi=0.2)})
    case = Case(0, "test", WorkerRequest([]), ONE)

    def found(value: object) -> list[str]:
        headers = {"content-type": "application/json; charset=utf-8"}
        answer = WorkerAnswer(200, "", headers, json.dumps(value).encode())
        return [fault.kind for fault in judge.faults(case, answer, 0)]

    assert found(dishes(ramen=0.5, sushi=0.2)) == found(dishes(ramen=0.5, pie=0.2)) == []
    assert found(dishes(ramen=0.5, sushi=0.21)) == found(dishes(ramen=0.5, pie=0.3)) == [HARMED]


@pytest.mark.parametrize("shift", range(3))
def test_a_canary_is_found_in_every_spelling(tmp_path: Path, shift: int) -> None:
    text = f"{'x' * shift}{MARK}0123456789 and more".encode()
    for leaked in (text, base64.b64encode(text), text.decode().encode("utf-16-le")):
        (tmp_path / "log").write_bytes(b"Backend received inference\n")
        log = Log(tmp_path / "log")
        assert not log.leaks()
        with (tmp_path / "log").open("ab") as stream:  # a line may be written in two halves
            stream.write(leaked[:5])
        assert not log.leaks()
        with (tmp_path / "log").open("ab") as stream:
            stream.write(leaked[5:])
        assert log.leaks()
        assert not log.leaks()
