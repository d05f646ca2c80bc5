"""One container of the image on an emulated CPU, in the network namespace that this process is in."""

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from tests.arm64.tools import IMAGE, NAME, QEMU, buildah, environment

# Java, and the workers' imports, before a model loads.
START_S = 240
# The container ends by itself when it has drained.
STOP_S = 30
HEALTH_INTERVAL_S = 5
MODEL_STORE = "/opt/model-store"


class Container:
    """A container that starts as Docker starts it: by the entry point, command, user and environment of the image.

    The entry point is the first process of a process namespace, which changes what signals do. Where there is a
    `store`, it is mounted over the archives of the image. A model may take `timeout_s` to load, and so may requests to
    be answered when the container is told to end.
    """

    def __init__(self, configuration: dict[str, Any], cpu: str, log: Path, store: Path | None, timeout_s: int) -> None:
        config = configuration["config"]
        self._command: list[str] = [*config["Entrypoint"], *config["Cmd"]]
        kind, *self._health = config["Healthcheck"]["Test"]
        assert kind == "CMD"
        self._options = ["--isolation", "oci", "--runtime", "runc", "--network", "host"]
        self._options += ["--env", f"QEMU_CPU={cpu}", "--env", f"DRAIN_SECONDS={timeout_s}"]
        self._options += ["--volume", f"{store}:{MODEL_STORE}:ro"] if store else []
        self._log = log
        self._timeout_s = timeout_s
        self._name = f"{NAME}-{os.getpid()}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        buildah("from", "--pull-never", "--name", self._name, IMAGE)
        with self._log.open("wb") as log:
            self._process = self._run(self._command, stdout=log, stderr=log)
        return self

    def _run(self, command: Sequence[str], **options: Any) -> subprocess.Popen[bytes]:
        run = ["buildah", "run", *self._options, self._name, "--", *command]
        return subprocess.Popen(run, env=environment(), stdin=subprocess.DEVNULL, **options)

    def wait_healthy(self) -> float:
        """Seconds until the health check says that every model is READY."""
        begin = time.monotonic()
        while self._run(self._health, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait() != 0:
            assert self._process is not None
            assert self._process.poll() is None, f"the container ended with {self._process.returncode}: {self.tail()}"
            waited_s = time.monotonic() - begin
            assert waited_s < START_S + self._timeout_s, f"not healthy after {waited_s:.0f} s: {self.tail()}"
            time.sleep(HEALTH_INTERVAL_S)
        return time.monotonic() - begin

    def terminate(self) -> None:
        """What `docker stop` does first: SIGTERM to the entry point, and to it alone."""
        self._family()[0].send_signal(signal.SIGTERM)

    def wait(self) -> int:
        """The container's exit code."""
        assert self._process is not None
        return self._process.wait(self._timeout_s + STOP_S)

    def _family(self) -> list[psutil.Process]:
        """The entry point and what it started; empty when it has ended."""
        if self._process is None or self._process.poll() is not None:
            return []
        for child in psutil.Process(self._process.pid).children(recursive=True):
            # Above it are buildah's own processes.
            if child.cmdline()[:1] == [str(QEMU)]:
                return [child, *child.children(recursive=True)]
        return []

    def wrote(self) -> str:
        """All that the container wrote."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def tail(self) -> str:
        """The last lines that the container wrote."""
        return "\n".join(self.wrote().splitlines()[-40:])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in self._family():
            process.kill()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        buildah("rm", self._name)
