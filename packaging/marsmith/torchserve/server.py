"""Start, watch and stop a real, unmodified TorchServe."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import psutil

from marsmith.errors import ServerError, last_line
from marsmith.ground.progress import Progress, silent
from marsmith.resources import worker_site
from marsmith.torchserve.configuration import UTF8, Ports, effective_config
from marsmith.torchserve.failures import ADDRESS_IN_USE, full_disk, java_failure, worker_failure
from marsmith.torchserve.java import java_home
from marsmith.torchserve.management import KEY_FILE, Management, bearer
from marsmith.torchserve.processes import Guarded, end_java
from marsmith.torchserve.store import fill, startup_timeout_s, workers_of

READY_TIMEOUT_S = 180
# Java and the workers start before a model loads.
START_MARGIN_S = 60
STOP_TIMEOUT_S = 30
POLL_S = 0.25
CONSOLE_LOG = "console.log"
# The longest path of a socket on Linux (unix(7)), and what TorchServe calls a worker's.
SOCKET_PATH_BYTES, SOCKET = 107, ".ts.sock.65535"
LOG_CONFIG = Path(__file__).with_name("log4j2.xml")


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
        self._process: Guarded | None = None
        self._management = Management(self.ports.management_url, lambda: self.headers("management"))
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
        self._check_sockets()
        self.ports.check_free()
        config = self._home / "config.properties"
        config.write_text(effective_config(self.ports, token=self._token), encoding="utf-8")
        command = [sys.executable, "-m", "ts.model_server", "--start", "--foreground", "--ncs"]
        command += ["--model-store", str(self._home / "store"), "--ts-config", str(config)]
        command += ["--log-config", str(LOG_CONFIG)]
        command += ["--models", *(f"{name}={name}.mar" for name in self.archives)]
        environ = self._environment()
        with (self._home / "logs" / CONSOLE_LOG).open("wb") as console:
            self._process = Guarded(
                command, remove=self._home, cwd=self._home, env=environ, stdout=console, stderr=console
            )

    def _check_sockets(self) -> None:
        excess = len(os.fsencode(self._home / "tmp" / SOCKET)) - SOCKET_PATH_BYTES
        if excess > 0:
            raise ServerError(
                f"The temporary directory {self._home.parent} has a path that is {excess} bytes too long for the "
                "sockets of TorchServe's workers: set TMPDIR to a shorter path, such as /tmp."
            )

    def _environment(self) -> dict[str, str]:
        # TorchServe would serve by the file of this variable instead of ours.
        environ = {name: value for name, value in os.environ.items() if name != "TS_CONFIG_FILE"}
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
            **UTF8,
        }

    @property
    def key_file(self) -> Path:
        """Where TorchServe keeps its tokens, when they are on."""
        return self._home / KEY_FILE

    def headers(self, key: str = "inference") -> dict[str, str]:
        """What a client must send: the token of `key` (inference or management), when tokens are on."""
        return bearer(self.key_file, key) if self._token else {}

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
                raise ServerError(self._why("TorchServe ended before it was ready."))
            if failure := worker_failure(self._log("model_log.log")):
                raise ServerError(f"A worker could not load its model: {failure}")
            if time.monotonic() > deadline:
                raise ServerError(
                    self._why(f"{', '.join(sorted(waiting))} not READY within {timeout_s:.0f} s.", "model_log.log")
                )
            if self._listens():
                waiting = {name for name in waiting if not self._is_ready(name)}
            progress(f"waiting for {', '.join(sorted(waiting))}" if waiting else "ready")
            time.sleep(POLL_S if waiting else 0)

    def _listens(self) -> bool:
        """Whether this very server has all of its ports: another process may have taken one meanwhile.

        TorchServe opens those of gRPC last, and ends where it cannot, though its models may be READY before.
        """
        found: set[int] = set()
        for one in self._process.family() if self._process else ():
            with contextlib.suppress(psutil.Error):
                sockets = one.net_connections("tcp")
                found |= {each.laddr.port for each in sockets if each.status == psutil.CONN_LISTEN and each.laddr}
        return self.ports.listened_on() <= found

    def _is_ready(self, name: str) -> bool:
        try:
            model = self._management.model(name)
        except ServerError:  # it is still starting
            return False
        if model is None:
            raise ServerError(self._why(f"TorchServe refused the archive {self._sources[name]}."))
        return model.is_ready

    def _why(self, what: str, log: str = CONSOLE_LOG) -> str:
        """What happened, and why by the logs. A full disk, or a port that is taken, is the reason of all the rest."""
        logs = [self._log(name) for name in (CONSOLE_LOG, "ts_log.log", "model_log.log")]
        if room := full_disk(self._home, logs):
            return room
        if any(map(ADDRESS_IN_USE.search, logs)):
            return f"{what} {self.ports.in_use()}"
        if reason := java_failure(logs[0]):
            return f"{what} {reason}"
        last = last_line(self._log(log))
        return f"{what} The last line of its log: {last}" if last else what

    def worker_pids(self, name: str) -> list[int]:
        """The process ids of a model's workers that run. Raises ServerError when the server does not say them."""
        model = self._management.model(name)
        if model is None:
            raise ServerError(f"TorchServe no longer serves {name}: start it again.")
        return list(model.pids)

    def _log(self, name: str) -> str:
        with contextlib.suppress(OSError):
            return (self._home / "logs" / name).read_text(encoding="utf-8", errors="replace")
        return ""

    def wait(self) -> int:
        """Block until the server ends by itself; its exit code."""
        return self._process.wait() if self._process else 0

    def stop(self) -> None:
        """End the server and everything it started, and remove its directory. Safe to call twice."""
        process, self._process = self._process, None
        try:
            if process is not None:
                # The Python launcher only waits for Java.
                end_java(process.family(), STOP_TIMEOUT_S)
        finally:
            if process is not None:
                process.end()
            self._scratch.cleanup()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
