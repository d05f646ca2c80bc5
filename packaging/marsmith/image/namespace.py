"""A job in a network namespace of its own, in which nothing else is: its loopback is reached from nowhere else.

A module that has such a job calls `run_there`, which starts that module again as a program in a new namespace, and
calls `serve` where it is that program. The job goes to the program's standard input; its standard output is one
`Line` after the other, each JSON: progress, and last the answer or why there is none.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
from abc import abstractmethod
from pathlib import Path
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter

from marsmith.errors import ImageError, MarsmithError
from marsmith.ground.progress import Progress

# <linux/sockios.h> and <linux/if.h>.
SIOCSIFFLAGS, IFF_UP, IFF_RUNNING = 0x8914, 0x1, 0x40
IFREQ = struct.Struct("16sh14x")
# The exit code after an interrupt, as shells have it.
INTERRUPTED = 128 + signal.SIGINT

Answer = TypeVar("Answer")


class Job(BaseModel, Generic[Answer]):
    """What is to be done in a namespace: fields, and answers, that JSON can say."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @abstractmethod
    def run(self, progress: Progress) -> Answer:
        """Do it, inside the namespace. Raises MarsmithError."""


class Line(BaseModel):
    """One line of the program: exactly one of the three."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    progress: str | None = None
    answer: Any = None
    error: str | None = None


def unshare() -> str | None:
    """The program that makes namespaces; None where there is none, or where this user may not make one."""
    return shutil.which("unshare") if os.geteuid() == 0 else None


def run_there(program: str, module: str, job: Job[Answer], answer: type[Answer], progress: Progress) -> Answer:
    """Run a job of `module` in a namespace that the `program` unshare makes. Raises ImageError."""
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH")]))
    with subprocess.Popen(  # noqa: S603 - our own command line
        [program, "--net", "--", sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": path},
        start_new_session=True,
    ) as process:
        assert process.stdin is not None  # noqa: S101 - both are pipes
        assert process.stdout is not None  # noqa: S101
        try:
            process.stdin.write(job.model_dump_json())
            process.stdin.close()
            line = Line()
            for text in process.stdout:
                line = Line.model_validate_json(text)
                if line.progress is not None:
                    progress(line.progress)
        except BaseException:
            process.send_signal(signal.SIGINT)
            process.wait()
            raise
    if line.answer is None:
        raise ImageError(line.error or "The container could not be run: see above for what it said.")
    return TypeAdapter(answer).validate_python(line.answer)


def serve(kind: type[Job[Any]]) -> None:
    """Be the program in the namespace: read a job of that kind, run it, and write the lines."""
    job = kind.model_validate_json(sys.stdin.read())
    try:
        raise_loopback()
        answer = job.run(lambda step: _write(Line(progress=step)))
        _write(Line(answer=TypeAdapter(type(answer)).dump_python(answer, mode="json")))
    except MarsmithError as error:
        _write(Line(error=str(error)))
    except OSError as error:
        message = f"The container's network cannot be set up ({error.strerror}): use another --tool, or --static."
        _write(Line(error=message))
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def _write(line: Line) -> None:
    sys.stdout.write(line.model_dump_json(exclude_none=True) + "\n")
    sys.stdout.flush()


def raise_loopback() -> None:
    """Set the interface `lo` up, as `ip link set lo up` does. Raises OSError."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, IFREQ.pack(b"lo", IFF_UP | IFF_RUNNING))
