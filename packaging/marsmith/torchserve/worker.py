"""Run an archive in TorchServe's real Python worker process, without Java and offline: load it and send it batches.

The frames are those of ts/protocol/otf_message_handler.py in TorchServe 0.12: big-endian int32 lengths before every
string, -1 at the end of every list.
"""

from __future__ import annotations

import contextlib
import os
import signal
import site
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType

from marsmith.errors import ArchiveError, ServerError, first_line, last_line
from marsmith.ground.untrusted import mapping
from marsmith.mar.members import MANIFEST
from marsmith.mar.reader import extract_archive, read_json, read_yaml
from marsmith.resources import worker_site
from marsmith.torchserve.configuration import UTF8
from marsmith.torchserve.failures import worker_failure
from marsmith.torchserve.processes import Guarded

# What TorchServe allows where an archive says nothing: a start, a load and a batch.
CONNECT_TIMEOUT_S = 120
DEFAULT_TIMEOUT_S = 120
POLL_S = 0.05
# A worker that broke its connection is about to end.
END_TIMEOUT_S = 2
END = struct.pack("!i", -1)
OFFLINE = Path(__file__).with_name("offline.py")
# What a worker needs of this process's environment; the rest could make a test pass here that fails elsewhere.
ENVIRONMENT = ("PATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "ORT_DISABLE_TELEMETRY")


@dataclass(frozen=True, slots=True)
class WorkerRequest:
    """One request as the frontend forwards it: `parts` are (field name, content type, bytes)."""

    parts: Sequence[tuple[str, str, bytes]]
    headers: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def raw(cls, body: bytes, content_type: str = "") -> WorkerRequest:
        """A request with a raw body, as TorchServe names it."""
        return cls([("body", content_type, body)], {"Content-Type": content_type} if content_type else {})


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """One answer of a batch."""

    status: int
    phrase: str
    headers: dict[str, str]
    body: bytes


class Worker:
    """A worker process with one archive loaded; a context manager that ends it.

    It gets a clean environment with `environ` laid over it.
    """

    def __init__(self, path: Path, environ: Mapping[str, str] | None = None) -> None:
        self._scratch = tempfile.TemporaryDirectory(prefix="marsmith-worker-")
        self._home = Path(self._scratch.name)
        self._path = path
        kept = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}
        # An empty home: what lies in somebody's cache is not in the archive. Packages may, when Marsmith does.
        home = {"HOME": str(self._home), "TMPDIR": str(self._home), "PYTHONUSERBASE": site.getuserbase()}
        self._environ = kept | home | UTF8 | {"HF_HUB_OFFLINE": "1"} | dict(environ or {})
        self._sockets: tempfile.TemporaryDirectory[str] | None = None
        self._process: Guarded | None = None
        self._answer_timeout_s = DEFAULT_TIMEOUT_S
        self._socket = socket.socket(socket.AF_UNIX)

    def __enter__(self) -> Worker:
        try:
            with self._worker_faults():
                self._start()
        except BaseException:
            self.stop()
            raise
        return self

    @contextlib.contextmanager
    def _worker_faults(self) -> Iterator[None]:
        """Turn a worker that breaks its connection, or takes too long, into a ServerError with its last words."""
        try:
            yield
        except OSError as error:
            raise ServerError(
                f"TorchServe's worker gave no answer ({first_line(error)}). Its last words: {self.last_words()}"
            ) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        model_dir = self._home / "model"
        extract_archive(self._path, model_dir)
        spec = find_spec("ts")
        if spec is None or spec.origin is None:
            raise ServerError("TorchServe is not installed: pip install torchserve==0.12.0.")
        home = Path(spec.origin).parent
        # The worker reads a port from the name's ending; a socket's path may not be longer than 107 bytes.
        self._sockets = tempfile.TemporaryDirectory(prefix="marsmith-", dir="/tmp")
        sock = Path(self._sockets.name) / "socket.9000"
        command = [sys.executable, "-P", str(OFFLINE), str(home / "model_service_worker.py"), "--sock-type", "unix"]
        command += ["--sock-name", str(sock), "--metrics-config", str(home / "configs/metrics.yaml")]
        # The frontend's order: its own environment's, the archive, TorchServe's own packages (EnvironmentUtils.java).
        python_path = os.pathsep.join(map(str, (worker_site(), model_dir, home.parent)))
        with self.log.open("wb") as log:
            self._process = Guarded(
                command,
                remove=self._home,
                cwd=model_dir,
                env=self._environ | {"PYTHONPATH": python_path},
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while not self._connected(sock):
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise ServerError(f"TorchServe's worker did not start. Its last words: {self.last_words()}")
            time.sleep(POLL_S)
        self._load(model_dir)

    def _connected(self, sock: Path) -> bool:
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            self._socket.connect(str(sock))
            return True
        return False

    def _load(self, model_dir: Path) -> None:
        model = mapping(read_json(self._path, MANIFEST).get("model"))
        if not {"modelName", "handler"} <= model.keys():
            raise ArchiveError(f"The manifest of {self._path} names no model and handler: TorchServe cannot serve it.")
        name, handler = str(model["modelName"]), str(model["handler"])
        config = read_yaml(self._path, str(model.get("configFile")))
        self._answer_timeout_s = _seconds(config.get("responseTimeout"))
        self._socket.settimeout(_seconds(config.get("startupTimeout")))
        message = b"L" + _string(name) + _string(str(model_dir)) + struct.pack("!i", 1)
        message += _string(handler) + struct.pack("!i", -1) + _string("") + struct.pack("!?", True)
        self._socket.sendall(message)
        try:
            code, _ = self._int(), self._bytes()
        except (ServerError, ConnectionError):
            code = 0
        if code != HTTPStatus.OK:
            raise ServerError(f"The worker could not load its model. Its last words: {self.last_words()}")
        self._int()

    def predict(self, batch: Sequence[WorkerRequest]) -> list[WorkerAnswer]:
        """The answers to one batch, in order. Raises ServerError when the worker dies of it or takes too long."""
        with self._worker_faults():
            self._socket.settimeout(self._answer_timeout_s)
            self._socket.sendall(_batch(batch))
            self._int(), self._bytes()
            return list(self._answers())

    def _answers(self) -> Iterator[WorkerAnswer]:
        while (length := self._int()) >= 0:
            self._read(length)
            self._bytes()  # the content type, which the headers hold too
            status, phrase = self._int(), self._bytes().decode("ascii")
            headers = {self._bytes().decode(): self._bytes().decode() for _ in range(self._int())}
            yield WorkerAnswer(status, phrase, headers, self._bytes())

    @property
    def log(self) -> Path:
        """Everything that the worker wrote to its standard output and error."""
        return self._home / "worker.log"

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The process, for who measures or ends it. Raises ServerError before it is started, and after it ended."""
        family = self._process.family() if self._process else []
        if not family:
            raise ServerError("The worker does not run.")
        return family[0].pid

    def last_words(self) -> str:
        """Why the worker failed, where it says so, else how it ended and the last line of its log."""
        text = self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
        if failure := worker_failure(text):
            return failure
        last = last_line(text) or "none"
        # What a handler that ends the process logged before need not be why.
        return f"{end}; the last line of its log is: {last}" if (end := self._end()) else last

    def _end(self) -> str:
        """How the process ended; empty where it runs on."""
        try:
            code = self._process.wait(END_TIMEOUT_S) if self._process else None
        except subprocess.TimeoutExpired:
            code = None
        if code is None:
            return ""
        return f"killed by signal {-code}, {signal.strsignal(-code)}" if code < 0 else f"exit code {code}"

    def stop(self) -> None:
        """End the process and remove its directory."""
        self._socket.close()
        if self._process is not None:
            self._process.end()
        if self._sockets is not None:
            self._sockets.cleanup()
        self._scratch.cleanup()

    def _int(self) -> int:
        (value,) = struct.unpack("!i", self._read(4))
        return int(value)

    def _bytes(self) -> bytes:
        return self._read(self._int())

    def _read(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            chunk = self._socket.recv(length - len(data))
            if not chunk:
                raise ServerError(f"The worker ended. Its last words: {self.last_words()}")
            data += chunk
        return data


def _string(value: str | bytes) -> bytes:
    encoded = value.encode("utf-8") if isinstance(value, str) else value
    return struct.pack("!i", len(encoded)) + encoded


def _batch(batch: Sequence[WorkerRequest]) -> bytes:
    # Bytes would be copied for each of a form's thousands of fields.
    message = bytearray(b"I")
    for index, request in enumerate(batch):
        message += _string(f"request-{index}")
        for name, value in request.headers.items():
            message += _string(name) + _string(value)
        message += END
        for field_name, content_type, content in request.parts:
            message += _string(field_name) + _string(content_type) + _string(content)
        message += END
    return bytes(message + END)


def _seconds(value: object) -> int:
    """A timeout of model-config.yaml; TorchServe ignores what is no whole number above 0."""
    return value if type(value) is int and value > 0 else DEFAULT_TIMEOUT_S
