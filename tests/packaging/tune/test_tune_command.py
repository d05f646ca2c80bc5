"""`marsmith tune` as a user runs it."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from marsmith.recipe.recipe import Recipe
from tests.packaging.ports import free_ports

pytestmark = pytest.mark.slow


TIMEOUT_S = 400
SHORT = ("--precisions", "fp32", "--clients", "4", "--seconds", "0.5")
NOTE = "# as measured in May\n"


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "marsmith", "tune", *map(str, arguments)]


def tune(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


@pytest.fixture
def recipe(sentiment_recipe: Path, tmp_path: Path) -> Path:
    """A copy of the tiny recipe, to be written to."""
    directory = tmp_path / "recipe"
    shutil.copytree(sentiment_recipe.parent, directory)
    file = directory / "recipe.toml"
    file.write_text(NOTE + file.read_text())
    return file


@pytest.mark.server
def test_settings_are_measured_and_the_best_is_written(recipe: Path) -> None:
    port = free_ports().first
    found = tune(recipe, *SHORT, "--batch-sizes", "1,4", "--delays", "2", "--port", port, "--write", "--json")
    assert found.returncode == 0, found.stderr
    report = json.loads(found.stdout)
    assert (report["recipe"], report["clients"], report["refused"]) == ("sentiment", 4, [])
    rows = report["rows"]
    settings = [row["setting"] for row in rows]
    assert {one["batch_size"] for one in settings} == {1, 4, Recipe.model_fields["serving"].default.batch_size}
    assert all(one["workers"] * one["threads"] <= report["machine"]["cores"] for one in settings)
    assert len({json.dumps(one) for one in settings}) == len(settings)
    for row in rows:
        assert row["failed"] == 0
        assert row["per_second"] > 0
        assert 0 < row["p50_ms"] <= row["p95_ms"]
        assert row["lone_p50_ms"] > 0
        assert row["memory_bytes"] > 10_000_000
        assert row["accuracy"]["inputs"] == 3
        assert row["accuracy"]["label_agreement"] == 1
        assert row["accuracy"]["max_probability_change"] < 1e-4
    chosen = report["recommended"]["setting"]
    assert chosen in settings
    said = Recipe.load(recipe)
    assert said.precision == chosen["precision"] == "fp32"
    for key in ("workers", "batch_size", "max_batch_delay_ms"):
        assert getattr(said.serving, key) == chosen[key]
    assert recipe.read_text().startswith(NOTE)
    assert "great day" not in found.stdout + found.stderr  # a golden request


@pytest.mark.server
def test_ctrl_c_stops_the_server_and_shows_what_was_measured(recipe: Path) -> None:
    before = recipe.read_text()
    line = command(recipe, *SHORT, "--port", free_ports().first, "--write", "--json")
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    family: dict[int, psutil.Process] = {}
    servers: set[int] = set()
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while len(servers) < 2:  # the second server's setting is not measured yet, the first one's is
            assert time.monotonic() < deadline
            assert process.poll() is None
            family |= {child.pid: child for child in psutil.Process(process.pid).children(recursive=True)}
            servers |= {pid for pid, child in family.items() if _serves(child)}
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Traceback" not in stderr
    assert len(json.loads(stdout)["rows"]) == 1
    _, alive = psutil.wait_procs(list(family.values()), timeout=10)
    assert alive == []
    assert recipe.read_text() == before


def _serves(process: psutil.Process) -> bool:
    """Whether it is TorchServe's Java, and not one that was asked for its version."""
    try:
        return "org.pytorch.serve.ModelServer" in process.cmdline()
    except psutil.Error:
        return False


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nowhere",), "There is no recipe at nowhere"),
        (("RECIPE", "--precisions", "fp7"), "There is no precision fp7: choose from"),
        (("RECIPE", "--workers", "4096"), "Workers x threads would pass the"),
        (("RECIPE", "--inputs", "nowhere.txt"), "nowhere.txt cannot be read as text: No such file"),
    ],
)
def test_a_mistake_is_one_sentence(sentiment_recipe: Path, arguments: tuple[str, ...], says: str) -> None:
    port = free_ports().first
    found = tune(*(sentiment_recipe if one == "RECIPE" else one for one in arguments), "--port", port)
    assert (found.returncode, found.stdout) == (1, "")
    (line,) = found.stderr.strip().splitlines()
    assert line.startswith("error: ")
    assert says in line


def test_a_port_that_is_taken_is_named_before_anything_is_built(sentiment_recipe: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = tune(sentiment_recipe, "--port", port)
    assert found.returncode == 1
    assert found.stderr.startswith(f"error: Port {port} cannot be used")


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--workers", "two"),
        ("--batch-sizes", "0"),
        ("--delays", "1,-5"),
        ("--delays", ","),
        ("--batch-sizes", ","),
        ("--batch-sizes", ""),
        ("--threads", ","),
    ],
)
def test_a_list_that_holds_no_numbers_is_a_mistake_of_the_command_line(
    sentiment_recipe: Path, option: str, value: str
) -> None:
    found: Any = tune(sentiment_recipe, option, value)
    assert found.returncode == 2
    assert "give whole numbers from 1 on" in found.stderr
    assert option in found.stderr
