"""The virtual environments that some baselines need beside Marsmith's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.speed.roster import ENVIRONMENTS
from marsmith.ground.progress import Progress

INSTALL_TIMEOUT_S = 1800


def environments(directory: Path, names: list[str], progress: Progress) -> dict[str, Path]:
    """The Python of each of `names` that needs its own, below `directory`; made there when it is not yet.

    One that cannot be installed is left out, and said so.
    """
    pythons = {}
    for name in names:
        if name not in ENVIRONMENTS:
            continue
        python = directory / name / "bin/python"
        if python.is_file() or _made(directory / name, ENVIRONMENTS[name].requirements, progress):
            pythons[name] = python
    return pythons


def _made(home: Path, requirements: tuple[str, ...], progress: Progress) -> bool:
    progress(f"installing {', '.join(requirements)}")
    python = str(home / "bin/python")
    try:
        for command in (
            [sys.executable, "-m", "venv", str(home)],
            [python, "-m", "pip", "install", "--quiet", *requirements],
        ):
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S)  # noqa: S603
    except (subprocess.SubprocessError, OSError) as error:
        progress(f"{home.name} cannot be installed: {error}")
        return False
    return True
