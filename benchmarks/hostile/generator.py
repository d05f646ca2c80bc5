"""Request number -> request, the same in every run of one seed; and runs of numbers -> batches."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from benchmarks.hostile import documents, wire
from benchmarks.hostile.case import GOOD, OK, SLOW, Case, Expected, Outcome, Shape, canary
from benchmarks.hostile.contract import Body, Contract, ImageRules, Rules, TextRules
from benchmarks.hostile.damage import hostile_picture
from benchmarks.hostile.pictures import album
from benchmarks.hostile.slow import ANY_RIGHT, slow_request
from benchmarks.hostile.texts import good_texts, hostile_text, ordinary
from marsmith.torchserve.worker import WorkerRequest

LARGEST_BATCH = 16
# Of the requests, those that must be answered as when they were alone; and one at least in each batch.
GOOD_SHARE = 0.08
# And those that ask for much work: a run of 100,000 keeps to some 40 minutes on two cores.
SLOW_SHARE = 0.02
MOST_INSTANCES = 4
# The largest files and texts are not sent in lists, where nothing more would be learnt from so much more work.
LARGEST_IN_A_LIST = 100_000

Made = tuple[WorkerRequest, Expected]


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance as JSON has it and as a raw body has it, with what may become of it."""

    kind: str
    value: str
    header: str
    body: Body
    outcome: Outcome


