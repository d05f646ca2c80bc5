"""What the server in this container says of its models."""

from __future__ import annotations

import json
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

import requests

from marsmith.container.settings import Settings
from marsmith.errors import ServerError
from marsmith.rest.address import direct_session

TIMEOUT_S = 4
MOST_MODELS = 1000
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


def models(settings: Settings) -> list[Model]:
    """Every model of the server. Raises ServerError when it does not say."""
    session, url = direct_session(), settings.ports.management_url
    try:
        session.headers.update(_headers(settings))
        listed = _get(session, f"{url}/models?limit={MOST_MODELS}")["models"]
        return [_model(_get(session, f"{url}/models/{one['modelName']}")) for one in listed]
    except (requests.RequestException, OSError, ValueError, KeyError, TypeError) as error:
        raise ServerError(f"TorchServe does not describe its models ({type(error).__name__}).") from None


def _get(session: requests.Session, url: str) -> Any:
    response = session.get(url, timeout=TIMEOUT_S, allow_redirects=False)
    if response.status_code != HTTPStatus.OK:
        raise ServerError(f"TorchServe answers {response.status_code} when it is asked for its models.")
    return response.json()


def _headers(settings: Settings) -> dict[str, str]:
    """With tokens on, TorchServe asks for one here too; it keeps them in its directory, and renews them hourly."""
    if not settings.token:
        return {}
    keys = json.loads((settings.home / KEY_FILE).read_text(encoding="utf-8"))
    return {"Authorization": f"Bearer {keys['management']['key']}"}


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
