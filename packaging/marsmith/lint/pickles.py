"""M406: pickles, told by their first bytes, never loaded."""

from __future__ import annotations

import pickletools
import struct
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Literal

from marsmith.lint.findings import Finding
from marsmith.mar.records import LOCAL, LOCAL_SIGNATURE

Kind = Literal["pickle", "torchscript"]

# What pickle, joblib, dill and cloudpickle are saved as; older protocols and joblib's compression have no mark.
PICKLE_SUFFIXES = frozenset({".pkl", ".pickle", ".joblib", ".dill", ".cloudpickle"})
# The protocols that write their number first, up to the newest of Python 3.13.
PROTOCOLS = range(2, 6)
# So many opcodes in a row are no accident, nor is a frame; a pickle that is whole may end earlier, with STOP.
LEAST_OPCODES = 4
# torch.export.save writes the example inputs of a program as a pickle, somewhere in the zip file, always.
TORCH_EXPORT_SUFFIX = ".pt2"
NUMPY_SIGNATURE = b"\x93NUMPY"
NUMPY_HEADER_BYTES = 256
# torch.jit.save names its classes so; its unpickler makes nothing else.
TORCHSCRIPT = b"\x80\x02c__torch__"


def kind_of(name: str, head: bytes) -> Kind | None:
    """What a file is, by its name and first bytes; None for what is neither.

    torch.save writes a zip file whose first record is data.pkl, numpy.savez one whose first record is an array.
    """
    if head.startswith(LOCAL_SIGNATURE):
        if PurePosixPath(name).suffix.lower() == TORCH_EXPORT_SUFFIX:
            return "pickle"
        record, data = _first_record(head)
        if data.startswith(TORCHSCRIPT) or "/code/" in record:
            return "torchscript"
        return "pickle" if record.endswith("data.pkl") or _holds_objects(data) else None
    by_name = PurePosixPath(name).suffix.lower() in PICKLE_SUFFIXES
    return "pickle" if by_name or _is_pickle(head) or _holds_objects(head) else None


def lint_pickle(name: str, head: bytes) -> Iterator[Finding]:
    """A finding when a member is a pickle. TorchScript is not one: what it runs is TorchScript only."""
    if kind_of(name, head) == "pickle":
        yield Finding(
            "M406",
            name,
            "The file is a pickle, and loading it may run any code.",
            "Store weights as safetensors or ONNX and everything else as JSON.",
        )


def _first_record(head: bytes) -> tuple[str, bytes]:
    """Name and beginning of a zip file's first record."""
    if len(head) < LOCAL.size:
        return "", b""
    name_length, extra_length = LOCAL.unpack_from(head)[-2:]
    begin = LOCAL.size + name_length
    return head[LOCAL.size : begin].decode("utf-8", "replace"), head[begin + extra_length :]


def _holds_objects(data: bytes) -> bool:
    """Whether an .npy array has Python objects in it, which numpy pickles."""
    return data.startswith(NUMPY_SIGNATURE) and b"|O" in data[:NUMPY_HEADER_BYTES]


def _is_pickle(data: bytes) -> bool:
    if data[:1] != b"\x80" or data[1:2] == b"" or data[1] not in PROTOCOLS:
        return False
    opcodes: list[str] = []
    try:
        opcodes.extend(opcode.name for opcode, _, _ in pickletools.genops(data))
    except (ValueError, OverflowError, struct.error):
        return len(opcodes) >= LEAST_OPCODES or "FRAME" in opcodes  # cut off, or no pickle
    return True
