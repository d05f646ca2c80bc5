"""Nothing that is built or served is reported to anybody: ONNX Runtime's packages would, by default."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from marsmith.resources import handlers_tree

# Whatever reports would leave an identifier here first.
HOMES = ("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
# Where one of these is set, ONNX Runtime reports nothing of itself.
SILENCERS = ("CI", "GITHUB_ACTIONS", "ORT_DISABLE_TELEMETRY", "PYTEST_CURRENT_TEST")


@pytest.mark.slow
@pytest.mark.parametrize("module", ["handlers.engine", "marsmith.network.export"])
def test_a_run_leaves_nothing_in_the_home(module: str, tmp_path: Path) -> None:
    environ = {name: value for name, value in os.environ.items() if name not in SILENCERS}
    environ |= {name: str(tmp_path) for name in HOMES}
    environ["PYTHONPATH"] = str(handlers_tree().parent)
    code = f"import {module}, onnxruntime, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    result = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert result.stdout == "1\n"
    assert list(tmp_path.rglob("*")) == []


def test_somebody_who_wants_to_report_may(tmp_path: Path) -> None:
    code = "import marsmith, os; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    environ = os.environ | {"ORT_DISABLE_TELEMETRY": "0"}
    result = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert result.stdout == "0\n"
