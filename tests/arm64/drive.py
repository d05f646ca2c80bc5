"""Start a container, ask it every golden request, and stop it while it still answers.

    unshare --net python -m tests.arm64.drive CPU baked|mounted TIMEOUT_S STORE LOG RESULT

Nothing but loopback is in the namespace. STORE has the archives; RESULT is a JSON object: see Run. A model may take
TIMEOUT_S to load, and so may an answer.
"""

import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any

from marsmith.evidence import golden
from marsmith.rest.address import direct_session
from marsmith.rest.client import Client
from tests.arm64.container import Container
from tests.arm64.image import configuration

SERVER, METRICS = "http://127.0.0.1:8080", "http://127.0.0.1:8082/metrics"
# Enough to be under way for seconds under emulation, and few enough for the time that draining has.
LAST_STARTER, LAST_REQUESTS = "sentiment", 3
ACCEPTED = re.compile(rf'^ts_inference_requests_total{{.*model_name="{LAST_STARTER}-.*}} (\S+)$', re.MULTILINE)
ACCEPTED_TIMEOUT_S = 60
BAKED, MOUNTED = "baked", "mounted"
# What the entry point says then.
GAVE_UP = "requests are still unanswered"


@dataclass(frozen=True, slots=True)
class Run:
    """What one container did.

    `way` says whether its archives were baked in or mounted; `answers` are the bodies by archive and request, None for
    any status but 200. When it was told to stop, `unanswered` requests were under way; `last` holds the statuses of
    those and the ones sent with them. `gave_up` says whether it ended because the time to drain was over.
    """

    cpu: str
    way: str
    ready_s: float
    answers: dict[str, dict[str, Any]]
    unanswered: int
    last: list[int]
    exit_code: int
    stop_s: float
    gave_up: bool


def main(cpu: str, way: str, timeout_s: int, store: Path, log: Path, result: Path) -> None:
    """Do it all, and write what was seen."""
    archives = sorted(store.glob("*.mar"))
    last_archive = next(path for path in archives if path.name.startswith(LAST_STARTER))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with Container(configuration(), cpu, log, store if way == MOUNTED else None, timeout_s) as container:
        ready_s = container.wait_healthy()
        answers = {path.stem: ask(path) for path in archives}
        before = accepted()
        with ThreadPoolExecutor(LAST_REQUESTS) as pool:
            payload = requests_of(last_archive)[0].payload()
            sent = [pool.submit(Client(SERVER).send, last_archive.stem, *payload) for _ in range(LAST_REQUESTS)]
            wait_accepted(before + LAST_REQUESTS)
            begin = time.monotonic()
            container.terminate()
            unanswered = sum(not one.done() for one in sent)
            last = [one.result().status for one in sent]
        exit_code = container.wait()
        stop_s = time.monotonic() - begin
        gave_up = GAVE_UP in container.wrote()
    run = Run(cpu, way, ready_s, answers, unanswered, last, exit_code, stop_s, gave_up)
    result.write_text(json.dumps(asdict(run)), encoding="utf-8")


def requests_of(archive: Path) -> list[golden.Request]:
    """The archive's golden requests."""
    recorded = golden.read(archive)
    assert recorded is not None
    return recorded.requests


def ask(archive: Path) -> dict[str, Any]:
    """The answers to the archive's golden requests, by their names."""
    client = Client(SERVER)
    found = {one.name: client.send(archive.stem, *one.payload()) for one in requests_of(archive)}
    return {name: one.body if one.status == HTTPStatus.OK else None for name, one in found.items()}


def accepted() -> float:
    """How many requests have arrived for that starter."""
    text = direct_session().get(METRICS, timeout=ACCEPTED_TIMEOUT_S).text
    return sum(float(count) for count in ACCEPTED.findall(text))


def wait_accepted(count: float) -> None:
    """Return when that many requests have arrived."""
    deadline = time.monotonic() + ACCEPTED_TIMEOUT_S
    while accepted() < count:
        assert time.monotonic() < deadline


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), *map(Path, sys.argv[4:]))
