"""Containers of docker and podman, whose engine publishes the port on this machine's loopback."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from marsmith.errors import ImageError, last_line
from marsmith.image import plan
from marsmith.image.live import Health
from marsmith.image.running import run
from marsmith.image.tools import Tool, command

COMMAND_TIMEOUT_S = 60
LOADED = re.compile(r"^Loaded image(?: ID|\(s\))?: (\S+)", re.MULTILINE)


class EngineContainer:
    """A container of docker or podman (live.py, Container)."""

    url = ""

    def __init__(
        self,
        tool: Tool,
        image: str,
        health: Sequence[str],
        *,
        platform: str,
        store: Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        """`store` is a directory of archives to be mounted, `health` the command of the health check."""
        self._tool = tool
        self._image = image
        self._health = list(health)
        self._platform = platform
        self._store = store
        self._environ = environ or {}
        self._id = ""

    def start(self) -> None:
        """Start it, and find its port. Raises ImageError."""
        self._id = run(self.run_command(), f"Starting the container with {self._tool.name}").split()[-1]
        shown = run(command(self._tool, "port", self._id, str(plan.PORT)), "Finding the container's port")
        self.url = f"http://{shown.split()[-1]}"

    def run_command(self) -> list[str]:
        """What starts it: in the background, with the port on loopback alone, and no more rights than it needs."""
        options = ["--detach", "--platform", self._platform, "--publish", f"127.0.0.1::{plan.PORT}"]
        options += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        if self._store:
            options += ["--volume", f"{self._store}:/{plan.STORE}:ro"]
        for name, value in self._environ.items():
            options += ["--env", f"{name}={value}"]
        return command(self._tool, "run", *options, self._image)

    def running(self) -> bool:
        """Whether it has not ended."""
        return self._ask("inspect", "--format", "{{.State.Running}}", self._id).stdout.strip() == "true"

    def health(self) -> Health:
        """What the health check's command says inside."""
        return Health.of(self._ask("exec", self._id, *self._health))

    def said(self) -> str:
        """The last line of its log."""
        result = self._ask("logs", "--tail", "20", self._id)
        return last_line(result.stdout + result.stderr)

    def stop(self, limit_s: float) -> int:
        """SIGTERM, and past the limit SIGKILL; its exit code."""
        run(command(self._tool, "stop", "-t", f"{limit_s:.0f}", self._id), "Stopping the container")
        return int(self._ask("inspect", "--format", "{{.State.ExitCode}}", self._id).stdout.strip() or -1)

    def remove(self) -> None:
        """Remove it, running or not."""
        if self._id:
            self._ask("rm", "--force", "--volumes", self._id)
            self._id = ""

    def _ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        asked = command(self._tool, *arguments)
        with contextlib.suppress(subprocess.TimeoutExpired):
            return subprocess.run(  # noqa: S603 - a tool that the user installed
                asked, capture_output=True, text=True, errors="replace", timeout=COMMAND_TIMEOUT_S, check=False
            )
        return subprocess.CompletedProcess(asked, -1, "", "")


def load(tool: Tool, archive: Path) -> str:
    """Load an archive into the engine; the image's name there. Raises ImageError."""
    said = run(command(tool, "load", "--input", str(archive)), f"Loading {archive} into {tool.name}")
    names = LOADED.findall(said)
    if not names:
        raise ImageError(f"{tool.name} does not say what it loaded from {archive}: name the image instead.")
    return str(names[0])
