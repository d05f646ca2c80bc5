"""Read the members of a zip file as they lie, trusting none, every one from its first byte on.

TorchServe reads an archive from the front and never looks at the directory; Python reads the directory. A file is only
sound when both see the same.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import IO

from marsmith.mar import records
from marsmith.mar.directory import Listed
from marsmith.mar.fields import method_fault, numbers
from marsmith.mar.problems import Kind, Problem, Unreadable

CHUNK_BYTES = 1 << 20
# A member's descriptor after its data: its signature, then CRC and sizes of 32 or 64 bits.
DESCRIPTOR_SIGNATURE = b"PK\7\x08"
DESCRIPTOR, DESCRIPTOR64 = struct.Struct("<I2I"), struct.Struct("<I2Q")


class Member:
    """One member, to be read once: its header, `lying` through `inflated`, then `finish`.

    `raw_header` is its local header, `end` where the next member begins, `problems` what is wrong with it; the content
    of one that is not `readable` is not looked at.
    """

    def __init__(self, stream: IO[bytes], listed: Listed) -> None:
        self._stream = stream
        self.listed = listed
        self.name = listed.entry.name
        self.problems: list[Problem] = []
        self.readable = True
        self.raw_header = self._read_header()
        self.end = 0

    def _report(self, kind: Kind, message: str) -> None:
        self.problems.append(Problem(kind, self.name, message))

    def _read_header(self) -> bytes:
        entry = self.listed.entry
        self._stream.seek(entry.offset)
        raw = self._stream.read(records.LOCAL.size)
        if len(raw) < records.LOCAL.size or not raw.startswith(records.LOCAL_SIGNATURE):
            raise Unreadable("changed", self.name, f"{self.name} has no header where the directory says")
        _, needed, flags, method, *when, crc, compressed, size, name_length, extra_length = records.LOCAL.unpack(raw)
        name, extra = self._stream.read(name_length), self._stream.read(extra_length)
        if fault := method_fault(flags, method) or method_fault(self.listed.flags, entry.method):
            self._report("unsafe", f"{self.name} {fault}, so TorchServe cannot read it")
            self.readable = False
            return raw + name + extra
        if (name, flags, method, *when) != (self.listed.name, self.listed.flags, entry.method, *self.listed.when):
            self._report("changed", f"{self.name} is described differently by its header and by the directory")
        widened = numbers(extra, (size, compressed), together=True)
        size, compressed = widened.values
        # Where a descriptor follows, the header may leave them out: all or none, since some readers believe them.
        promised = {(entry.crc, entry.compressed, entry.size)} | ({(0, 0, 0)} if self._has_descriptor else set())
        if (crc, compressed, size) not in promised:
            self._report("changed", f"{self.name} has another size or CRC in its header than in the directory")
        for fault in dict.fromkeys((*self.listed.faults, *widened.faults)):
            self._report("ambiguous", f"{self.name} {fault}")
        if needed > records.VERSION64:
            self._report("ambiguous", f"the header of {self.name} needs a version of zip that not every reader has")
        if self._has_descriptor and widened.wide != self._is_large:
            self._report("ambiguous", f"{self.name} has a descriptor that some readers take for a longer one")
        if entry.method == records.STORED and entry.compressed != entry.size:
            self._report("ambiguous", f"{self.name} is stored, and has two sizes")
        if self.name.endswith("/") and entry.size:
            self._report("ambiguous", f"{self.name} is a directory with content, which some readers skip")
        return raw + name + extra

    @property
    def _has_descriptor(self) -> bool:
        return bool(self.listed.flags & records.DESCRIPTOR_FLAG)

    @property
    def _is_large(self) -> bool:
        """Whether its sizes need 64 bits. Java tells the length of a descriptor by that, whatever a header says."""
        return max(self.listed.entry.size, self.listed.entry.compressed) > records.UINT32

    def lying(self) -> Iterator[bytes]:
        """The data as it lies in the file."""
        left = self.listed.entry.compressed
        while left:
            chunk = self._stream.read(min(left, CHUNK_BYTES))
            if not chunk:
                raise Unreadable("truncated", self.name, f"the archive ends within {self.name}")
            left -= len(chunk)
            yield chunk

    def inflated(self, lying: Iterator[bytes]) -> Iterator[bytes]:
        """The content, from the data as it lies: never a byte more than the directory promises."""
        if self.listed.entry.method == records.STORED:
            yield from lying
            return
        inflater = zlib.decompressobj(records.RAW_DEFLATE)
        left = self.listed.entry.size
        surplus = False
        for chunk in lying:
            # TorchServe goes on reading where the stream ends: what stands there must be the next member.
            surplus = surplus or inflater.eof
            more = not inflater.eof
            while more and not inflater.eof:
                room = min(CHUNK_BYTES, left + 1)
                try:
                    content = inflater.decompress(chunk, room)
                except zlib.error:
                    self._report("changed", f"{self.name} cannot be inflated: its data was changed")
                    return
                left -= len(content)
                if left < 0:
                    self._report("limit", f"{self.name} inflates to more than the directory says")
                    return
                yield content
                # A full room may mean that the inflater holds more, even when it has taken all of the chunk.
                chunk, more = inflater.unconsumed_tail, len(content) == room
        if not inflater.eof or inflater.unused_data or surplus:
            self._report("changed", f"{self.name} has deflated data that breaks off or goes on past its end")

    def finish(self) -> None:
        """Find where the member ends: after its descriptor, if the flags announce one."""
        entry = self.listed.entry
        self.end = entry.offset + len(self.raw_header) + entry.compressed
        if not self._has_descriptor or not self.readable:
            return
        # Without the signature, which the format leaves to the writer, a CRC may look like it.
        sizes = DESCRIPTOR64 if self._is_large else DESCRIPTOR
        wanted = DESCRIPTOR_SIGNATURE + sizes.pack(entry.crc, entry.compressed, entry.size)
        self._stream.seek(self.end)
        if self._stream.read(len(wanted)) == wanted:
            self.end += len(wanted)
        else:
            self._report("changed", f"{self.name} has another size or CRC after its data than in the directory")
