"""hadolint has nothing to say about the Dockerfile, but for what the file itself sets aside, with a reason."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
HADOLINT = Path(sys.executable).with_name("hadolint")


def test_the_dockerfile_is_clean() -> None:
    command = [str(HADOLINT), "--no-color", str(ROOT / "Dockerfile.arm64")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout + result.stderr) == (0, "")


def test_hadolint_finds_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM debian\nRUN cd /tmp\n", encoding="utf-8")
    command = [str(HADOLINT), "--no-color", str(tmp_path / "Dockerfile")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert "DL3006" in result.stdout
