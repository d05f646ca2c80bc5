"""What this machine's CPU can do, as /proc/cpuinfo says it."""

from __future__ import annotations

import platform
import re
from dataclasses import dataclass
from pathlib import Path

from marsmith.errors import ContainerError

CPUINFO = Path("/proc/cpuinfo")
ARM64 = "aarch64"
# Mandatory in ARMv8.1 (atomics, asimdrdm) and ARMv8.2 (dcpop): Linux's documentation, arch/arm64/elf_hwcaps.rst.
REQUIRED = ("atomics", "asimdrdm", "dcpop")
BF16 = "bf16"
# (implementer, part) of MIDR_EL1: Arm's technical reference manuals, and Linux's arch/arm64/include/asm/cputype.h.
NAMES = {
    (0x41, 0xD08): "Cortex-A72 (Graviton, Raspberry Pi 4)",
    (0x41, 0xD0C): "Neoverse N1 (Graviton2, Ampere Altra)",
    (0x41, 0xD40): "Neoverse V1 (Graviton3)",
    (0x41, 0xD49): "Neoverse N2 (Cobalt 100)",
    (0x41, 0xD4F): "Neoverse V2 (Graviton4, Axion)",
    (0xC0, 0xAC3): "Ampere-1 (AmpereOne)",
}
IMPLEMENTERS = {0x41: "Arm", 0x61: "Apple", 0xC0: "Ampere"}


@dataclass(frozen=True, slots=True)
class Cpu:
    """An Arm CPU's `features` are those that all of its cores have; of other machines nothing is asked."""

    machine: str
    name: str
    features: frozenset[str]

    @property
    def has_bf16(self) -> bool:
        """Whether it multiplies bfloat16: Graviton3 and later."""
        return BF16 in self.features

    def require_supported(self) -> None:
        """Raise ContainerError for a CPU older than ARMv8.2, on which programs of this image may end by SIGILL."""
        missing = [feature for feature in REQUIRED if feature not in self.features]
        if self.machine == ARM64 and missing:
            raise ContainerError(
                f"This CPU, {self.name}, is older than ARMv8.2 (it lacks {', '.join(missing)}), and this image needs "
                "that: run it on Graviton2 or later, or another CPU of 2018 or later."
            )


def read_cpu(cpuinfo: Path = CPUINFO, machine: str | None = None) -> Cpu:
    """The CPU of this machine. Raises ContainerError where an Arm CPU's description cannot be read."""
    machine = platform.machine() if machine is None else machine
    if machine != ARM64:
        return Cpu(machine, machine, frozenset())
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise ContainerError(
            f"{cpuinfo} cannot be read ({error.strerror or error}): start the container with /proc mounted."
        ) from None
    cores = [frozenset(line.partition(":")[2].split()) for line in text.splitlines() if line.startswith("Features")]
    if not cores:
        raise ContainerError(f"{cpuinfo} names no features of an Arm CPU: start the container with its own /proc.")
    return Cpu(machine, _name(text), frozenset.intersection(*cores))


def _name(cpuinfo: str) -> str:
    """The CPU's name by its registers, of the first core; what is not known by name is said by number."""
    values = (
        re.search(rf"^CPU {key}\s*:\s*(0x[0-9a-fA-F]+)", cpuinfo, re.MULTILINE) for key in ("implementer", "part")
    )
    implementer, part = (int(found.group(1), 16) if found else 0 for found in values)
    maker = IMPLEMENTERS.get(implementer, f"implementer {implementer:#x}")
    return NAMES.get((implementer, part), f"{maker}, part {part:#x}")
