"""How fast this machine emulates products, and so how much work the tests may ask for.

Two machines emulate instructions for single numbers about equally fast, and products of matrices ten times apart.
"""

import json
import shutil
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self, get_args

import numpy as np

from marsmith.ground.serving import Precision
from tests.arm64.image import wheels
from tests.arm64.tools import BASE_IMAGE, buildah
from tests.packaging.products import in_int8, product

CLOCK = Path(__file__).with_name("clock.py")
# Whether they have products of bf16: Graviton3 has, Graviton2 has not.
CPUS = {"neoverse-v1": True, "neoverse-n1": False}
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
# Of the wheels of the image, what the clock imports.
CLOCK_WHEELS = ("numpy", "onnxruntime", "flatbuffers", "protobuf", "packaging")
TOKENS, CHANNELS = 32, 256
# CPU seconds of products that an archive's golden requests may cost; they are asked twice, at load and by the test.
NETWORK_S = 25.0
# What else a worker does until it has loaded, on the slowest machine seen and beside three other workers.
LOAD_S = 240
# Wall seconds for each CPU second: workers share the cores, and attention and the rest of a network come on top.
PATIENCE = 8


@dataclass(frozen=True, slots=True)
class Emulation:
    """`rates` are multiply-adds a second by CPU and precision, in one thread."""

    rates: Mapping[tuple[str, Precision], float]

    @classmethod
    def measure(cls, scratch: Path) -> Self:
        """Measure each CPU in a container of the base image."""
        site, graphs = scratch / "site", scratch / "graphs"
        for wheel in (path for path in wheels().iterdir() if path.name.startswith(CLOCK_WHEELS)):
            zipfile.ZipFile(wheel).extractall(site)
        shutil.copy(CLOCK, scratch)
        _write_graphs(graphs)
        container = buildah("from", "--pull-never", BASE_IMAGE).split()[-1]
        try:
            return cls({(cpu, one): rate for cpu in CPUS for one, rate in _rates(container, cpu, scratch).items()})
        finally:
            buildah("rm", container)

    def affordable(self, precision: Precision) -> float:
        """Multiply-adds that the golden requests of an archive may take, on whichever CPU is slower."""
        return NETWORK_S * min(self.rates[cpu, precision] for cpu in CPUS)

    @property
    def timeout_s(self) -> int:
        """Seconds for a worker to load, and for an answer: the work is bounded by `affordable`, whatever the rate."""
        return int(LOAD_S + PATIENCE * NETWORK_S)


def _write_graphs(directory: Path) -> None:
    directory.mkdir()
    weights = np.random.default_rng(0).standard_normal((CHANNELS, CHANNELS)).astype(np.float32)
    product(directory / "fp32", weights)
    shutil.copytree(directory / "fp32", directory / "bf16")
    in_int8(directory / "fp32")
    shutil.move(directory / "fp32/int8", directory / "int8")


def _rates(container: str, cpu: str, scratch: Path) -> dict[Precision, float]:
    """Multiply-adds a second of each precision on one CPU."""
    options = ["--isolation", "oci", "--runtime", "runc", "--network", "host", "--volume", f"{scratch}:/clock:ro"]
    options += ["--env", f"QEMU_CPU={cpu}", "--env", "PYTHONPATH=/clock/site"]
    said = buildah("run", *options, container, "--", "python3", "/clock/clock.py", "/clock/graphs", str(TOKENS))
    seconds: dict[Precision, float] = json.loads(said.splitlines()[-1])
    assert set(seconds) == set(PRECISIONS)
    return {precision: TOKENS * CHANNELS * CHANNELS / taken for precision, taken in seconds.items()}
