"""The fields of zip records that readers take differently, and what each may say so that all take it alike.

Java's ZipInputStream, which TorchServe unpacks with, believes the header before a member; Python's zipfile, Info-ZIP
and libarchive believe the directory, and each knows other extra fields. Fields that only some readers look at, or that
can be said twice, are faults here, whatever they say. Sources: PKWARE's APPNOTE.TXT 6.3.10, sections 4.4 and 4.5;
java.util.zip.ZipInputStream and ZipEntry of JDK 17 to 25; CPython's zipfile; Info-ZIP's proginfo/extrafld.txt.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from marsmith.mar import records

# Bits 1 and 2 tell how hard a deflater tried, bit 3 that a descriptor follows, bit 11 that the name is UTF-8. All
# others mean encryption, patches or hidden headers, or nothing yet.
ALLOWED_FLAGS = 0x06 | records.DESCRIPTOR_FLAG | records.UTF8_FLAG
ENCRYPTED_FLAG = 0x01
# Extra fields of zip and jar programs that change nothing of what is unpacked, by their tag, with the lengths that
# their makers give them: NTFS times, Unix times, two old forms of Unix times and owner, Unix owner, jar's mark.
PLAIN_EXTRAS: dict[int, frozenset[int]] = {
    0x000A: frozenset({32}),
    0x5455: frozenset({1, 5, 9, 13}),
    0x5855: frozenset({8, 12}),
    0x7855: frozenset({0, 4}),
    0x7875: frozenset({5, 7, 11, 19}),
    0xCAFE: frozenset({0}),
}
# MS-DOS's attribute of a directory, in the low byte of the external attributes.
DOS_DIRECTORY = 0x10


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a record with those of its zip64 field in place of the ones that are full; `wide` if it has one.

    `faults` are phrases that follow the member's name.
    """

    values: tuple[int, ...]
    wide: bool
    faults: tuple[str, ...]


def numbers(extra: bytes, narrow: Sequence[int], *, together: bool) -> Numbers:
    """The 32-bit numbers `narrow` of a record, in the order of the zip64 field, widened by its extra fields.

    `together` is true of the header before a member, where both sizes are wide or none is.
    """
    faults = []
    fields = _fields(extra)
    if fields is None:
        return Numbers(tuple(narrow), False, ("has extra fields that do not end where they should",))
    wide = [content for tag, content in fields if tag == records.ZIP64_TAG]
    full = [index for index, number in enumerate(narrow) if number == records.UINT32]
    for tag in {tag for tag, _ in fields}:
        count = sum(one == tag for one, _ in fields)
        if count > 1:
            faults.append(f"has {count} extra fields 0x{tag:04x}")
    for tag, content in fields:
        if tag != records.ZIP64_TAG and len(content) not in PLAIN_EXTRAS.get(tag, ()):
            faults.append(f"has an extra field 0x{tag:04x} that not every reader knows, or of an odd length")
    values = list(narrow)
    if full and not wide:
        faults.append("has a size or place of 0xffffffff and no zip64 field")
    elif wide and (not full or len(wide[0]) != 8 * len(full) or (together and len(full) != len(values))):
        faults.append("has a zip64 field that does not fit its sizes")
    elif wide:
        for place, index in enumerate(full):
            values[index] = int.from_bytes(wide[0][8 * place : 8 * place + 8], "little")
    return Numbers(tuple(values), bool(wide), tuple(faults))


def _fields(extra: bytes) -> list[tuple[int, bytes]] | None:
    """The extra fields, each a tag and its content; None where they do not fill their room exactly."""
    found, position = [], 0
    while position < len(extra):
        begin = position + 4
        end = begin + int.from_bytes(extra[position + 2 : begin], "little")
        if begin > len(extra) or end > len(extra):
            return None
        found.append((int.from_bytes(extra[position : position + 2], "little"), extra[begin:end]))
        position = end
    return found


def name_fault(raw: bytes, flags: int) -> str | None:
    """Why readers may disagree on a member's name; None when they do not."""
    if b"\0" in raw:
        return "has a NUL in its name, where some readers end it"
    if raw.isascii():
        return None
    if not flags & records.UTF8_FLAG:
        return "has a name that is not ASCII, without the flag that says UTF-8"
    try:
        raw.decode("utf-8")
    except UnicodeDecodeError:
        return "has a name that is not UTF-8"
    return None


def method_fault(flags: int, method: int) -> str | None:
    """Why TorchServe's reader cannot unpack a member; None when it can."""
    if flags & ENCRYPTED_FLAG:
        return "is encrypted"
    if method not in (records.STORED, records.DEFLATED):
        return "is compressed by a method other than deflate"
    if method == records.STORED and flags & records.DESCRIPTOR_FLAG:
        return "is stored with its size behind it"
    return None


def record_faults(flags: int, needed: int, disk: int, attributes: int, *, folder: bool) -> Iterator[str]:
    """What a record of the directory says that a reader might act on; the phrases follow the member's name.

    `needed` is the version of the format, `attributes` are the external ones, `folder` is whether the name says so.
    """
    if flags & ~(ALLOWED_FLAGS | ENCRYPTED_FLAG):
        yield f"has flags 0x{flags:04x} that do not belong here"
    # The high byte is a system's number in old writers; readers refuse versions that they do not know.
    if needed > records.VERSION64:
        yield f"needs version {needed} of the zip format, which not every reader has"
    if disk:
        yield "is said to begin on another disk"
    kind = stat.S_IFMT(attributes >> 16)
    if kind == stat.S_IFLNK:
        yield "is a symbolic link, of which only the target's name would be unpacked, as text"
    elif kind not in (0, stat.S_IFDIR if folder else stat.S_IFREG):
        yield "has the attributes of something other than its name says"
    elif attributes & DOS_DIRECTORY and not folder:
        yield "has a directory's attribute and a file's name"


def decode_name(raw: bytes, flags: int) -> str:
    """A member's name: UTF-8 where the flag says so, else the zip format's old code page."""
    return raw.decode("utf-8", "backslashreplace") if flags & records.UTF8_FLAG else raw.decode("cp437")
