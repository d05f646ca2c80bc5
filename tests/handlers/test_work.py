"""What a request may cost is counted before it is done, and no request costs its neighbours their answers."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from handlers import stages
from handlers.errors import MalformedRequest, RequestError, TooLarge
from handlers.parsing import MAX_DIGITS, STRUCTURE_NS, parsed, parsed_lines
from handlers.requests import Item, Request, items
from handlers.turns import Place, answered, cheapest_first, parts
from handlers.work import NANOSECONDS_PER_MS, WORK_MS, Work
from tests.handlers.shouter import GOOD, GOOD_BODY, Shouter, between, make_root, text
from tests.handlers.transformers_reference import Reference
from tests.handlers.worker import Part, Post, Worker

JSON = "application/json"


def test_an_instance_that_alone_costs_too_much_fails_in_its_place() -> None:
    request = Work(milliseconds=10)
    first, second = request.share(), request.share()
    with pytest.raises(TooLarge, match="longer than 10 ms"):
        first.spend(11, NANOSECONDS_PER_MS)
    second.spend(10, NANOSECONDS_PER_MS)
    assert not request.exceeded


def test_a_request_whose_instances_together_cost_too_much_is_exceeded_in_whatever_order_they_spend() -> None:
    request = Work(milliseconds=10)
    request.share().spend(6, NANOSECONDS_PER_MS)
    with pytest.raises(TooLarge):
        request.share().spend(6, NANOSECONDS_PER_MS)
    assert request.exceeded


class Costly(Shouter):
    """A text of digits costs as many milliseconds, and weighs one part in a thousand of them."""

    parallel_decode = True

    def decode(self, item: Item) -> str:
        found = super().decode(item)
        if found.isdigit():
            item.work.spend(int(found), NANOSECONDS_PER_MS)
        return found

    def weight(self, instance: str) -> int:
        if instance == "no weight":
            raise ValueError(instance)
        return max(1, int(instance) // 1000) if instance.isdigit() else 1


def costly(tmp_path: Path, **options: int) -> Worker:
    return Worker(Costly(), make_root(tmp_path, work_ms=100_000, threads=3, **options))


def test_of_a_list_only_the_instance_that_costs_too_much_is_refused(tmp_path: Path) -> None:
    (answer,) = between(costly(tmp_path), Post.json(["a", "100001", "b"]))
    assert answer.status == 200
    assert [value.get("error", {}).get("code") for value in answer.value] == [None, 413, None]


def test_a_request_is_refused_as_a_whole_where_only_its_instances_together_cost_too_much(tmp_path: Path) -> None:
    """Which of them came last would depend on the threads that decode them."""
    worker = costly(tmp_path)
    for post in (Post.json(["60000", "a", "60000"]), Post.json({"instances": ["60000", "a", "60000"]})):
        (answer,) = between(worker, post)
        assert (answer.status, answer.error["type"]) == (413, "too_large")


@pytest.mark.parametrize(("texts", "status"), [(["63000", "a"], 200), (["64000", "a"], 413), (["70000"], 200)])
def test_instances_weigh_together_no_more_than_as_many_ordinary_ones(
    tmp_path: Path, texts: list[str], status: int
) -> None:
    """A single instance may weigh more than max_instances: its own limits bound it."""
    (answer,) = between(costly(tmp_path), Post.json(texts))
    assert answer.status == status


def test_a_weight_that_fails_costs_only_its_own_instance(tmp_path: Path) -> None:
    alone, several = between(costly(tmp_path), text("no weight"), Post.json(["a", "no weight"]))
    assert (alone.status, alone.error["type"]) == (500, "internal")
    assert [value.get("error", {}).get("code") for value in several.value] == [None, 500]


def test_texts_pay_for_their_bytes(reference: Reference) -> None:
    """26 texts of a megabyte took as long as a batch may, and five good neighbours got 503."""
    long = "a " * 500_000
    first, one, many, last = reference.worker.predict(GOOD, Post.json([long]), Post.json([long] * 26), GOOD)
    assert [first.status, one.status, many.status, last.status] == [200, 200, 413, 200]
    assert first.body == last.body


def test_a_text_of_all_windows_passes_and_many_of_them_do_not(reference: Reference) -> None:
    worker = Worker(type(reference.handler)(), reference.root, {"handler": {"long_text": "window", "max_windows": 100}})
    long = "day " * 5000
    one, many = worker.predict(Post.json([long]), Post.json([long, "a"]))
    assert one.value[0]["windows"] == 100
    assert (many.status, many.error["type"]) == (413, "too_large")


HOSTILE = {
    "numbers": b"[" + b"1," * 3_000_000 + b"1]",
    "lists": b"[" + b"[]," * 1_000_000 + b"1]",
    "objects": b"[" + b'{"":1},' * 700_000 + b"1]",
    "nested": b"[" * 3_000_000,
    "keys": b"{" + b'"a":1,' * 1_100_000 + b'"a":1}',
    "UTF-16": ("[" + "1," * 2_100_000 + "1]").encode("utf-16"),
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=list(HOSTILE))
def test_json_is_refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch, body: bytes) -> None:
    monkeypatch.setattr(json, "loads", lambda *_, **__: pytest.fail("it was parsed"))
    for parse in (parsed, lambda data, work: parsed_lines(data, work, 64)):
        with pytest.raises(TooLarge):
            parse(body, Work())


def test_what_json_may_hold_is_far_above_what_requests_hold() -> None:
    text = json.dumps({"instances": ["a, b: [c] {d}" * 1000] * 64}).encode()
    assert parsed(text, Work())["instances"]
    assert WORK_MS * NANOSECONDS_PER_MS // STRUCTURE_NS == 2_000_000


@pytest.mark.parametrize("digits", [MAX_DIGITS + 1, 5000])
def test_a_number_of_more_digits_than_any_float_has_is_malformed(digits: int) -> None:
    assert parsed(b"9" * MAX_DIGITS, Work()) == 10**MAX_DIGITS - 1
    with pytest.raises(MalformedRequest):
        parsed(b"9" * digits, Work())


class Uncounted(list[Any]):
    """A list that nobody may go through."""

    def __iter__(self) -> Any:
        pytest.fail("its elements were looked at")


@pytest.mark.parametrize(
    "value", [Uncounted([1] * 65), {"instances": Uncounted([1] * 65)}, {"text": Uncounted([1] * 65)}], ids=range(3)
)
def test_instances_are_counted_before_anything_is_made_of_them(value: Any) -> None:
    with pytest.raises(TooLarge, match="At most 64 instances"):
        items(Request({"body": value}, {"content-type": JSON}, ""))


def test_fields_of_a_form_are_counted_before_anything_is_made_of_them(worker: Worker) -> None:
    form = Post.form(*(Part(f"field{number}", b"x") for number in range(65)))
    (answer,) = between(worker, form)
    assert (answer.status, answer.error["type"]) == (413, "too_large")


def test_a_header_of_any_length_is_read_at_once(worker: Worker) -> None:
    (answer,) = between(worker, Post(b"x", "application/octet-stream; " + "charset*1=a;" * 50_000))
    assert answer.status in {200, 415}


class Slow(Shouter):
    """Each instance takes as many seconds as its number says, of a clock that the test owns, in each stage."""

    now = 0.0

    def decode(self, item: Item) -> str:
        found = super().decode(item)
        Slow.now += self._seconds(found)
        return found

    def predict(self, instances: Sequence[str]) -> Sequence[str]:
        Slow.now += sum(map(self._seconds, instances))
        return super().predict(instances)

    def explain(self, instance: str) -> object:
        Slow.now += self._seconds(instance)
        return {"shout": instance.upper()}

    def weight(self, instance: str) -> int:
        return 16 if instance.startswith("slow") else 1

    @staticmethod
    def _seconds(text: str) -> float:
        return 10 if text.startswith("slow") else 0


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worker:
    """Nothing is begun after 40 s, and nothing costly is decoded after 20."""
    monkeypatch.setattr(Slow, "now", 0.0)
    monkeypatch.setattr(time, "monotonic", lambda: Slow.now)
    options = {"explain_runs": 1, "max_instances": 500}
    return Worker(Slow(), make_root(tmp_path, **options), {"responseTimeout": 100})


@pytest.mark.parametrize("place", [0, 3, 5])
@pytest.mark.parametrize("explain", [False, True])
def test_neighbours_of_a_slow_request_are_answered_wherever_it_stands(slow: Worker, place: int, explain: bool) -> None:
    body = json.dumps([f"slow and long {number}" for number in range(9)]).encode()
    good = Post(GOOD.body, GOOD.content_type, explain=explain)
    posts = [good] * 5
    posts.insert(place, Post(body, JSON, explain=explain))
    answers = slow.predict(*posts)
    values = answers.pop(place).value
    assert [(answer.status, answer.body) for answer in answers] == [(200, GOOD_BODY)] * 5
    codes = [value.get("error", {}).get("code", 200) for value in values]
    assert set(codes) == {200, 503}  # as many of its own as there was time for


def test_a_batch_of_equals_is_answered_in_its_order(worker: Worker, handler: Shouter) -> None:
    worker.predict(text("aa"), text("b"), Post.json(["c", "d"]), text("e"))
    assert handler.batches == [["aa", "b", "c", "d", "e"]]


def test_requests_of_little_cost_come_first() -> None:
    error = RequestError()
    requests: list[list[int | RequestError]] = [[5, 5], [1, error, 2], [], [error], [3], [1, 1, 1]]
    places = cheapest_first(requests, int)
    assert [tuple(place) for place in places] == [(1, 0), (1, 2), (4, 0), (5, 0), (5, 1), (5, 2), (0, 0), (0, 1)]
    found = answered(requests, places, [str(number) for number in range(8)])
    assert found == [["6", "7"], ["0", error, "1"], [], [error], ["2"], ["3", "4", "5"]]
    assert places[0] == Place(request=1, instance=0)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [([], []), ([1], [[1]]), ([20], [[20]]), ([8, 8, 1], [[8, 8], [1]]), ([1, 20, 1], [[1], [20], [1]])],
)
def test_parts_are_at_most_so_heavy_or_a_single_one(weights: list[int], expected: list[list[int]]) -> None:
    assert [weights[part] for part in parts(weights, 16)] == expected
    assert stages.PREDICT_INSTANCES == 16
