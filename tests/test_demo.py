"""The README's first command, and what happens to it when it is interrupted."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.packaging.ports import free_ports

ROOT = Path(__file__).parents[1]
TIMEOUT_S = 400


def command(store: Path, *more: str) -> list[str]:
    port = str(free_ports().first)
    return [sys.executable, "-m", "marsmith", "demo", "--once", "--json", "--store", str(store), "--port", port, *more]


@pytest.mark.server
def test_the_demo_is_right_about_every_sample(tmp_path: Path) -> None:
    result = subprocess.run(command(tmp_path), cwd=ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert result.returncode == 0, result.stderr
    report = json.loads(result.stdout)
    assert {Path(archive["path"]).name for archive in report["archives"]} == {"sentiment.mar", "food.mar"}
    assert all(answer["right"] for answer in report["answers"])
    assert {answer["model"] for answer in report["answers"]} == {"sentiment", "food"}
    assert len(report["answers"]) >= 9
    dishes = [answer["prediction"]["body"]["dishes"][0] for answer in report["answers"] if answer["model"] == "food"]
    assert all(dish["nutrition"]["source"].startswith("USDA") for dish in dishes)


@pytest.mark.server
def test_a_terminated_server_leaves_nothing_running(tmp_path: Path, short_directory: Path) -> None:
    store = tmp_path / "store"
    subprocess.run(
        [sys.executable, "-m", "marsmith", "build", "models/sentiment", "-o", str(store)],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    serve = [sys.executable, "-m", "marsmith", "serve", str(store / "sentiment.mar"), "--port", str(free_ports().first)]
    process = subprocess.Popen(serve, env={"TMPDIR": str(short_directory)}, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not (family := psutil.Process(process.pid).children(recursive=True)) or family[-1].name() != "java":
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        process.send_signal(signal.SIGTERM)  # before the server is ready
        assert process.wait(TIMEOUT_S) == 130
    finally:
        process.kill()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert alive == []
    assert list(short_directory.iterdir()) == []
