"""What is said of a worker that ends."""

import json
import zipfile
from pathlib import Path

import pytest

from marsmith.errors import ServerError
from marsmith.mar.members import MANIFEST
from marsmith.torchserve.worker import Worker, WorkerRequest

HANDLER = """
import os
import signal
import sys

{at_import}

def handle(data, context):
    if data is None:
        return None
    print("a line that says nothing of the end", flush=True)
    {in_predict}
    return ["ok"] * len(data)
"""


def archive(directory: Path, at_import: str = "pass", in_predict: str = "pass") -> Path:
    """One that Marsmith did not build."""
    path = directory / "m.mar"
    with zipfile.ZipFile(path, "w") as zip_file:
        manifest = {"model": {"modelName": "m", "modelVersion": "1.0", "handler": "ending.py"}}
        zip_file.writestr(MANIFEST, json.dumps(manifest))
        zip_file.writestr("ending.py", HANDLER.format(at_import=at_import, in_predict=in_predict))
    return path


KILLED = "killed by signal 9, Killed"


@pytest.mark.parametrize(
    ("statement", "end"),
    [("os._exit(3)", "exit code 3"), ("sys.exit(4)", "exit code 4"), ("os.kill(os.getpid(), signal.SIGKILL)", KILLED)],
)
def test_a_handler_that_ends_the_process_shows_by_its_exit_code(tmp_path: Path, statement: str, end: str) -> None:
    says = f"Its last words: {end}; the last line of its log is: "
    with pytest.raises(ServerError, match=f"could not load its model. {says}"), Worker(archive(tmp_path, statement)):
        pass
    with Worker(archive(tmp_path, in_predict=statement)) as worker, pytest.raises(ServerError, match=says):
        worker.predict([WorkerRequest.raw(b"x")])


def test_a_handler_that_says_why_is_quoted_instead(tmp_path: Path) -> None:
    with (
        pytest.raises(ServerError, match=r"Its last words: ZeroDivisionError: division by zero$"),
        Worker(archive(tmp_path, "1 / 0")),
    ):
        pass
