"""What two readers make of a zip file: Java's ZipInputStream, which TorchServe unpacks with, and Python's zipfile.

`java_reads` follows java.util.zip.ZipInputStream of JDK 17 record by record. On every archive of crafted_zips.py it
was compared with JDK 17, which it equals, and with JDK 25, which alone reads a wide descriptor that a header announces.
"""

import io
import struct
import zipfile
import zlib

LOCAL = struct.Struct("<4s5H3I2H")
DESCRIPTOR_SIGNATURE = 0x08074B50
UINT32 = 0xFFFFFFFF
ZIP64, EXTENDED_TIMESTAMP = 0x0001, 0x5455

Unpacked = dict[str, bytes]


class Refused(Exception):
    """What the reader throws instead of a member."""


def python_reads(data: bytes) -> Unpacked:
    """Each file's content by name, the last of a name as it overwrites the others. Raises Refused."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as zip_file:
            return {one.filename: zip_file.read(one) for one in zip_file.infolist() if not one.is_dir()}
    except Exception as error:
        raise Refused(repr(error)) from None


def java_reads(data: bytes) -> Unpacked:
    """The same, from the first byte on."""
    found: Unpacked = {}
    position = 0
    while data[position : position + 4] == b"PK\3\4" and len(data) - position >= LOCAL.size:
        name, content, position = _entry(data, position)
        if not name.endswith("/"):
            found[name] = content
    return found


def _entry(data: bytes, position: int) -> tuple[str, bytes, int]:
    _, _, flags, method, _, _, crc, compressed, size, name_length, extra_length = LOCAL.unpack_from(data, position)
    begin = position + LOCAL.size
    raw_name, extra = data[begin : begin + name_length], data[begin + name_length : begin + name_length + extra_length]
    begin += name_length + extra_length
    if begin > len(data) or flags & 1:
        raise Refused("truncated or encrypted")
    try:
        name = raw_name.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused("name") from None
    if flags & 8:
        if method != 8:
            raise Refused("only deflated entries can have a descriptor")
    elif UINT32 in (compressed, size):
        size, compressed = _wide(extra, size, compressed)
    if method == 0:
        content, end = data[begin : begin + size], begin + size
        if len(content) < size or zlib.crc32(content) != crc:
            raise Refused("stored content")
        return name, content, end
    if method != 8:
        raise Refused("method")
    return name, *_deflated(data, begin, flags, (crc, compressed, size))


def _wide(extra: bytes, size: int, compressed: int) -> tuple[int, int]:
    """The last zip64 field counts, and what follows a broken field is left alone."""
    position = 0
    while position + 4 < len(extra):
        tag, length = struct.unpack_from("<2H", extra, position)
        position += 4
        if position + length > len(extra):
            break
        if tag == ZIP64 and length >= 16:
            size, compressed = struct.unpack_from("<2Q", extra, position)
        position += length
    return size, compressed


def _deflated(data: bytes, begin: int, flags: int, header: tuple[int, int, int]) -> tuple[bytes, int]:
    inflater = zlib.decompressobj(-15)
    try:
        content = inflater.decompress(data[begin:])
    except zlib.error:
        raise Refused("data") from None
    if not inflater.eof:
        raise Refused("data ends early")
    end = len(data) - len(inflater.unused_data)
    if flags & 8:
        end, header = _descriptor(data, end)
    if header != (zlib.crc32(content), end - begin if not flags & 8 else header[1], len(content)):
        raise Refused("sizes or CRC")
    return content, end


def _descriptor(data: bytes, end: int) -> tuple[int, tuple[int, int, int]]:
    """Of 32 bits: nothing in these tests is larger than those hold."""
    if len(data) - end < 16:
        raise Refused("descriptor")
    first, crc, compressed, size = struct.unpack_from("<4I", data, end)
    if first == DESCRIPTOR_SIGNATURE:
        return end + 16, (crc, compressed, size)
    return end + 12, (first, crc, compressed)
