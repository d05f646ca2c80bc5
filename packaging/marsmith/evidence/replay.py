"""Replay an archive's golden requests, in TorchServe's real worker or on a running server."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from marsmith.errors import GoldenError, MarsmithError
from marsmith.evidence import golden
from marsmith.evidence.golden import Request
from marsmith.ground.untrusted import json_value
from marsmith.mar.members import MANIFEST
from marsmith.mar.reader import read_json
from marsmith.rest.client import Client, Prediction
from marsmith.torchserve.store import fill
from marsmith.torchserve.worker import Worker, WorkerAnswer, WorkerRequest

# Requests at once: some, so that they meet in a batch as they do in production.
BATCH = 16


@dataclass(frozen=True, slots=True)
class Outcome:
    """One golden request: what was expected, what came, and where they differ."""

    name: str
    expected: Any
    prediction: Prediction
    differences: list[str]

    @property
    def ok(self) -> bool:
        """Whether the answer is the one expected."""
        return not self.differences


def in_worker(path: Path, key: Path | None = None, *, require_signature: bool = False) -> list[Outcome]:
    """Verify a private copy of an archive, then run it: nobody can change what is run after it was verified.

    The archive's code runs with the rights of this process; only its interpreter is kept off the network. Raises
    ArchiveError, VerifyError for one that is not sound or not signed with `key`, SigningError for a key that cannot be
    used, GoldenError, and ServerError when the worker cannot load it.
    """
    with tempfile.TemporaryDirectory(prefix="marsmith-test-") as scratch:
        fill(Path(scratch), [path], key=key, require_signature=require_signature)
        (copy,) = Path(scratch).iterdir()
        try:
            return of_verified(copy)
        except MarsmithError as error:
            raise type(error)(str(error).replace(str(copy), str(path))) from None


def of_verified(path: Path) -> list[Outcome]:
    """Load an archive that nobody else can write to in a worker without a network, and ask its golden requests.

    An archive without golden requests is only loaded. Raises ArchiveError, GoldenError, and ServerError when the worker
    cannot load it.
    """
    recorded = golden.read(path)
    requests = recorded.requests if recorded else []
    asked = [WorkerRequest.raw(*one.payload()) for one in requests]
    answers: list[WorkerAnswer] = []
    with Worker(path) as worker:
        for begin in range(0, len(asked), BATCH):
            answers += worker.predict(asked[begin : begin + BATCH])
    return [_outcome(request, prediction_of(answer)) for request, answer in zip(requests, answers, strict=True)]


def on_server(path: Path, url: str, headers: dict[str, str] | None = None, ca: Path | None = None) -> Iterator[Outcome]:
    """Ask a running server, whose CA's certificate is `ca`, the archive's golden requests.

    Raises ArchiveError, GoldenError and ClientError.
    """
    model = read_json(path, MANIFEST).get("model")
    name = str(model["modelName"]) if isinstance(model, dict) and "modelName" in model else path.stem
    client = Client(url, headers, ca)
    return answered(path, lambda body, content_type: client.send(name, body, content_type))


def answered(path: Path, send: Callable[[bytes, str], Prediction]) -> Iterator[Outcome]:
    """Ask the archive's golden requests of what answers a body and its Content-Type, one after the other.

    Raises ArchiveError, GoldenError and what `send` raises.
    """
    recorded = golden.read(path)
    if recorded is None or not recorded.requests:
        raise GoldenError(f"{path} has no golden requests to ask: build it with marsmith build.")
    for request in recorded.requests:
        yield _outcome(request, send(*request.payload()))


def require_ok(outcomes: list[Outcome], what: str) -> None:
    """Raise GoldenError that names the requests which are answered differently, unless there is none."""
    wrong = [one for one in outcomes if not one.ok]
    if wrong:
        listed = "; ".join(f"{one.name}: {one.differences[0]}" for one in wrong[:3])
        raise GoldenError(
            f"{what} answers {len(wrong)} of {len(outcomes)} golden requests otherwise than expected: {listed}."
        )


def prediction_of(answer: WorkerAnswer) -> Prediction:
    """A worker's answer as a client sees it; the body is None where it is no JSON."""
    return Prediction(answer.status, json_value(answer.body))


def _outcome(request: Request, prediction: Prediction) -> Outcome:
    if prediction.status != HTTPStatus.OK:
        found = [f"status {prediction.status}: {prediction.message}"]
    else:
        whole = bool(request.whole)
        found = list(golden.differences(request.expect, prediction.body, request.tolerance, whole=whole))
    return Outcome(request.name, request.expect, prediction, found)
