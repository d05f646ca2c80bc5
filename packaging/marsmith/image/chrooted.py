"""A container of buildah, without any engine: a chroot in a network namespace of its own, in which nothing else is.

buildah gives a chroot the network of its caller. So the caller is this module as a program, which `unshare` starts in
a new namespace: its loopback is the container's, and what listens there is reached from nowhere else.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psutil

from marsmith.errors import ImageError, MarsmithError, last_line
from marsmith.ground.progress import Progress, silent
from marsmith.image import plan
from marsmith.image.live import READY_TIMEOUT_S, Health, Run, observe
from marsmith.image.running import END_TIMEOUT_S, run
from marsmith.image.tools import Tool, command, isolation
from marsmith.torchserve.processes import family, kill

HEALTH_TIMEOUT_S = 60
POLL_S = 0.05
# <linux/sockios.h> and <linux/if.h>.
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
IFREQ = struct.Struct("16sh14x")


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
    unshare = shutil.which("unshare")
    if unshare is None or os.geteuid() != 0:
        raise ImageError(
            "To run an image with buildah takes root and unshare, of util-linux: use sudo, another --tool, or --static."
        )
    made = run(command(tool, "from", "--pull-never", "--platform", platform, source), f"Making a container of {source}")
    name = made.split()[-1]
    job = {
        "container": {
            "tool": [tool.name, tool.path],
            "name": name,
            "inside": list(inside),
            "health_check": list(health),
            "store": str(store or ""),
            "environ": dict(environ or {}),
        },
        "archives": [str(path) for path in archives],
        "timeout_s": timeout_s,
    }
    try:
        return _in_namespace([unshare, "--net", "--", sys.executable, "-P", "-m", __name__], job, progress)
    finally:
        with contextlib.suppress(ImageError):
            run(command(tool, "rm", name), "Removing the container")


def _in_namespace(asked: list[str], job: dict[str, object], progress: Progress) -> Run:
    """Run this module with a job; it says its progress line by line, and at last the run."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(  # noqa: S603 - our own command line
        asked,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
    ) as process:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        try:
            process.stdin.write(json.dumps(job))
            process.stdin.close()
            answer: dict[str, object] = {}
            for line in process.stdout:
                answer = json.loads(line)
                if "progress" in answer:
                    progress(str(answer["progress"]))
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    if "run" not in answer:
        raise ImageError(str(answer.get("error", "The container could not be run: see above for what it said.")))
    return Run.from_json(answer["run"])  # type: ignore[arg-type]


def raise_loopback() -> None:
    """Set the interface `lo` up, as `ip link set lo up` does. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, IFREQ.pack(b"lo", IFF_UP | IFF_RUNNING))


def main() -> None:
    """Be the program in the namespace: a job on standard input, JSON lines on standard output."""
    job = json.load(sys.stdin)
    (name, path), rest = job["container"].pop("tool"), job["container"]

    def say(**value: object) -> None:
        sys.stdout.write(json.dumps(value) + "\n")
        sys.stdout.flush()

    try:
        raise_loopback()
        container = ChrootContainer(Tool(name, path), **rest)
        archives = [Path(one) for one in job["archives"]]
        run = observe(container, archives, lambda step: say(progress=step), timeout_s=job["timeout_s"])
        say(run=run.to_json())
    except MarsmithError as error:
        say(error=str(error))
    except OSError as error:
        say(error=f"The container's network cannot be set up ({error.strerror}): use another --tool, or --static.")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
