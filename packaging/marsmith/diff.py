"""`marsmith diff`: what changed between two archives, by meaning first and by member for the rest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from marsmith.evidence import golden
from marsmith.inspection import Card, inspect
from marsmith.mar.reader import open_archive

WEIGHTS = frozenset({".weights", ".onnx", ".pt", ".pt2", ".pth", ".bin", ".safetensors", ".so"})

Kind = Literal["model", "labels", "config", "requirements", "weights", "code", "golden", "member"]


@dataclass(frozen=True, slots=True)
class Change:
    """One difference: `before` and `after` are empty where there is nothing to show, or nothing was there."""

    kind: Kind
    what: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class _Side:
    card: Card
    digests: Mapping[str, str]
    answers: Mapping[str, golden.Request]


def diff(before: Path, after: Path) -> list[Change]:
    """The changes from one archive to the other. Raises ArchiveError and GoldenError."""
    a, b = _read(before), _read(after)
    return [
        *_model(a.card, b.card),
        *_labels(a.card, b.card),
        *_settings(a.card, b.card),
        *_golden(a, b),
        *_members(a, b),
    ]


def _read(path: Path) -> _Side:
    with open_archive(path) as zip_file:
        digests = {}
        for name in zip_file.namelist():
            with zip_file.open(name) as stream:
                digests[name] = hashlib.file_digest(stream, "sha256").hexdigest()  # type: ignore[arg-type]
    recorded = golden.read(path)
    answers = {one.name: one for one in recorded.requests} if recorded else {}
    return _Side(inspect(path), digests, answers)


def _model(a: Card, b: Card) -> Iterator[Change]:
    for field in ("name", "version", "task", "handler", "checkpoint", "license", "precision", "engine", "signature"):
        if getattr(a, field) != getattr(b, field):
            yield Change("model", field, str(getattr(a, field)), str(getattr(b, field)))


def _labels(a: Card, b: Card) -> Iterator[Change]:
    for label in a.labels:
        if label not in b.labels:
            yield Change("labels", "label removed", label, "")
    for label in b.labels:
        if label not in a.labels:
            yield Change("labels", "label added", "", label)
    if a.labels != b.labels and sorted(a.labels) == sorted(b.labels):
        yield Change("labels", "order", ", ".join(a.labels), ", ".join(b.labels))


def _settings(a: Card, b: Card) -> Iterator[Change]:
    yield from _keys("config", a.config, b.config)
    yield from _keys("requirements", _pins(a), _pins(b))


def _pins(card: Card) -> dict[str, str]:
    return {name: pin or "any" for name, _, pin in (line.partition("==") for line in card.requirements)}


def _keys(kind: Kind, a: Mapping[str, Any], b: Mapping[str, Any]) -> Iterator[Change]:
    for key in sorted(a.keys() | b.keys()):
        if (key in a, a.get(key)) != (key in b, b.get(key)):
            yield Change(kind, key, str(a.get(key, "")), str(b.get(key, "")))


def _golden(a: _Side, b: _Side) -> Iterator[Change]:
    for name in sorted(a.answers.keys() | b.answers.keys()):
        if name not in b.answers:
            yield Change("golden", f"{name} removed", "", "")
        elif name not in a.answers:
            yield Change("golden", f"{name} added", "", "")
        else:
            yield from _request(name, a.answers[name], b.answers[name])


def _request(name: str, a: golden.Request, b: golden.Request) -> Iterator[Change]:
    """A request's text, image or JSON is never shown."""
    if a.payload() != b.payload():
        yield Change("golden", f"{name} asks something else", "", "")
    elif found := list(golden.differences(a.expect, b.expect, max(a.tolerance, b.tolerance), whole=True)):
        yield Change("golden", name, "", found[0])
    if bool(a.whole) != bool(b.whole):
        yield Change("golden", f"{name} whole", str(bool(a.whole)), str(bool(b.whole)))
    if a.tolerance != b.tolerance:
        yield Change("golden", f"{name} tolerance", str(a.tolerance), str(b.tolerance))


def _members(a: _Side, b: _Side) -> Iterator[Change]:
    for name in sorted(a.digests.keys() | b.digests.keys()):
        if a.digests.get(name) != b.digests.get(name):
            yield Change(_kind(name), name, a.digests.get(name, ""), b.digests.get(name, ""))


def _kind(name: str) -> Kind:
    suffix = PurePosixPath(name).suffix
    return "weights" if suffix in WEIGHTS else "code" if suffix == ".py" else "member"
