"""Ask a running TorchServe for predictions over REST."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import requests

from marsmith.errors import ClientError
from marsmith.limits import MAX_INPUT_BYTES
from marsmith.paths import read_regular

TIMEOUT_S = 120
# Enough requests in flight to fill a batch (recipe: batch_size 16) without flooding the queue.
CONCURRENCY = 16
# The status of what got no HTTP answer.
NOT_SENT = 0
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

    A good answer that is no JSON, as handlers of one's own may give, is its text.
    """

    status: int
    body: Any

    @property
    def ok(self) -> bool:
        """Whether the model answered."""
        return self.status == HTTPStatus.OK

    @property
    def message(self) -> str:
        """What went wrong, in the server's words; empty when nothing did."""
        if self.ok:
            return ""
        error = self.body.get("error", self.body) if isinstance(self.body, dict) else self.body
        return str(error.get("message", error)) if isinstance(error, dict) else str(error)


class Client:
    """A client of one server. Safe to use from several threads."""

    def __init__(self, url: str, headers: dict[str, str] | None = None) -> None:
        self._url = url.rstrip("/")
        self._headers = headers or {}
        self._local = threading.local()
        self._reached = False

    def predict(self, model: str, data: str | bytes) -> Prediction:
        """Predict from one text (str) or image file (bytes). Raises ClientError like `send`."""
        return self.send(model, *body_of(data))

    def explain(self, model: str, data: str | bytes) -> Prediction:
        """Predict from one text or image file, and say why. Raises ClientError like `send`."""
        return self.send(model, *body_of(data), verb="explanations")

    def send(self, model: str, body: bytes, content_type: str, verb: str = "predictions") -> Prediction:
        """Predict from a body as it is.

        Raises ClientError when the server cannot be reached. Once it has answered, a connection that breaks is the
        fault of that one request (TorchServe breaks it on a body that is too large): status 0.
        """
        try:
            response = self._session().post(
                f"{self._url}/{verb}/{model}",
                data=body,
                headers={"Content-Type": content_type, **self._headers},
                timeout=TIMEOUT_S,
            )
        except (requests.ReadTimeout, requests.exceptions.ChunkedEncodingError) as error:
            return Prediction(NOT_SENT, {"message": f"The server gave no whole answer ({type(error).__name__})."})
        except requests.RequestException as error:
            if self._reached:
                return Prediction(NOT_SENT, {"message": f"The server broke the connection ({type(error).__name__})."})
            raise ClientError(
                f"No answer from {self._url} ({type(error).__name__}): "
                "start a server with marsmith serve, or name yours with --url."
            ) from None
        self._reached = True
        try:
            return Prediction(response.status_code, response.json())
        except (ValueError, RecursionError):
            text = response.content.decode("utf-8", "replace")
            return Prediction(response.status_code, text if response.ok else {"message": response.reason})

    def predict_many(self, model: str, inputs: Iterable[str | Path]) -> Iterator[Prediction]:
        """The answers in order, asked for CONCURRENCY at a time; a Path is an image file, read when its turn comes.

        A file that cannot be read gives a Prediction with status 0. Raises ClientError like `predict`.
        """
        with ThreadPoolExecutor(CONCURRENCY) as pool:
            yield from pool.map(lambda one: self._predict_one(model, one), inputs)

    def _predict_one(self, model: str, one: str | Path) -> Prediction:
        try:
            data = read_regular(one, MAX_INPUT_BYTES) if isinstance(one, Path) else one
        except OSError as error:
            return Prediction(NOT_SENT, {"message": f"The file cannot be read: {error.strerror}."})
        return self.predict(model, data)

    def _session(self) -> requests.Session:
        if not hasattr(self._local, "session"):
            self._local.session = direct_session()
        session: requests.Session = self._local.session
        return session


def body_of(data: str | bytes) -> tuple[bytes, str]:
    """The body and Content-Type that carry a text or an image file."""
    if isinstance(data, str):
        return json.dumps({"text": data}).encode(), "application/json"
    types = (name for name, beginning in IMAGE_TYPES.items() if beginning.match(data))
    return data, next(types, "application/octet-stream")


def direct_session() -> requests.Session:
    """A session that goes straight to the server: no proxy and no .netrc of the environment stands between."""
    session = requests.Session()
    session.trust_env = False
    return session