@dataclass(slots=True)
class Generator:
    """Makes the requests to one model: `task` is "sentiment" or "food"."""

    task: str
    seed: int
    good: dict[str, Instance] = field(default_factory=dict)

    def __post_init__(self) -> None:
        made = _good_texts() if self.task == "sentiment" else _good_pictures()
        self.good = {instance.outcome.good: instance for instance in made}

    def case(self, number: int, *, good: bool = False) -> Case:
        """Request `number`; with `good`, one that must be answered well."""
        rng = Random(f"{self.seed} {self.task} {number}")
        if rng.random() < GOOD_SHARE or good:
            instance = rng.choice(list(self.good.values()))
            contract = self._contract([instance])
            request, expected = _alone(rng, instance, contract)
            while expected.statuses != {OK}:  # a form that is read as none
                request, expected = _alone(rng, instance, contract)
            return Case(number, GOOD, request, expected)
        if rng.random() < SLOW_SHARE:
            slow = slow_request(rng, self.task)
            return Case(number, f"{SLOW}: {slow.kind}", slow.request, ANY_RIGHT)
        kinds = {kind: weight for kind, (weight, _) in MAKERS.items()}
        kind = rng.choices(list(kinds), list(kinds.values()))[0]
        what, (request, expected) = MAKERS[kind][1](self, rng)
        return Case(number, f"{kind}: {what}" if what else kind, request, expected)

    def batches(self, requests: int) -> Iterator[list[Case]]:
        """All of a run's batches in order; of two requests or more, one is good."""
        rng = Random(f"{self.seed} {self.task} batches")
        begin = 0
        while begin < requests:
            size = min(rng.randint(1, LARGEST_BATCH), requests - begin)
            cases = [self.case(number) for number in range(begin, begin + size)]
            if size > 1 and not any(case.kind == GOOD for case in cases):
                cases[-1] = self.case(cases[-1].number, good=True)
            yield cases
            begin += size

    def instance(self, rng: Random) -> Instance:
        """A hostile instance."""
        if self.task == "food":
            kind, data, outcome = hostile_picture(rng)
            header, body = wire.typed(rng, data, (*wire.IMAGE_TYPES, *wire.BINARY_TYPES[1:]))
            return Instance(kind, _base64(rng, data), header, body, outcome)
        kind, text = hostile_text(rng)
        header, body = wire.in_charset(rng, text)
        return Instance(kind, text, header, body, TextRules().value(text, {}))

    def instances(self, rng: Random) -> list[Instance]:
        """A few instances, good ones among them."""
        good = list(self.good.values())
        several = [
            self.instance(rng) if rng.random() < 5 / 6 else rng.choice(good)
            for _ in range(rng.randint(0, MOST_INSTANCES))
        ]
        return [one for one in several if len(one.body.data) <= LARGEST_IN_A_LIST]

    def strings(self, rng: Random) -> list[str]:
        """Strings for any document: a good instance, and others that are none."""
        return [
            rng.choice(list(self.good.values())).value,
            ordinary(rng),
            canary(rng),
            "",
            "é\u200b",
            "data:,x",
            "AAAA",
        ]

    def _contract(self, instances: Sequence[Instance]) -> Contract:
        known: dict[str | bytes, Outcome] = {}
        for one in (*self.good.values(), *instances):
            known[one.value] = one.outcome
            if self.task == "food":
                known[one.body.data] = one.outcome
        return Contract(self._rules, known)

    @property
    def _rules(self) -> Rules:
        return TextRules() if self.task == "sentiment" else ImageRules()

    def alone(self, rng: Random) -> tuple[str, Made]:
        """One hostile instance in a form for one."""
        instance = self.instance(rng)
        return instance.kind, _alone(rng, instance, self._contract([instance]))

    def many(self, rng: Random) -> tuple[str, Made]:
        """Several instances in a document."""
        instances = self.instances(rng)
        value = documents.whole(rng, [one.value for one in instances])
        return "", self._document(rng, documents.written(rng, value), instances)

    def wrong_tensors(self, rng: Random) -> tuple[str, Made]:
        """KServe v2 with something wrong in it."""
        instances = self.instances(rng)
        value = documents.broken_tensors(rng, [one.value for one in instances])
        return "", self._document(rng, documents.written(rng, value), instances)

    def grpc(self, rng: Random) -> tuple[str, Made]:
        """KServe v2 by gRPC."""
        instances = self.instances(rng)
        files = [
            one.value.encode("utf-8", "surrogatepass") if self.task != "food" else one.body.data for one in instances
        ]
        body = Body(documents.written(rng, documents.by_grpc(rng, files)), "application/json")
        return "", (wire.grpc(body), self._contract(instances).body(body, headers=False))

    def any_document(self, rng: Random) -> tuple[str, Made]:
        """Any JSON, of wrong types everywhere."""
        return "", self._document(rng, documents.written(rng, documents.anything(rng, self.strings(rng))))

    def damaged_document(self, rng: Random) -> tuple[str, Made]:
        """JSON with wrong bytes in it."""
        instances = self.instances(rng)[:2]
        data = documents.written(rng, documents.whole(rng, [one.value for one in instances]))
        # Damaged base64 may still be a picture: what it shows is not known, so the strings here are short.
        data = data if self.task == "sentiment" else documents.written(rng, documents.anything(rng, [canary(rng)]))
        return "", self._document(rng, documents.damaged(rng, data))

    def monster(self, rng: Random) -> tuple[str, Made]:
        """JSON that asks much of its reader."""
        good = rng.choice(list(self.good.values()))
        return "", self._document(rng, documents.monster(rng, good.value))

    def edge(self, rng: Random) -> tuple[str, Made]:
        """JSON as deep as Python reads, or a little deeper."""
        request, _ = self._document(rng, documents.at_the_edge(rng))
        return "", (request, Expected(frozenset({OK, 400, 422}), Shape.ANY))

    def form(self, rng: Random) -> tuple[str, Made]:
        """A form of any fields."""
        instances = self.instances(rng)
        parts = [_part(rng, one) for one in instances]
        request, seen, sound = wire.form(rng, parts)
        return "", (request, self._contract(instances).form(seen, sound=sound))

    def absurd_type(self, rng: Random) -> tuple[str, Made]:
        """A good instance, or any bytes, under a type that they are not."""
        good = rng.choice(list(self.good.values()))
        data = rng.choice((good.body.data, ordinary(rng).encode(), rng.randbytes(rng.randint(0, 200))))
        types = rng.choice((wire.ABSURD_TYPES, wire.JSON_TYPES, wire.TEXT_TYPES, wire.IMAGE_TYPES, wire.OTHER_TYPES))
        header, body = wire.typed(rng, data, types)
        return "", (wire.raw(rng, header, body), self._contract([]).body(body))

    def any_bytes(self, rng: Random) -> tuple[str, Made]:
        """Bytes of no kind."""
        data = rng.choice(
            (rng.randbytes(rng.randint(0, 400)), ordinary(rng).encode() + rng.randbytes(3), b"", b"=" * 9)
        )
        header, body = wire.typed(rng, data, (*wire.TEXT_TYPES, *wire.BINARY_TYPES, *wire.JSON_TYPES))
        return "", (wire.raw(rng, header, body), self._contract([]).body(body))

    def _document(self, rng: Random, data: bytes, instances: Sequence[Instance] = ()) -> Made:
        header, body = wire.typed(rng, data, wire.JSON_TYPES)
        return wire.raw(rng, header, body), self._contract(instances).body(body)


