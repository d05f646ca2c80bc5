"""Where an archive's time goes, by operator and by function."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.profile import main
from benchmarks.speed.limit import ROOT

TIMEOUT_S = 120


@pytest.mark.parametrize(("name", "product"), [("sentiment", "MatMul"), ("food", "MatMul")])
def test_the_network_and_the_handler_are_profiled(name: str, product: str, store: Path, tmp_path: Path) -> None:
    out = tmp_path / "profile.json"
    command = [sys.executable, "-m", "benchmarks.profile", str(store / f"{name}.mar"), "--json", str(out)]
    command += ["--batch", "4", "--repeats", "3"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=TIMEOUT_S)
    found = json.loads(out.read_text())
    operators = {line["name"]: line for line in found["operators"]}
    # Each of three repeats runs every product of the graph once.
    assert any(product in operator and line["calls"] % 3 == 0 for operator, line in operators.items())
    functions = [line["name"] for line in found["functions"]]
    assert any("onnxruntime" in function and "run" in function for function in functions)
    for lines in (found["operators"], found["functions"]):
        shares = [line["share"] for line in lines]
        assert shares == sorted(shares, reverse=True)
        assert 0 < sum(shares) < 1.000001


def test_what_is_no_archive_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none.mar")]) == 1
    assert "There is no archive" in " ".join(capsys.readouterr().err.split())
