"""Archives without digests: whatever two zip readers could read differently is refused by `verify` and by `lint`."""

import struct
import zlib
from pathlib import Path

import pytest

from marsmith.errors import ArchiveError
from marsmith.lint import lint_archive
from marsmith.mar.verify import verify
from tests.packaging.crafted import STORED, UTF8, Fields, Member, crafted, zip64
from tests.packaging.crafted_zips import AMBIGUOUS, FULL_SIZES, SOUND
from tests.packaging.zip_readers import Refused, Unpacked, java_reads, python_reads


def agreed(data: bytes) -> Unpacked:
    """What both readers make of an archive. Fails where they differ or refuse."""
    found = java_reads(data)
    assert found == python_reads(data)
    return found


@pytest.mark.parametrize("name", SOUND)
def test_what_common_zip_programs_write_is_sound_and_read_alike(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.mar").write_bytes(SOUND[name])
    assert verify(tmp_path / "m.mar").problems == []
    assert [one for one in lint_archive(tmp_path / "m.mar") if one.code == "M411"] == []
    agreed(SOUND[name])


@pytest.mark.parametrize("name", AMBIGUOUS)
def test_what_readers_could_take_differently_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "m.mar").write_bytes(AMBIGUOUS[name])
    assert not verify(tmp_path / "m.mar").ok
    try:
        found = {one.code for one in lint_archive(tmp_path / "m.mar") if one.severity == "error"}
    except ArchiveError:  # zipfile does not open it
        return
    assert found & {"M401", "M402", "M403", "M411"}


def test_names_that_some_file_systems_take_for_one_are_refused(tmp_path: Path) -> None:
    for pair in ((b"M.py", b"m.py"), ("é.py".encode(), "e\u0301.py".encode()), ("ß.py".encode(), b"SS.py")):
        (tmp_path / "m.mar").write_bytes(crafted(*(Member(one, flags=UTF8) for one in pair)))
        assert [one.kind for one in verify(tmp_path / "m.mar").problems] == ["ambiguous"]


def test_a_forged_crc_does_not_bring_in_another_handler(tmp_path: Path) -> None:
    """Java takes the second zip64 field, and so a shorter handler, whose CRC is that of the longer one."""
    evil = b"def handle(data, context):\n    return ['evil'] * len(data)\n#"
    whole = evil + b"\ndef handle(data, context):\n    return data\n" + bytes(4)
    forged = whole + struct.pack("<I", forged_tail(whole, zlib.crc32(evil)))
    assert zlib.crc32(forged) == zlib.crc32(evil)
    fields: Fields = {**FULL_SIZES, "extra": zip64(len(forged), len(forged)) + zip64(len(evil), len(evil))}
    hidden = Member(data=forged, method=STORED, local=fields)
    data = crafted(hidden)
    with pytest.raises(AssertionError):
        agreed(data)
    (tmp_path / "m.mar").write_bytes(data)
    assert ("ambiguous", "m.py") in [(one.kind, one.member) for one in verify(tmp_path / "m.mar").problems]


def forged_tail(data: bytes, crc: int) -> int:
    """The four bytes that give `data` this CRC: each of the 32 bits changes it by a pattern of its own."""
    zero = zlib.crc32(data + bytes(4))
    basis: dict[int, tuple[int, int]] = {}
    for bit in range(32):
        pattern, chosen = zlib.crc32(data + struct.pack("<I", 1 << bit)) ^ zero, 1 << bit
        while pattern:
            top = pattern.bit_length()
            if top not in basis:
                basis[top] = (pattern, chosen)
                break
            pattern, chosen = pattern ^ basis[top][0], chosen ^ basis[top][1]
    left, tail = crc ^ zero, 0
    while left:
        pattern, chosen = basis[left.bit_length()]
        left, tail = left ^ pattern, tail ^ chosen
    return tail


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a descriptor", "times and owner, as zip writes them", "zip64 end, full"])
def test_whatever_byte_is_changed_what_verify_accepts_is_read_alike(name: str, tmp_path: Path) -> None:
    sound, accepted = SOUND[name], 0
    path = tmp_path / "m.mar"
    for place, old in enumerate(sound):
        for new in (old ^ 1 << bit for bit in range(8)):
            data = sound[:place] + bytes([new]) + sound[place + 1 :]
            path.write_bytes(data)
            if verify(path).ok:
                accepted += 1
                agreed(data)
    assert accepted  # of dates, owners, comments and the like nothing is read


def test_the_readers_tell_what_they_refuse() -> None:
    with pytest.raises(Refused):
        java_reads(crafted(Member(flags=1)))
    with pytest.raises(Refused):
        python_reads(b"no zip")