Maker = Callable[[Generator, Random], tuple[str, Made]]
MAKERS: dict[str, tuple[float, Maker]] = {
    "one": (38, Generator.alone),
    "several": (12, Generator.many),
    "form": (9, Generator.form),
    "wrong tensors": (5, Generator.wrong_tensors),
    "gRPC": (4, Generator.grpc),
    "any document": (9, Generator.any_document),
    "damaged document": (9, Generator.damaged_document),
    "monstrous document": (4, Generator.monster),
    "document at the edge of depth": (1, Generator.edge),
    "absurd type": (9, Generator.absurd_type),
    "any bytes": (5, Generator.any_bytes),
}


def _alone(rng: Random, instance: Instance, contract: Contract) -> Made:
    """One instance raw, in a document, or in a form of one field."""
    way = rng.randrange(4)
    if way == 0:
        return wire.raw(rng, instance.header, instance.body), contract.body(instance.body)
    if way == 1:
        request, seen, sound = wire.form(rng, [_part(rng, instance)])
        return request, contract.form(seen, sound=sound)
    keyed: Any = rng.choice((instance.value, {"text": instance.value}, {"data": instance.value, "x": [None]}))
    header, body = wire.typed(rng, documents.written(rng, keyed), wire.JSON_TYPES)
    return wire.raw(rng, header, body), contract.body(body)


def _part(rng: Random, instance: Instance) -> tuple[str, Body]:
    """An instance as a field of a form: under its own type, as a document, or, as browsers' fields are, without one."""
    way = rng.randrange(3)
    if way == 0:
        return instance.header, instance.body
    data = instance.value.encode("utf-8", "surrogatepass")
    if way == 1:
        return "", Body(data)
    document = documents.written(rng, rng.choice((instance.value, {"text": instance.value})))
    return wire.typed(rng, document, wire.JSON_TYPES)


def _good_texts() -> Iterator[Instance]:
    for number, text in enumerate(good_texts()):
        body = Body(text.encode(), "text/plain")
        yield Instance("good", text, "text/plain", body, Outcome(frozenset({OK}), f"text {number}"))


def _good_pictures() -> Iterator[Instance]:
    for picture in album():
        body = Body(picture.data, "application/octet-stream")
        value = base64.b64encode(picture.data).decode()
        yield Instance("good", value, "application/octet-stream", body, Outcome(frozenset({OK}), picture.name))


def _base64(rng: Random, data: bytes) -> str:
    plain = base64.b64encode(data).decode()
    spelled = (
        plain,
        plain,
        f"data:image/png;base64,{plain}",
        f"data:;x=y;base64,{plain}",
        f" {plain[:9]}\n{plain[9:]}\n",
    )
    return rng.choice(spelled)
