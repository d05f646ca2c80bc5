"""Run a tool and follow what it says: the step it is at for the user, and the words that explain a failure."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from marsmith.errors import ImageError
from marsmith.ground.progress import Progress, silent
from marsmith.torchserve.processes import end_session

END_TIMEOUT_S = 10
# "STEP 3/9: RUN …" of buildah and podman, "#8 [runtime 3/9] RUN …" of buildx.
STEP = re.compile(r"(?:\[[^\]]*\] )?STEP \d+(?:/\d+)?: .+|#\d+ \[(?:[\w.-]+ )*\d+/\d+\] .+")
# What a step itself prints, with buildx's number, where it has one, and time before it.
BUILDX_OUTPUT = re.compile(r"(?:#\d+ )?\d+\.\d+ (.+)")
# How the tools close: their own words about a step that has failed, without its reason.
CLOSING = re.compile(
    r"[Ee]rror:? building at STEP|ERROR: failed to solve|time=\S+ level=|ERRO\[|WARN\[|Finished$|exit status \d+$"
    r"|subprocess exited"
    r"|#\d+ (?:ERROR|CANCELED|DONE|CACHED)|-{3,}|\s*>\s|>>>|Dockerfile\S*:\d+|\s*\d+ \|"
)


@dataclass(slots=True)
class Log:
    """The last step that began, the last line that this step printed, and the last line of all."""

    step: str = ""
    said: str = ""
    last: str = ""

    def add(self, line: str) -> bool:
        """Take one line; whether it begins a step."""
        line = line.rstrip()
        if not line.strip():
            return False
        self.last = line.strip()
        if STEP.match(line):
            self.step, self.said = line, ""
            return True
        if output := BUILDX_OUTPUT.match(line):
            self.said = output[1].strip()
        elif not CLOSING.match(line) and not line.startswith("#"):
            self.said = line.strip()
        return False

    def failure(self) -> str:
        """Why it failed: what the step said last, else the tool's own last words."""
        words = (self.said or self.last or "it said nothing").rstrip(".")
        return f"{words} (in {self.step})" if self.step else words


def run(command: Sequence[str], what: str, progress: Progress = silent) -> str:
    """Run a tool to its end; what it printed, both streams together.

    Raises ImageError, which says that `what` failed and why. Interrupted, the tool ends first.
    """
    log, lines = Log(), list[str]()
    try:
        process = subprocess.Popen(  # noqa: S603 - a tool that the user installed
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
    except OSError as error:
        raise ImageError(f"{command[0]} cannot be run ({error.strerror}): install it again.") from None
    with process:
        assert process.stdout is not None  # noqa: S101 - it is a pipe
        try:
            for line in process.stdout:
                lines.append(line)
                if log.add(line):
                    progress(log.step)
        except BaseException:
            end_session(process, END_TIMEOUT_S)
            raise
    if process.returncode:
        raise ImageError(f"{what} failed: {log.failure()}. Put that right and try again.")
    return "".join(lines)
