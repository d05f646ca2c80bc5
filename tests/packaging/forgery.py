"""A small sound archive, and how someone who knows the format would forge one."""

import io
import random
import zipfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path, PurePosixPath

from marsmith.mar.directory import read_directory
from marsmith.mar.members import Source
from marsmith.mar.verify import Report, verify
from marsmith.mar.writer import Writer, write_archive

SEED = 47


def content() -> dict[str, bytes]:
    noise = random.Random(SEED)
    return {
        "MAR-INF/MANIFEST.json": b'{"model": {"modelName": "m", "handler": "m.py"}, "marsmith": {}}',
        "handlers/base.py": b"class Base:\n    pass\n" * 30,
        "m.py": b"from handlers.base import Base\n",
        "model-config.yaml": b"minWorkers: 1\n",
        "model/empty.weights": b"",
        "model/model.weights": noise.randbytes(3000),
        "model/straße.json": b'{"unicode": true}',
    }


def members(files: Mapping[str, bytes]) -> dict[PurePosixPath, Source]:
    return {PurePosixPath(name): data for name, data in files.items()}


def check(data: bytes, path: Path, key: Path | None = None) -> Report:
    path.write_bytes(data)
    return verify(path, key)


def spans(data: bytes) -> Iterator[tuple[str, int, int]]:
    """Each member's name with where its header begins and its data ends."""
    directory = read_directory(io.BytesIO(data))
    offsets = [*(one.entry.offset for one in directory.members), directory.offset]
    for one, (begin, end) in zip(directory.members, pairwise(offsets), strict=True):
        yield one.entry.name, begin, end


def rewritten(files: list[tuple[str, bytes]]) -> bytes:
    """A forgery by someone who knows the format: every zip record is as Marsmith writes it."""
    stream = io.BytesIO()
    with Writer(stream) as writer:
        for name, data in files:
            writer.add(PurePosixPath(name), data)
        writer.close()
    return stream.getvalue()


def unpacked(data: bytes) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(io.BytesIO(data)) as zip_file:
        return [(name, zip_file.read(name)) for name in zip_file.namelist()]


def write_sound(path: Path) -> bytes:
    """Write a sound archive to `path` and return its bytes."""
    write_archive(path, members(content()))
    return path.read_bytes()
