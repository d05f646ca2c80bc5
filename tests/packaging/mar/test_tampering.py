"""Ten thousand random tamperings: every one is found, and the member that it hit is named."""

import io
import random
import zipfile
from pathlib import Path

import pytest

from marsmith.mar import records
from marsmith.mar.directory import read_directory
from marsmith.mar.keys import keygen
from marsmith.mar.members import MANIFEST
from marsmith.mar.signing import sign
from tests.packaging.forgery import SEED, check, rewritten, spans, unpacked, write_sound

TAMPERINGS = 10_000


@pytest.fixture(scope="module")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    private = tmp_path_factory.mktemp("key") / "key.pem"
    keygen(private)
    return private


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory, key: Path) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "m.mar"
    write_sound(path)
    sign(path, key)
    return path.read_bytes()


def flip(data: bytes, dice: random.Random) -> tuple[bytes, set[str]]:
    name, begin, end = dice.choice(list(spans(data)))
    position, changed = dice.randrange(begin, end), bytearray(data)
    changed[position] ^= 1 << dice.randrange(8)
    return bytes(changed), {name}


def flip_in_the_directory(data: bytes, dice: random.Random) -> tuple[bytes, set[str]]:
    directory = read_directory(io.BytesIO(data))
    position, begin = directory.offset, {}
    for one in directory.members:
        begin[one.entry.name] = position
        position += len(one.raw)
    name = dice.choice(list(begin))
    where = begin[name] + dice.randrange(records.CENTRAL.size)
    changed = bytearray(data)
    changed[where] ^= 1 << dice.randrange(8)
    names = list(begin)
    before = names[
        names.index(name) - 1
    ]  # a record without its signature: the directory breaks off after the one before
    return bytes(changed), {name, before}


def remove(data: bytes, dice: random.Random) -> tuple[bytes, set[str]]:
    files = unpacked(data)
    name, _ = files.pop(dice.randrange(len(files)))
    return rewritten(files), {name}


def add(data: bytes, dice: random.Random) -> tuple[bytes, set[str]]:
    files = unpacked(data)
    name = f"evil{dice.randrange(1000)}.py"
    files.insert(dice.randrange(len(files)), (name, dice.randbytes(10)))
    return rewritten(files), {name}


def swap(data: bytes, dice: random.Random) -> tuple[bytes, set[str]]:
    """Two members exchange their contents."""
    files = unpacked(data)
    i, j = dice.sample(range(len(files) - 2), 2)
    (one, first), (other, second) = files[i], files[j]
    files[i], files[j] = (one, second), (other, first)
    return rewritten(files), {one, other}


def reorder(data: bytes, dice: random.Random) -> tuple[bytes, set[str]]:
    """Two members change places, with everything they hold."""
    files = unpacked(data)
    i, j = dice.sample(range(len(files)), 2)
    files[i], files[j] = files[j], files[i]
    return rewritten(files), {name for name, _ in files}


def replace(data: bytes, dice: random.Random) -> tuple[bytes, set[str]]:
    files = unpacked(data)
    index = dice.randrange(len(files) - 2)
    name, old = files[index]
    files[index] = (name, old + dice.randbytes(1))
    return rewritten(files), {name}


def truncate(data: bytes, dice: random.Random) -> tuple[bytes, set[str]]:
    cut = dice.randrange(records.LOCAL.size + len(MANIFEST), len(data) - 1)
    inside = [name for name, begin, end in spans(data) if begin + records.LOCAL.size + len(name.encode()) <= cut < end]
    before = [name for name, _, end in spans(data) if end <= cut]
    return data[:cut], set(inside or before[-1:])


def flip_in_the_end_record(data: bytes, dice: random.Random) -> tuple[bytes, set[str]]:
    """It belongs to no member."""
    changed = bytearray(data)
    changed[dice.randrange(len(data) - records.END.size, len(data))] ^= 1 << dice.randrange(8)
    return bytes(changed), set()


def duplicate(data: bytes, dice: random.Random) -> tuple[bytes, set[str]]:
    name, old = dice.choice(unpacked(data))
    stream = io.BytesIO(data)
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(stream, "a") as zip_file:
        zip_file.writestr(name, old + b"#")
    return stream.getvalue(), {name}


def hide(data: bytes, dice: random.Random) -> tuple[bytes, set[str]]:
    """A member that only a reader from the front sees, as TorchServe is."""
    name = f"hidden{dice.randrange(1000)}.py"
    entry = records.Entry(name, records.STORED, 0, 0, 0, 0)
    directory = read_directory(io.BytesIO(data))
    extra = records.local_header(entry)
    central = b"".join(one.raw for one in directory.members)
    end = records.end_of_directory(len(directory.members), directory.offset + len(extra), len(central))
    return data[: directory.offset] + extra + central + end, {name}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_ten_thousand_tamperings_are_all_found_with_the_member_named(sound: bytes, key: Path, tmp_path: Path) -> None:
    """pytorch/serve#47: TorchServe computes a digest and never compares it."""
    dice = random.Random(SEED)
    kinds = [flip, flip, flip, flip_in_the_directory, flip_in_the_end_record, remove, add, swap, reorder, replace]
    kinds += [truncate, duplicate, hide]
    path = tmp_path / "m.mar"
    for number in range(TAMPERINGS):
        kind = kinds[number % len(kinds)]
        data, names = kind(sound, dice)
        if data == sound:
            continue
        report = check(data, path, key.with_suffix(".pub"))
        assert not report.ok, (number, kind)
        named = {problem.member for problem in report.problems}
        assert named & names or not names, (number, kind, names, report.problems)
