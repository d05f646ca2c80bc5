"""What an archive's own handlers feed the network: asked of the packed code itself, in a process of its own.

The checkpoint's tokenizer or image processor is asked the same (text_probes.py, image_probes.py), so that what it does
beyond the settings which an archive holds is found before it is packed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from marsmith.errors import CheckpointError, ServerError, last_line
from marsmith.mar.members import Members
from marsmith.torchserve.worker import ENVIRONMENT

# A second here; as long as a worker gets to start (worker.py).
TIMEOUT_S = 120
# The handlers' own command (handlers/prepare.py).
COMMAND = ("-P", "-m", "handlers.prepare")

Inputs = Mapping[str, Sequence[str]]
Ask = Callable[[Inputs], list[Any]]


def asking(members: Members, scratch: Path) -> Ask:
    """What answers inputs as the handlers among `members` prepare them; `scratch` is an empty directory.

    `members` are the handlers, serving.json and the files that they preprocess with. Raises ServerError.
    """
    for name, source in members.items():
        file = scratch / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(source if isinstance(source, bytes) else source.read_bytes())
    environment = {name: os.environ[name] for name in ENVIRONMENT if name in os.environ}

    def ask(inputs: Inputs) -> list[Any]:
        out = scratch / "prepared.json"
        try:
            done = subprocess.run(  # noqa: S603 - our own command line
                [sys.executable, *COMMAND, str(scratch / "model"), str(out)],
                cwd=scratch,
                env=environment | {"PYTHONPATH": str(scratch), "LANG": "C.UTF-8"},
                input=json.dumps(inputs).encode("utf-8"),
                capture_output=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            answers: list[Any] = json.loads(out.read_bytes()) if not done.returncode else []
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise ServerError(f"The handlers cannot be asked how they prepare inputs: {error}.") from None
        if done.returncode:
            last = last_line(done.stderr.decode("utf-8", "replace")) or "none"
            raise ServerError(f"The handlers cannot prepare inputs. Last log line: {last}")
        return answers

    return ask


def refused(what: str, error: str) -> CheckpointError:
    """What is raised where the handlers take an input for one that no model reads."""
    return CheckpointError(f"The archive's handler refuses {what} ({error}): choose another checkpoint.")
