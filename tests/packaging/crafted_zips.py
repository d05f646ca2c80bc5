"""Archives without digests: sound ones of common zip programs, and those that two readers could read differently."""

import struct
import zlib

from tests.packaging.crafted import (
    CODE,
    DESCRIPTOR,
    REGULAR_MODE,
    STORED,
    UTF8,
    Member,
    crafted,
    deflate,
    descriptor,
    end64,
    extra_field,
    zip64,
)

LYING = deflate(CODE)
UINT16, UINT32 = 0xFFFF, 0xFFFFFFFF
TIMES = extra_field(0x5455, b"\1" + bytes(4))
OWNER = extra_field(0x7875, b"\1\4" + bytes(4) + b"\4" + bytes(4))
UNICODE_PATH = extra_field(0x7075, b"\1" + struct.pack("<I", zlib.crc32(b"m.py")) + b"evil.py")
DESCRIBED = Member(flags=DESCRIPTOR, descriptor=descriptor(CODE, LYING))
FULL_SIZES = {"size": UINT32, "compressed": UINT32}
WIDE = zip64(len(CODE), len(LYING))
# The directory of one member m.py, for the zip64 end records.
ONE = crafted(Member())
RECORD = len(Member().record(0))
OFFSET = len(ONE) - 22 - RECORD

SOUND = {
    "one deflated": crafted(Member()),
    "two": crafted(Member(), Member(b"n.bin", method=STORED)),
    "nothing in it": crafted(Member(data=b"", method=STORED)),
    "directories": crafted(
        Member(b"a/", b"", STORED, central={"external": 0o40755 << 16 | 0x10}), Member(b"a/m.py"), Member(b"b.py")
    ),
    "deflated directory, as jar writes it": crafted(
        Member(b"a/", b"", flags=DESCRIPTOR, descriptor=descriptor(b"", deflate(b"")), central={"external": 0})
    ),
    "level bits, as zip -9 writes them": crafted(Member(flags=2), Member(b"n", method=STORED, flags=2)),
    "times and owner, as zip writes them": crafted(Member(extra=TIMES + OWNER)),
    "jar's mark": crafted(Member(extra=extra_field(0xCAFE))),
    "a descriptor": crafted(DESCRIBED, Member(b"n.py")),
    "a descriptor, and zeros before": crafted(
        Member(
            flags=DESCRIPTOR,
            descriptor=descriptor(CODE, LYING),
            local={"crc": 0, "compressed": 0, "size": 0},
        )
    ),
    "UTF-8": crafted(Member("straße.py".encode(), flags=UTF8)),
    "a member of unknown size, as zip writes it": crafted(Member(local={**FULL_SIZES, "extra": WIDE, "version": 45})),
    "wide in both": crafted(Member(extra=WIDE, local=FULL_SIZES, central=FULL_SIZES)),
    "zip64 end that nobody needs, as Python writes it past 2 GiB": crafted(
        Member(), before_end=end64(1, RECORD, OFFSET)
    ),
    "zip64 end, full": crafted(
        Member(),
        before_end=end64(1, RECORD, OFFSET),
        end={"count": UINT16, "here": UINT16, "length": UINT32, "offset": UINT32},
    ),
}

