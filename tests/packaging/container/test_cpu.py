"""CPUs as Linux describes them, the lines that matter."""

from pathlib import Path

import pytest

from marsmith.container.cpu import ARM64, read_cpu
from marsmith.errors import ContainerError

ARMV8 = "fp asimd evtstrm aes pmull sha1 sha2 crc32"
ARMV8_2 = f"{ARMV8} atomics fphp asimdhp cpuid asimdrdm"
ARMV8_4 = f"{ARMV8_2} jscvt fcma lrcpc dcpop sha3 asimddp sha512 asimdfhm dit uscat ilrcpc flagm ssbs"
OLD = f"{ARMV8} cpuid"
N1 = f"{ARMV8_2} lrcpc dcpop asimddp ssbs"
V1 = f"{ARMV8_4} sm3 sm4 sve paca pacg dcpodp svei8mm svebf16 i8mm bf16 dgh rng"
N2 = f"{ARMV8_4} sve sb dcpodp sve2 flagm2 frint svei8mm svebf16 i8mm bf16 bti"
V2 = f"{N2} dgh rng"
APPLE_M1 = f"{ARMV8_4} sb paca pacg dcpodp flagm2 frint"
AMPERE_ONE = f"{APPLE_M1} i8mm bf16 rng bti ecv"
# Implementer, part, features, the beginning of the name, and whether it multiplies bfloat16.
CPUS = {
    "Graviton2": (0x41, 0xD0C, N1, "Neoverse N1", False),
    "Ampere Altra": (0x41, 0xD0C, N1, "Neoverse N1", False),
    "Graviton3": (0x41, 0xD40, V1, "Neoverse V1", True),
    "Graviton4": (0x41, 0xD4F, V2, "Neoverse V2", True),
    "Cobalt 100": (0x41, 0xD49, N2, "Neoverse N2", True),
    "AmpereOne": (0xC0, 0xAC3, AMPERE_ONE, "Ampere-1", True),
    "Apple M1": (0x61, 0x022, APPLE_M1, "Apple, part 0x22", False),
    "of a maker nobody heard of": (0x7F, 0x1, V1, "implementer 0x7f, part 0x1", True),
}


def cpuinfo(file: Path, *cores: tuple[int, int, str]) -> Path:
    file.write_text(
        "".join(
            f"processor\t: {number}\nBogoMIPS\t: 243.75\nFeatures\t: {features}\nCPU implementer\t: {implementer:#x}\n"
            f"CPU architecture: 8\nCPU variant\t: 0x3\nCPU part\t: {part:#05x}\nCPU revision\t: 1\n\n"
            for number, (implementer, part, features) in enumerate(cores)
        )
    )
    return file


@pytest.mark.parametrize("known", CPUS)
def test_cpus_that_the_image_is_for(tmp_path: Path, known: str) -> None:
    implementer, part, features, name, bf16 = CPUS[known]
    cpu = read_cpu(cpuinfo(tmp_path / "cpuinfo", *[(implementer, part, features)] * 2), ARM64)
    cpu.require_supported()
    assert cpu.name.startswith(name)
    assert cpu.has_bf16 is bf16


def test_a_cpu_before_armv8_2_is_refused_by_name(tmp_path: Path) -> None:
    cpu = read_cpu(cpuinfo(tmp_path / "cpuinfo", (0x41, 0xD08, OLD)), ARM64)
    with pytest.raises(ContainerError, match=r"Cortex-A72.*lacks atomics, asimdrdm, dcpop.*Graviton2 or later"):
        cpu.require_supported()


def test_a_feature_is_one_that_all_cores_have(tmp_path: Path) -> None:
    """Small cores beside large ones: a program may be moved between them."""
    cpu = read_cpu(cpuinfo(tmp_path / "cpuinfo", (0x41, 0xD40, V1), (0x41, 0xD0C, N1)), ARM64)
    assert not cpu.has_bf16
    assert "atomics" in cpu.features


def test_another_machine_is_asked_nothing(tmp_path: Path) -> None:
    cpu = read_cpu(tmp_path / "none", "x86_64")
    cpu.require_supported()
    assert not cpu.has_bf16


@pytest.mark.parametrize("content", [None, "", "processor : 0\nmodel name : AMD EPYC\n"])
def test_an_arm_cpu_that_is_not_described_is_an_error_with_a_remedy(tmp_path: Path, content: str | None) -> None:
    file = tmp_path / "cpuinfo"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ContainerError, match="/proc"):
        read_cpu(file, ARM64).require_supported()
