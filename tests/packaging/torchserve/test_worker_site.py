"""TorchServe's worker starts without torch, and whoever uses torch notices nothing."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from marsmith.mar.members import MANIFEST
from marsmith.resources import worker_site
from marsmith.torchserve.worker import Worker, WorkerRequest


def python(code: str, *path: Path) -> str:
    """What a Python with our directory, and others behind it, prints."""
    python_path = os.pathsep.join(map(str, (worker_site(), *path)))
    environ = {**os.environ, "PYTHONPATH": python_path}
    result = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_the_worker_does_not_import_torch() -> None:
    assert python("import sys, ts.model_service_worker; print('torch' in sys.modules)") == "False"


@pytest.mark.slow
@pytest.mark.parametrize("statement", ["import torch", "import torch.nn.functional", "from torch import nn"])
def test_a_handler_that_imports_torch_gets_the_one_torch(statement: str) -> None:
    code = f"""
import ts.model_service_worker as worker
{statement}
import sys, torch
import ts.protocol.otf_message_handler as messages
assert sys.modules["torch"] is torch and type(torch).__name__ == "module"
assert messages.torch.Tensor is torch.Tensor
assert torch.nn.functional is sys.modules["torch.nn.functional"]
print(torch.tensor([1, 2]).sum().item())
"""
    assert python(code) == "3"


@pytest.mark.slow
def test_torch_that_is_imported_before_the_worker_is_its_torch() -> None:
    code = "import torch, ts.protocol.otf_message_handler as messages; print(messages.torch is torch)"
    assert python(code) == "True"


def test_an_environment_s_own_sitecustomize_runs_too(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.flag_of_theirs = True\n", encoding="utf-8")
    code = "import sys, ts.model_service_worker; print(sys.flag_of_theirs, 'torch' in sys.modules)"
    assert python(code, tmp_path) == "True False"


def test_what_that_one_does_to_the_path_stays(tmp_path: Path) -> None:
    (tmp_path / "extra").mkdir()
    (tmp_path / "extra" / "only_here.py").write_text("FOUND = True\n", encoding="utf-8")
    lines = f"import sys\nsys.path.append({str(tmp_path / 'extra')!r})\n"
    (tmp_path / "sitecustomize.py").write_text(lines, encoding="utf-8")
    code = f"import only_here, sys; print(only_here.FOUND, sys.path.count({str(worker_site())!r}))"
    assert python(code, tmp_path) == "True 1"


def test_one_that_fails_says_so_as_ever(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import a_module_that_nobody_has\n", encoding="utf-8")
    python_path = os.pathsep.join(map(str, (worker_site(), tmp_path)))
    environ = {**os.environ, "PYTHONPATH": python_path}
    result = subprocess.run([sys.executable, "-c", ""], env=environ, capture_output=True, text=True, check=False)
    assert "a_module_that_nobody_has" in result.stderr


HANDLER = """
import sys
{more}

def handle(data, context):
    return None if data is None else [{answer}] * len(data)
"""


def archive(directory: Path, more: str, answer: str) -> Path:
    path = directory / "m.mar"
    with zipfile.ZipFile(path, "w") as zip_file:
        manifest = {"model": {"modelName": "m", "modelVersion": "1.0", "handler": "own.py"}}
        zip_file.writestr(MANIFEST, json.dumps(manifest))
        zip_file.writestr("own.py", HANDLER.format(more=more, answer=answer))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("answer", ["b'x'", "'x'", "{'x': 1}", "1.5"])
def test_answers_that_are_no_tensors_need_no_torch(tmp_path: Path, answer: str) -> None:
    asked = [WorkerRequest.raw(b"?")]
    with Worker(archive(tmp_path, "", answer)) as worker:
        plain = worker.predict(asked)[0].body
    with Worker(archive(tmp_path, "import torch", answer)) as worker:
        assert worker.predict(asked)[0].body == plain
    with Worker(archive(tmp_path, "", "str(sys.modules.get('torch'))")) as worker:
        assert worker.predict(asked)[0].body == b"None"


@pytest.mark.slow
def test_tensors_in_answers_are_recognised(tmp_path: Path) -> None:
    import torch

    path = archive(tmp_path, "from torch import tensor", "tensor([1.0, 2.0])")
    with Worker(path) as worker:
        (answer,) = worker.predict([WorkerRequest.raw(b"?")])
    (tmp_path / "answer.pt").write_bytes(answer.body)
    assert torch.load(tmp_path / "answer.pt", weights_only=True).tolist() == [1.0, 2.0]
