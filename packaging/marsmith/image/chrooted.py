"""A container of buildah, without any engine: a chroot in a network namespace of its own.

buildah gives a chroot the network of its caller. So the caller is this module as a program in a new namespace
(namespace.py): its loopback is the container's.
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from marsmith.errors import ImageError, last_line
from marsmith.ground.progress import Progress, silent
from marsmith.image import plan
from marsmith.image.live import READY_TIMEOUT_S, Health, Run, observe
from marsmith.image.namespace import Job, run_there, serve, unshare
from marsmith.image.running import END_TIMEOUT_S, run
from marsmith.image.tools import Tool, command, isolation
from marsmith.torchserve.processes import family, kill

HEALTH_TIMEOUT_S = 60
POLL_S = 0.05


@dataclass(slots=True)
class ChrootContainer:
    """A working container of buildah (live.py, Container): `inside` is what it runs."""

    tool: Tool
    name: str
    inside: list[str]
    health_check: list[str]
    store: str = ""
    environ: dict[str, str] = field(default_factory=dict)
    url: str = f"http://127.0.0.1:{plan.PORT}"
    _process: subprocess.Popen[bytes] | None = None
    _log: IO[bytes] | None = None

    def run_command(self, inside: Sequence[str]) -> list[str]:
        """What runs a command in it."""
        options = isolation(self.tool)
        if self.store:
            options += ["--volume", f"{self.store}:/{plan.STORE}:ro"]
        for name, value in self.environ.items():
            options += ["--env", f"{name}={value}"]
        return command(self.tool, "run", *options, self.name, "--", *inside)

    def start(self) -> None:
        """Start it."""
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `remove`
        self._process = subprocess.Popen(  # noqa: S603 - a tool that the user installed
            self.run_command(self.inside),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process is not None and self._process.poll() is None

    def health(self) -> Health:
        """What the health check's command says inside."""
        try:
            result = subprocess.run(  # noqa: S603 - a tool that the user installed
                self.run_command(self.health_check),
                capture_output=True,
                text=True,
                errors="replace",
                timeout=HEALTH_TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return Health(ok=False, message=f"the health check does not answer within {HEALTH_TIMEOUT_S} s")
        return Health.of(result)

    def said(self) -> str:
        """Its last line."""
        if self._log is None:
            return ""
        self._log.seek(0)
        return last_line(self._log.read().decode("utf-8", "replace"))

    def stop(self, limit_s: float) -> int:
        """SIGTERM to the program itself, which buildah does not forward; past the limit SIGKILL to all."""
        if self._process is None:
            return 0
        program = self._program()
        deadline = time.monotonic() + limit_s
        program.terminate()
        while self._process.poll() is None and time.monotonic() < deadline:
            time.sleep(POLL_S)
        code = self._process.poll()
        if code is None:
            _kill(self._process)
            return 128 + signal.SIGKILL
        return code

    def _program(self) -> psutil.Process:
        """The process that runs `inside`, with an emulator before it or not; those of buildah's own name it too."""
        assert self._process is not None  # noqa: S101 - `stop` has looked
        ours = psutil.Process(self._process.pid)
        for process in sorted(ours.children(recursive=True), key=lambda one: one.create_time()):
            with contextlib.suppress(psutil.Error):
                arguments = process.cmdline()
                own = Path(arguments[0]).name.startswith(self.tool.name) if arguments else True
                if not own and arguments[-len(self.inside) :][1:] == self.inside[1:]:
                    return process
        raise ImageError("The container's program is not to be found among its processes: check with another --tool.")

    def remove(self) -> None:
        """End it."""
        process, self._process = self._process, None
        if process is not None:
            _kill(process)
        if self._log is not None:
            self._log.close()
            self._log = None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End all below a process, in whatever session they are; buildah then tidies up, or is ended as well."""
    kill(one for one in reversed(family(process.pid)) if not _is_buildah(one))
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(END_TIMEOUT_S)
        return
    kill(family(process.pid))
    process.kill()
    process.wait()


def _is_buildah(process: psutil.Process) -> bool:
    try:
        return process.name().startswith("buildah")
    except psutil.NoSuchProcess:
        return False


class Observation(Job[Run]):
    """The check of a container that buildah made: what the program in the namespace is given."""

    tool: Tool
    name: str
    inside: list[str]
    health_check: list[str]
    store: str
    environ: dict[str, str]
    archives: list[Path]
    timeout_s: float

    def run(self, progress: Progress) -> Run:
        """Run the container through its life. Raises ImageError."""
        container = ChrootContainer(self.tool, self.name, self.inside, self.health_check, self.store, self.environ)
        return observe(container, self.archives, progress, timeout_s=self.timeout_s)


def observe_chrooted(
    tool: Tool,
    source: str,
    inside: Sequence[str],
    health: Sequence[str],
    archives: Sequence[Path],
    *,
    platform: str = plan.PLATFORM,
    store: Path | None = None,
    environ: Mapping[str, str] | None = None,
    timeout_s: float = READY_TIMEOUT_S,
    progress: Progress = silent,
) -> Run:
    """Check an image (a name, or oci-archive:FILE) in a namespace of its own. Raises ImageError."""
    program = unshare()
    if program is None:
        raise ImageError(
            "To run an image with buildah takes root and unshare, of util-linux: use sudo, another --tool, or --static."
        )
    made = run(command(tool, "from", "--pull-never", "--platform", platform, source), f"Making a container of {source}")
    name = made.split()[-1]
    job = Observation(
        tool=tool,
        name=name,
        inside=list(inside),
        health_check=list(health),
        store=str(store or ""),
        environ=dict(environ or {}),
        archives=list(archives),
        timeout_s=timeout_s,
    )
    try:
        return run_there(program, __name__, job, Run, progress)
    finally:
        with contextlib.suppress(ImageError):
            run(command(tool, "rm", name), "Removing the container")


if __name__ == "__main__":
    serve(Observation)
