"""Start, watch and stop a real, unmodified TorchServe."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psutil
import requests

from marsmith.address import direct_session
from marsmith.configuration import Ports, effective_config
from marsmith.errors import ServerError
from marsmith.java import java_home
from marsmith.progress import Progress, silent
from marsmith.resources import worker_site
from marsmith.store import fill, startup_timeout_s, workers_of

READY_TIMEOUT_S = 180
# Java and the workers start before a model loads.
START_MARGIN_S = 60
STOP_TIMEOUT_S = 30
POLL_S = 0.25
REQUEST_TIMEOUT_S = 10
CONSOLE_LOG = "console.log"
LOG_CONFIG = Path(__file__).with_name("log4j2.xml")
# What a worker writes when it cannot load: ours says why, TorchServe's says only that.
LOAD_FAILURE = re.compile(r"RuntimeError: (Model failed to load: .*)")
WORKER_DEATH = "Backend worker process died."
EXCEPTION_LINE = re.compile(r"^\S+ \S+ (?:\w+\.)*(\w+(?:Error|Exception|Exit|Interrupt)\b.*)$")


class Server:
    """A TorchServe that serves `archives` until it is stopped; as a context manager it always is.

    An archive that is not sound is refused, and with `require_signature` one that was not signed with `key` too. Its
    configuration, temporary files, logs and keys live in a private directory that disappears with it.
    """

    def __init__(
        self,
        archives: list[Path],
        ports: Ports | None = None,
        *,
        token: bool = False,
        key: Path | None = None,
        require_signature: bool = False,
    ) -> None:
        self.ports = ports or Ports()
        self.archives: dict[str, Path] = {}
        self._sources: dict[str, Path] = {}
        self._token = token
        self._scratch = tempfile.TemporaryDirectory(prefix="marsmith-server-")
        self._home = Path(self._scratch.name)
        self._process: subprocess.Popen[bytes] | None = None
        self._session = direct_session()
        try:
            for directory in ("store", "tmp", "logs"):
                (self._home / directory).mkdir()
            store = self._home / "store"
            self._sources = fill(store, archives, key=key, require_signature=require_signature)
            self.archives = {name: store / f"{name}.mar" for name in self._sources}
        except BaseException:
            self._scratch.cleanup()
            raise

    def start(self) -> None:
        """Start TorchServe. Raises ServerError when it cannot be."""
        self.ports.check_free()
        config = self._home / "config.properties"
        config.write_text(effective_config(self.ports, token=self._token), encoding="utf-8")
        command = [sys.executable, "-m", "ts.model_server", "--start", "--foreground", "--ncs"]
        command += ["--model-store", str(self._home / "store"), "--ts-config", str(config)]
        command += ["--log-config", str(LOG_CONFIG)]
        command += ["--models", *(f"{name}={name}.mar" for name in self.archives)]
        with (self._home / "logs" / CONSOLE_LOG).open("wb") as console:
            self._process = subprocess.Popen(  # noqa: S603 - our own command line
                command,
                cwd=self._home,
                env=self._environment(),
                start_new_session=True,
                stdout=console,
                stderr=console,
            )

    def _environment(self) -> dict[str, str]:
        environ = dict(os.environ)
        if home := java_home():
            environ["JAVA_HOME"] = str(home)
        tmp, logs = str(self._home / "tmp"), str(self._home / "logs")
        workers = sum(workers_of(path) for path in self.archives.values())
        # TMPDIR too: torchserve keeps its pid file there, and would refuse to start beside another server.
        python_path = [str(worker_site()), *filter(None, [environ.get("PYTHONPATH")])]
        return environ | {
            "PYTHONPATH": os.pathsep.join(python_path),
            "TEMP": tmp,
            "TMPDIR": tmp,
            "LOG_LOCATION": logs,
            "METRICS_LOCATION": logs,
            "MARSMITH_WORKERS": str(workers),
        }

    @property
    def key_file(self) -> Path:
        """Where TorchServe keeps its tokens, when they are on; they expire after an hour."""
        return self._home / "key_file.json"

    def headers(self, key: str = "inference") -> dict[str, str]:
        """What a client must send: the token of `key` (inference or management), when tokens are on."""
        if not self._token:
            return {}
        keys = json.loads(self.key_file.read_text(encoding="utf-8"))
        return {"Authorization": f"Bearer {keys[key]['key']}"}

    def wait_ready(self, timeout_s: float | None = None, progress: Progress = silent) -> None:
        """Return when every worker of every model is READY.

        Raises ServerError with the worker's own words when one fails, when the server ends, or after `timeout_s`, which
        by default covers what the archives allow their workers.
        """
        if timeout_s is None:
            timeout_s = max(
                READY_TIMEOUT_S, *(START_MARGIN_S + startup_timeout_s(path) for path in self.archives.values())
            )
        deadline = time.monotonic() + timeout_s
        waiting = set(self.archives)
        while waiting:
            if self._process is None or self._process.poll() is not None:
                raise ServerError(f"TorchServe ended before it was ready. {self._log_tail(CONSOLE_LOG)}".strip())
            if failure := self._worker_failure():
                raise ServerError(f"A worker could not load its model: {failure}")
            if time.monotonic() > deadline:
                raise ServerError(
                    f"{', '.join(sorted(waiting))} not READY within {timeout_s:.0f} s. "
                    f"{self._log_tail('model_log.log')}".strip()
                )
            waiting = {name for name in waiting if not self._is_ready(name)}
            progress(f"waiting for {', '.join(sorted(waiting))}" if waiting else "ready")
            time.sleep(POLL_S if waiting else 0)

    def _is_ready(self, name: str) -> bool:
        url = f"{self.ports.management_url}/models/{name}"
        try:
            response = self._session.get(
                url, headers=self.headers("management"), timeout=REQUEST_TIMEOUT_S, allow_redirects=False
            )
        except (requests.RequestException, OSError, ValueError):  # ValueError: a key file half written
            return False
        if response.status_code == requests.codes.not_found:
            raise ServerError(
                f"TorchServe refused the archive {self._sources[name]}. {self._log_tail('ts_log.log')}".strip()
            )
        if not response.ok:
            return False
        (model,) = response.json()
        ready = [worker for worker in model["workers"] if worker["status"] == "READY"]
        return len(ready) >= max(1, int(model["minWorkers"]))

    def worker_pids(self, name: str) -> list[int]:
        """The process ids of a model's workers that run. Raises ServerError when the server does not say them."""
        url = f"{self.ports.management_url}/models/{name}"
        try:
            response = self._session.get(
                url, headers=self.headers("management"), timeout=REQUEST_TIMEOUT_S, allow_redirects=False
            )
            (model,) = response.json()
        except (requests.RequestException, ValueError) as error:
            raise ServerError(
                f"TorchServe does not describe {name} ({type(error).__name__}): start it again."
            ) from None
        # TorchServe says -1 of a worker that it starts again.
        return [pid for worker in model["workers"] if (pid := int(worker["pid"])) > 0]

    def _worker_failure(self) -> str | None:
        """Why a worker could not load, in its own words; None while none has failed."""
        log = self._log("model_log.log")
        if match := LOAD_FAILURE.search(log):
            return match.group(1)
        if WORKER_DEATH not in log:
            return None
        errors = [match.group(1) for line in log.splitlines() if (match := EXCEPTION_LINE.match(line))]
        # The first is the cause: TorchServe covers a failed import with one of its own.
        return errors[0] if errors else WORKER_DEATH

    def _log(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return (self._home / "logs" / name).read_text(encoding="utf-8", errors="replace")
        return ""

    def _log_tail(self, name: str) -> str:
        lines = [line for line in self._log(name).splitlines() if line.strip()]
        return f"Its last words: {lines[-1]}" if lines else ""

    def wait(self) -> int:
        """Block until the server ends by itself; its exit code."""
        return self._process.wait() if self._process else 0

    def stop(self) -> None:
        """End the server and everything it started, and remove its directory. Safe to call twice."""
        process, self._process = self._process, None
        try:
            if process is not None:
                _end_java(process.pid)
        finally:
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            self._scratch.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _end_java(launcher: int) -> None:
    """Ask Java to end, which closes its workers, and wait for it; the Python launcher only waits for Java."""
    with contextlib.suppress(psutil.NoSuchProcess):
        java = [child for child in psutil.Process(launcher).children() if child.name() == "java"]
        for process in java:
            process.terminate()
        psutil.wait_procs(java, timeout=STOP_TIMEOUT_S)
