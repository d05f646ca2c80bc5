"""Ask a running TorchServe for predictions over REST."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import requests

from marsmith.errors import ClientError
from marsmith.ground.files import NotUtf8, read_lines, read_regular
from marsmith.ground.limits import MAX_INPUT_BYTES
from marsmith.ground.untrusted import mapping, printable, strict_json_value
from marsmith.rest.address import Address
from marsmith.rest.address import address as address_of
from marsmith.rest.advice import no_answer, unreachable, words_of
from marsmith.rest.exchange import Answer, EncodedError, Exchanger, TooLongError, TooSlowError
from marsmith.rest.pace import TRIES, TRIES_OF_BROKEN, Pace, StoppedError, Try, retry_after_s

# Enough requests in flight to fill a batch (recipe: batch_size 16) without flooding the queue.
CONCURRENCY = 16
# The status of what got no HTTP answer.
NOT_SENT = 0
STOPPED = "It was not asked, because the command was stopped."
# Deeper than any answer of Marsmith's handlers, and no strain for what prints it.
MAX_DEPTH = 64
BUSY = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
# How TorchServe's 503 says that the handler failed, which it would do again, and not that the queue is full.
HANDLER_FAILED = "InternalServerException"
# How image files begin. With their type, a model of texts can say that it reads none.
IMAGE_TYPES = {
    "image/jpeg": re.compile(rb"\xff\xd8\xff"),
    "image/png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "image/gif": re.compile(rb"GIF8[79]a"),
    "image/webp": re.compile(rb"RIFF.{4}WEBP", re.DOTALL),
    "image/avif": re.compile(rb".{4}ftypavi[fs]", re.DOTALL),
    "image/tiff": re.compile(rb"II\*\0|MM\0\*"),
    "image/bmp": re.compile(rb"BM.{4}\0{4}", re.DOTALL),
}


@dataclass(frozen=True, slots=True)
class Prediction:
    """One answer: the HTTP status, and the JSON value in the body (an object with `error` past 399).

    A good answer that is not JSON, as handlers of one's own may give, is its text.
    """

    status: int
    body: Any

    @property
    def ok(self) -> bool:
        """Whether the model answered."""
        return self.status == HTTPStatus.OK

    @property
    def message(self) -> str:
        """What went wrong, in the server's words as far as they can be printed; empty when nothing did."""
        if self.ok:
            return ""
        error = mapping(self.body).get("error", self.body)
        words = str(mapping(error).get("message", error))
        return printable(words_of(self.status, words, str(mapping(error).get("type", ""))))

    @property
    def is_busy(self) -> bool:
        """Whether the same request may be answered a moment later."""
        return self.status in BUSY and mapping(self.body).get("type") != HANDLER_FAILED