OTHER = b"def handle(data, context):\n    return 1 / 0\n"
AMBIGUOUS = {
    # Extra fields.
    "two zip64 fields": crafted(Member(local={**FULL_SIZES, "extra": zip64(len(CODE), len(LYING)) + zip64(9, 9)})),
    "two zip64 fields, stored": crafted(
        Member(method=STORED, local={**FULL_SIZES, "extra": zip64(len(CODE), len(CODE)) + zip64(43, 43)})
    ),
    "two zip64 fields in the directory": crafted(Member(central={**FULL_SIZES, "extra": WIDE + WIDE})),
    "zip64 without a full number": crafted(Member(local={"extra": WIDE})),
    "zip64 without a full number in the directory": crafted(Member(central={"extra": WIDE})),
    "zip64 of one size": crafted(Member(local={"size": UINT32, "extra": zip64(len(CODE))})),
    "zip64 of both sizes, one full": crafted(Member(local={"size": UINT32, "extra": WIDE})),
    "zip64 with more than it needs": crafted(Member(central={"size": UINT32, "extra": WIDE})),
    "zip64 cut short": crafted(Member(local={**FULL_SIZES, "extra": extra_field(1, bytes(12))})),
    "full sizes without zip64": crafted(Member(local=FULL_SIZES)),
    "a full offset without zip64": crafted(Member(central={"offset": UINT32})),
    "a Unicode path": crafted(Member(extra=UNICODE_PATH)),
    "a Unicode path in the directory": crafted(Member(central={"extra": UNICODE_PATH})),
    "a Unicode comment": crafted(Member(extra=extra_field(0x6375, bytes(9)))),
    "AES": crafted(Member(extra=extra_field(0x9901, bytes(7)))),
    "an unknown field": crafted(Member(extra=extra_field(0x4D4D, b"x"))),
    "two times": crafted(Member(extra=TIMES + TIMES)),
    "times without flags": crafted(Member(extra=extra_field(0x5455))),
    "times cut short": crafted(Member(extra=extra_field(0x5455, b"\1\0"))),
    "NTFS times cut short": crafted(Member(extra=extra_field(0x000A, bytes(4)))),
    "an extra field longer than its room": crafted(Member(extra=struct.pack("<2H", 0x5455, 40) + b"\1")),
    "an extra field cut short": crafted(Member(extra=TIMES + b"\1")),
    # Flags, method, version, attributes.
    "encrypted": crafted(Member(flags=1)),
    "encrypted in the header only": crafted(Member(local={"flags": 1})),
    "strongly encrypted": crafted(Member(flags=0x40)),
    "strongly and plainly encrypted": crafted(Member(flags=0x41)),
    "masked headers": crafted(Member(flags=0x2000)),
    "a patch": crafted(Member(flags=0x20)),
    "enhanced deflating": crafted(Member(flags=0x10)),
    "enhanced compression": crafted(Member(flags=0x1000)),
    "reserved flags": crafted(Member(flags=0x8000)),
    "unused flags": crafted(Member(flags=0x0080)),
    "UTF-8 in one record only": crafted(Member(local={"flags": UTF8})),
    "deflate64": crafted(Member(central={"method": 9}, local={"method": 9})),
    "another method in the header": crafted(Member(local={"method": STORED})),
    "another method in the directory": crafted(Member(central={"method": STORED})),
    "a version that few read": crafted(Member(central={"version": 63})),
    "a version that few read, in the header": crafted(Member(local={"version": 300})),
    "another time": crafted(Member(local={"time": 1})),
    "another disk": crafted(Member(central={"disk": 1})),
    "a symbolic link": crafted(Member(central={"external": 0o120777 << 16})),
    "a device": crafted(Member(central={"external": 0o020644 << 16})),
    "a pipe": crafted(Member(central={"external": 0o010644 << 16})),
    "a directory's mode": crafted(Member(central={"external": 0o40755 << 16})),
    "a directory's attribute": crafted(Member(central={"external": REGULAR_MODE | 0x10})),
    "a directory of a file's mode": crafted(Member(b"a/", b"", STORED)),
    # Names.
    "a name that is not marked UTF-8": crafted(Member("straße.py".encode())),
    "a name in Latin 1": crafted(Member("straße.py".encode("latin-1"))),
    "a name that is not UTF-8": crafted(Member(b"stra\xdfe.py", flags=UTF8)),
    "a surrogate": crafted(Member(b"m\xed\xa0\x80.py", flags=UTF8)),
    "an overlong name": crafted(Member(b"\xc1\xad.py", flags=UTF8)),
    "another name in the header": crafted(Member(local={"name": b"e.py"})),
    "no name": crafted(Member(b"")),
    "a NUL": crafted(Member(b"m.py\0.txt")),
    "a backslash": crafted(Member(b"a\\m.py")),
    "a drive": crafted(Member(b"c:m.py")),
    "an absolute name": crafted(Member(b"/m.py")),
    "a name that leaves": crafted(Member(b"a/../../m.py")),
    "a dot": crafted(Member(b"./m.py")),
    "a trailing dot": crafted(Member(b"m.py.")),
    "a trailing space": crafted(Member(b"a /m.py")),
    "a device of Windows": crafted(Member(b"a/NUL.txt")),
    "a name twice": crafted(Member(), Member(data=OTHER)),
    "a file over a directory": crafted(Member(b"a"), Member(b"a/b")),
    "a directory of a file's name": crafted(
        Member(b"a"), Member(b"a/", b"", STORED, central={"external": 0o40755 << 16 | 0x10})
    ),
    "a directory with content": crafted(Member(b"a/", CODE, central={"external": 0x10})),
    "a directory with stored content": crafted(Member(b"a/", CODE, STORED, central={"external": 0x10})),
    # Sizes, CRC and data.
    "another CRC": crafted(Member(local={"crc": 5}, central={"crc": 5})),
    "another CRC in the header": crafted(Member(local={"crc": 5})),
    "another CRC in the directory": crafted(Member(central={"crc": 5})),
    "another size in the header": crafted(Member(local={"size": 9})),
    "another size in the directory": crafted(Member(central={"size": 9})),
    "another compressed size in the header": crafted(Member(local={"compressed": 9})),
    "stored with two sizes": crafted(Member(method=STORED, local={"compressed": 9}, central={"compressed": 9})),
    "stored with a larger size": crafted(Member(method=STORED, raw=CODE + b"more")),
    "data after the stream's end": crafted(Member(raw=LYING + b"more")),
    "two streams": crafted(Member(data=CODE, raw=LYING + deflate(OTHER))),
    "a shorter stream": crafted(Member(data=CODE, raw=deflate(CODE[:-9]))),
    "a longer stream": crafted(Member(data=CODE, raw=deflate(CODE + b"more"))),
    "a stream without an end": crafted(Member(raw=LYING[:-3])),
    # Descriptors.
    "stored with a descriptor": crafted(
        Member(method=STORED, flags=DESCRIPTOR, descriptor=descriptor(CODE, CODE)), Member(b"n.py")
    ),
    "a needless descriptor of 64 bits": crafted(
        Member(flags=DESCRIPTOR, descriptor=descriptor(CODE, LYING, sizes="Q")), Member(b"n.py")
    ),
    "a wide descriptor that the header announces": crafted(
        Member(
            flags=DESCRIPTOR,
            descriptor=descriptor(CODE, LYING, sizes="Q"),
            local={"crc": 0, **FULL_SIZES, "extra": zip64(0, 0)},
        ),
        Member(b"n.py"),
    ),
    "a short descriptor where the header announces a wide one": crafted(
        Member(
            flags=DESCRIPTOR,
            descriptor=descriptor(CODE, LYING),
            local={"crc": 0, **FULL_SIZES, "extra": zip64(0, 0)},
        ),
        Member(b"n.py"),
    ),
    "a descriptor without its signature": crafted(
        Member(flags=DESCRIPTOR, descriptor=descriptor(CODE, LYING, signature=b"")), Member(b"n.py")
    ),
    "a descriptor of other sizes": crafted(
        Member(flags=DESCRIPTOR, descriptor=descriptor(OTHER, LYING)), Member(b"n.py")
    ),
    "a descriptor, and other sizes before": crafted(
        Member(flags=DESCRIPTOR, descriptor=descriptor(CODE, LYING), local={"size": 9, "crc": 0, "compressed": 0})
    ),
    "no descriptor": crafted(Member(flags=DESCRIPTOR), Member(b"n.py")),
    "a descriptor that nothing announces": crafted(Member(descriptor=descriptor(CODE, LYING)), Member(b"n.py")),
    # What lies between, and the end.
    "bytes before": b"#!/bin/sh\n" + ONE,
    "bytes between": crafted(Member(), Member(b"n.py"), between=b"hidden"),
    "bytes before the directory": crafted(Member(), before_directory=b"hidden"),
    "bytes before the end": crafted(Member(), before_end=b"hidden"),
    "bytes after": ONE + b"x",
    "a member that is not listed": crafted(Member(), unlisted=Member(data=OTHER)),
    "a member that is not listed, between": crafted(
        Member(), Member(b"n.py"), between=Member(data=OTHER).header() + deflate(OTHER)
    ),
    "a member that is only listed": crafted(Member(), Member(b"n.py", central={"offset": 0})),
    "a listing out of its order": crafted(Member(central={"offset": len(Member().header()) + len(LYING)}), Member()),
    "an offset past the end": crafted(Member(central={"offset": 1 << 30})),
    "an offset of 64 bits": crafted(Member(central={"offset": UINT32, "extra": zip64((1 << 64) - 1)})),
    "a comment": crafted(Member(), end={"comment": b"hello"}),
    "a comment with another archive in it": crafted(Member(), end={"comment": crafted(Member(data=OTHER))}),
    "a comment with another end in it": crafted(Member(), end={"comment": ONE[-22:]}),
    "a comment that is only announced": crafted(Member(), end={"comment_length": 9}),
    "several disks": crafted(Member(), end={"disk": 1}),
    "another count": crafted(Member(), end={"count": 2, "here": 2}),
    "a count of another disk": crafted(Member(), end={"here": 0}),
    "a count that is too small": crafted(Member(), Member(b"n.py"), end={"count": 1, "here": 1}),
    "another length": crafted(Member(), end={"length": RECORD - 1}),
    "another offset": crafted(Member(), end={"offset": 0}),
    "a full count without zip64": crafted(Member(), end={"count": UINT16, "here": UINT16}),
    "a zip64 end of another count": crafted(Member(), before_end=end64(2, RECORD, OFFSET)),
    "a zip64 end of another offset": crafted(Member(), before_end=end64(1, RECORD, OFFSET - 1)),
    "a zip64 end that is longer": crafted(Member(), before_end=end64(1, RECORD, OFFSET, size=45)),
    "a locator to elsewhere": crafted(Member(), before_end=end64(1, RECORD, OFFSET, at=0)),
    "a locator of several disks": crafted(Member(), before_end=end64(1, RECORD, OFFSET, total=2)),
    "a locator without its record": crafted(Member(), before_end=end64(1, RECORD, OFFSET)[-20:]),
}
