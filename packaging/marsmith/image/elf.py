"""The processor that an ELF file is for, by its header (System V ABI, chapter 4, and its supplements)."""

from __future__ import annotations

MAGIC = b"\x7fELF"
# Up to and with e_machine, which stands at the same place in files of 32 and of 64 bits.
HEADER_BYTES = 20
BIG_ENDIAN = 2
# e_machine by the architecture's name in image configurations, which are Go's.
MACHINES = {
    "386": 3,
    "amd64": 62,
    "arm": 40,
    "arm64": 183,
    "loong64": 258,
    "ppc64le": 21,
    "riscv64": 243,
    "s390x": 22,
}


def machine(head: bytes) -> int | None:
    """e_machine of the file that begins with `head`; None for what is no ELF file."""
    if not head.startswith(MAGIC) or len(head) < HEADER_BYTES:
        return None
    return int.from_bytes(head[18:20], "big" if head[5] == BIG_ENDIAN else "little")


def machine_name(number: int) -> str:
    """The architecture that e_machine stands for."""
    return next((name for name, known in MACHINES.items() if known == number), f"e_machine {number}")