class Client:
    """A client of one server. Safe to use from several threads.

    Raises ClientError for an address that cannot be, or certificates of a CA that cannot be read.
    """

    def __init__(self, url: str, headers: dict[str, str] | None = None, ca: Path | None = None) -> None:
        self._address: Address = address_of(url, ca)
        self._headers = headers or {}
        self._local = threading.local()
        self._exchangers: list[Exchanger] = []
        self._pace = Pace(CONCURRENCY)
        self._reached = False
        self._exchanger()

    def predict(self, model: str, data: str | bytes) -> Prediction:
        """Predict from one text (str) or image file (bytes). Raises ClientError like `send`."""
        return self.send(model, *body_of(data))

    def explain(self, model: str, data: str | bytes) -> Prediction:
        """Predict from one text or image file, and say why. Raises ClientError like `send`."""
        return self.send(model, *body_of(data), verb="explanations")

    def send(self, model: str, body: bytes, content_type: str, verb: str = "predictions") -> Prediction:
        """Predict from a body as it is. A server that is busy, or breaks the connection, is asked again for a while.

        Raises ClientError when the server cannot be reached. Once it has answered, a connection that breaks is the
        fault of that one request (TorchServe breaks it on a body that is too large): status 0.
        """
        path = f"/{verb}/{quote(model)}"
        try:
            return self._pace.ask(lambda: self._try(path, body, {"Content-Type": content_type, **self._headers}))
        except StoppedError:
            return Prediction(NOT_SENT, {"message": STOPPED})

    def _try(self, path: str, body: bytes, headers: dict[str, str]) -> Try[Prediction]:
        try:
            answer = self._exchanger().post(path, body, headers)
        except requests.RequestException as error:
            if not self._reached and not isinstance(error, (TooLongError, EncodedError)):
                raise ClientError(unreachable(self._address, error)) from None
            final = isinstance(error, (TooLongError, EncodedError, TooSlowError, requests.ReadTimeout))
            return Try(Prediction(NOT_SENT, {"message": no_answer(error)}), 1 if final else TRIES_OF_BROKEN)
        self._reached = True
        prediction = prediction_of(answer)
        return Try(prediction, TRIES if prediction.is_busy else 1, retry_after_s(answer.retry_after))

    def predict_many(self, model: str, inputs: Iterable[str | Path]) -> Generator[Prediction, None, None]:
        """The answers in order, asked for CONCURRENCY at a time; a Path is an image file, read when its turn comes.

        A file that cannot be read gives a Prediction with status 0. Raises ClientError like `predict`.
        """
        return in_order(lambda one: self._predict_one(model, one), inputs, self.stop)

    def _predict_one(self, model: str, one: str | Path) -> Prediction:
        try:
            data = read_regular(one, MAX_INPUT_BYTES) if isinstance(one, Path) else one
        except OSError as error:
            return Prediction(NOT_SENT, {"message": f"The file cannot be read: {error.strerror}."})
        return self.predict(model, data)

    def stop(self) -> None:
        """Break off what is being asked, in other threads: nothing more is sent."""
        self._pace.stop()
        for one in self._exchangers:
            one.cut()

    def _exchanger(self) -> Exchanger:
        """What asks for the thread that calls."""
        exchanger: Exchanger | None = getattr(self._local, "exchanger", None)
        if exchanger is None:
            exchanger = self._local.exchanger = Exchanger(self._address)
            self._exchangers.append(exchanger)
        return exchanger


In = TypeVar("In")
Out = TypeVar("Out")


def in_order(ask: Callable[[In], Out], inputs: Iterable[In], stop: Callable[[], None]) -> Generator[Out, None, None]:
    """The answers in order, asked for CONCURRENCY at a time; what is left is stopped when they are not wanted."""
    pool = ThreadPoolExecutor(CONCURRENCY)
    futures = [pool.submit(ask, one) for one in inputs]
    try:
        for future in futures:
            yield future.result()
    finally:
        if not all(future.done() for future in futures):
            pool.shutdown(wait=False, cancel_futures=True)
            stop()
        pool.shutdown()


def prediction_of(answer: Answer) -> Prediction:
    """What a server's answer means."""
    try:
        return Prediction(answer.status, strict_json_value(answer.body, MAX_DEPTH))
    except ValueError:
        text = answer.body.decode("utf-8", "replace")
        return Prediction(answer.status, text if answer.status == HTTPStatus.OK else {"message": answer.phrase})


def body_of(data: str | bytes) -> tuple[bytes, str]:
    """The body and Content-Type that carry a text or an image file."""
    if isinstance(data, str):
        return json.dumps({"text": data}).encode(), "application/json"
    types = (name for name, beginning in IMAGE_TYPES.items() if beginning.match(data))
    return data, next(types, "application/octet-stream")


def text_lines(texts: Path) -> list[str]:
    """The lines of a text file. Raises ClientError for one that cannot be read."""
    try:
        return read_lines(texts, pipe_too=True)
    except (OSError, NotUtf8) as error:
        raise ClientError(f"{texts} cannot be read as text: {getattr(error, 'strerror', None) or error}.") from None
