"""CPUs that have less, emulated: x86-64 without an instruction for int8, and Arm before version 8.2."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.arm64.container import Container
from tests.arm64.image import configuration
from tests.arm64.tools import QEMU, ROOT

pytestmark = [pytest.mark.arm64, pytest.mark.timeout(2400)]

# AVX2 and no VNNI, which adds two products in 16 bits.
AVX2 = "Haswell"
# Graviton1's and the Raspberry Pi 4's.
ARMV8_0 = "cortex-a72"
TIMEOUT_S = 300


@pytest.mark.usefixtures("tools")
def test_int8_is_exact_where_two_products_are_added_in_16_bits() -> None:
    """And weights of the full range are not: so the emulated CPU does add them so."""
    command = [str(QEMU.with_name("qemu-x86_64")), "-cpu", AVX2, sys.executable, "-m", "tests.arm64.saturation"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, check=True)
    assert json.loads(done.stdout) == {"marsmith": True, "full range": False}


@pytest.mark.usefixtures("image")
def test_an_older_arm_cpu_is_refused_with_a_sentence(tmp_path: Path) -> None:
    """Whatever is imported before that has to run there."""
    with Container(configuration(), ARMV8_0, tmp_path / "log", None, TIMEOUT_S) as container:
        code = container.wait()
        wrote = container.wrote()
    assert code == 1, wrote
    assert "error: This CPU, Cortex-A72" in wrote
    assert "older than ARMv8.2" in wrote
