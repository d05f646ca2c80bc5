"""What a TorchServe on this machine says of its models, by its management API."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

import requests

from marsmith.errors import ServerError
from marsmith.rest.address import direct_session

TIMEOUT_S = 4
MOST_MODELS = 1000
# Where TorchServe keeps its tokens, in the directory that it was started in; they expire after an hour.
KEY_FILE = "key_file.json"


@dataclass(frozen=True, slots=True)
class Model:
    """A model: its workers' process ids, how many of them are READY and how many it should have, and what is queued."""

    name: str
    pids: tuple[int, ...]
    ready: int
    wanted: int
    queued: int

    @property
    def is_ready(self) -> bool:
        """Whether all of its workers are."""
        return self.ready >= max(1, self.wanted)


class Management:
    """The management API at `url`; `headers` are read anew for each request, since tokens are renewed."""

    def __init__(self, url: str, headers: Callable[[], dict[str, str]] = dict) -> None:
        self._url = url
        self._headers = headers
        self._session = direct_session()

    def models(self) -> list[Model]:
        """Every model of the server. Raises ServerError when it does not say."""
        listed = self._get(f"/models?limit={MOST_MODELS}")
        try:
            names = [str(one["modelName"]) for one in listed["models"]]
        except (KeyError, TypeError) as error:
            raise _not_said(error) from None
        return [model for name in names if (model := self.model(name)) is not None]

    def model(self, name: str) -> Model | None:
        """One model; None where the server has none of that name. Raises ServerError when it does not say."""
        described = self._get(f"/models/{name}")
        try:
            return _model(described) if described is not None else None
        except (ValueError, KeyError, TypeError) as error:
            raise _not_said(error) from None

    def _get(self, path: str) -> Any:
        try:
            response = self._session.get(
                self._url + path, headers=self._headers(), timeout=TIMEOUT_S, allow_redirects=False
            )
            if response.status_code == HTTPStatus.NOT_FOUND:
                return None
            if response.status_code != HTTPStatus.OK:
                raise ServerError(f"TorchServe answers {response.status_code} when it is asked for its models.")
            return response.json()
        except (
            requests.RequestException,
            OSError,
            ValueError,
            KeyError,
        ) as error:  # the last two: a key file half written
            raise _not_said(error) from None


def bearer(key_file: Path, key: str) -> dict[str, str]:
    """The header with the token of `key` (inference or management). Raises OSError, ValueError and KeyError."""
    keys = json.loads(key_file.read_text(encoding="utf-8"))
    return {"Authorization": f"Bearer {keys[key]['key']}"}


def _not_said(error: Exception) -> ServerError:
    return ServerError(f"TorchServe does not describe its models ({type(error).__name__}).")


def _model(described: Any) -> Model:
    (version,) = described
    workers = version["workers"]
    return Model(
        name=version["modelName"],
        # TorchServe says -1 of a worker that it starts again.
        pids=tuple(pid for one in workers if (pid := int(one["pid"])) > 0),
        ready=sum(one["status"] == "READY" for one in workers),
        wanted=int(version["minWorkers"]),
        queued=int(version["jobQueueStatus"]["pendingRequests"]),
    )
