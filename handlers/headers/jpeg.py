"""JPEG: segments, scans and blocks, counted as Pillow's own parser and libjpeg meet them (ITU-T T.81, annex B)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from handlers.headers.directory import exif, read_directory
from handlers.meter import Extent, Meter, Step

# Pillow's parser is Python up to the first scan: each marker, and each byte that belongs to none.
SEGMENTS = Step("segments", 12_000)
STRAY_BYTES = Step("bytes between its segments", 900)
TABLE_BYTES = Step("bytes of tables", 200)
PHOTOSHOP_BLOCKS = Step("Photoshop blocks", 3_000)
COPIED_BYTES = Step("bytes of metadata", 1)
SCANS = Step("scans", 15_000)
# libjpeg visits every block of a component in each of its scans, and in a refining scan each coefficient.
SCANNED_BLOCKS = Step("scans for its size", 25)
REFINED_BLOCKS = Step("refining scans for its size", 130)
ARITHMETIC_BLOCKS = Step("arithmetic-coded blocks", 6_000)
CODED_BYTES = Step("bytes of coded pixels", 20)
BLOCKS = Step("pixels", 150)
# Blocks of a progressive file may be smoothed over their neighbours.
PROGRESSIVE_BLOCKS = Step("pixels", 450)
SHOWN_PIXELS = Step("pixels", 10)

SOI, EOI, SOS, DQT, TEM, JPG = 0xD8, 0xD9, 0xDA, 0xDB, 0x01, 0xC8
APP1, APP2, APP13 = 0xE1, 0xE2, 0xED
FRAMES = {*range(0xC0, 0xD0)} - {0xC4, JPG, 0xCC} | {0xDE}
PROGRESSIVE = {0xC2, 0xC6, 0xCA, 0xCE}
ARITHMETIC = {*range(0xC9, 0xD0)}
# Markers without a length, for Pillow or for libjpeg.
ALONE = {0x00, TEM, JPG, *range(0xD0, 0xDA), *range(0xF0, 0xFE)}
FILL = re.compile(rb"\xff*")
# What ends a scan's entropy-coded data.
AFTER_SCAN = re.compile(rb"\xff[^\x00\xd0-\xd7\xff]")
SCALES = (8, 4, 2, 1)
BLOCK_SIDE = 8
COEFFICIENT_BYTES = 2 * BLOCK_SIDE**2
PILLOW_PIXEL_BYTES = 4
# Strips of rows on the way from blocks to pixels.
LINE_BYTES = 64 * 4


@dataclass(frozen=True, slots=True)
class Frame:
    """A start-of-frame segment: sides, sampling factors by component id, and how it is coded."""

    marker: int
    width: int
    height: int
    factors: dict[int, tuple[int, int]]

    @classmethod
    def of(cls, marker: int, segment: bytes) -> Frame:
        """From the segment's content, without its length."""
        height, width = int.from_bytes(segment[1:3], "big"), int.from_bytes(segment[3:5], "big")
        parts = [segment[place : place + 3] for place in range(6, min(len(segment), 6 + 3 * 4) - 2, 3)]
        factors = {part[0]: (max(1, min(part[1] >> 4, 4)), max(1, min(part[1] & 15, 4))) for part in parts}
        return cls(marker, width, height, factors)

    def blocks(self, component: int) -> int:
        """Blocks of one component, with those that fill up the last units."""
        widest = max((h for h, _ in self.factors.values()), default=1)
        tallest = max((v for _, v in self.factors.values()), default=1)
        h, v = self.factors.get(component, (widest, tallest))
        return -(-self.width // (BLOCK_SIDE * widest)) * h * -(-self.height // (BLOCK_SIDE * tallest)) * v

    @property
    def all_blocks(self) -> int:
        """Blocks of all components."""
        return sum(self.blocks(component) for component in self.factors)


def read_jpeg(data: bytes, least_side: int, meter: Meter) -> Extent:
    """Spend what the file costs, decoded at the fraction that `least_side` allows (image.py); its extent as it is."""
    frame = Frame(0, 0, 0, {})
    place, metadata, several = 2, b"", False
    while (start := data.find(b"\xff", place)) >= 0:
        filled = _end_of_fill(data, start)
        meter.spend(SEGMENTS)
        meter.spend(STRAY_BYTES, start - place + filled - start - 1)
        if filled >= len(data):
            break
        marker, place = data[filled], filled + 1
        if marker in ALONE:
            continue
        length = int.from_bytes(data[place : place + 2], "big")
        meter.spend(COPIED_BYTES, length)
        segment = data[place + 2 : place + max(length, 2)]
        place += max(length, 2)
        if marker == SOS:
            several = _read_scans(data, place, frame, segment, meter)
            break
        if marker in FRAMES:
            meter.spend(TABLE_BYTES, length)
            other = Frame.of(marker, segment)
            meter.check_sides(other.width, other.height)
            frame = max(frame, other, key=lambda one: one.all_blocks)
        elif marker == DQT:
            meter.spend(TABLE_BYTES, length)
        elif marker == APP13:
            meter.spend(PHOTOSHOP_BLOCKS, segment.count(b"8BIM"))
        elif marker == APP2 and segment.startswith(b"MPF\0"):
            read_directory(segment[4:], meter)
        elif marker == APP1 and segment.startswith(b"Exif\0\0"):
            # Pillow appends each piece to those before it.
            metadata += segment[6:] if metadata else segment
            meter.spend(COPIED_BYTES, 2 * len(metadata))
    exif(metadata, meter)
    return _extent(frame, least_side, meter, all_held=several)


def _end_of_fill(data: bytes, start: int) -> int:
    """Where the marker's second byte lies, behind any number of 0xFF."""
    match = FILL.match(data, start)
    return match.end() if match else start + 1


def _read_scans(data: bytes, place: int, frame: Frame, first: bytes, meter: Meter) -> bool:
    """Spend the blocks that each scan visits; whether there may be several, until which all coefficients are held.

    A sequential file whose first scan has every component has no other.
    """
    several = frame.marker in PROGRESSIVE or (first[:1] or b"\0")[0] < len(frame.factors)
    # To look for its end would take as long as a tenth of decoding it.
    meter.spend(CODED_BYTES, len(data) - place)
    if frame.marker in ARITHMETIC:
        meter.spend(ARITHMETIC_BLOCKS, frame.all_blocks)
    _spend_scan(frame, first, meter)
    while several and (match := AFTER_SCAN.search(data, place)):
        marker, place = data[match.end() - 1], match.end()
        meter.spend(SEGMENTS)
        if marker == EOI:
            break
        if marker in ALONE:
            continue
        length = int.from_bytes(data[place : place + 2], "big")
        if marker == SOS:
            _spend_scan(frame, data[place + 2 : place + length], meter)
        place += max(length, 2)
    return several


def _spend_scan(frame: Frame, segment: bytes, meter: Meter) -> None:
    """`segment`: the number of components, an id and a table of each, then the band and its bits."""
    count = segment[0] if segment else 0
    known = [component for component in segment[1 : 1 + 2 * count : 2] if component in frame.factors]
    blocks = sum(map(frame.blocks, known)) if len(known) == count else frame.all_blocks
    meter.spend(SCANS)
    refines = len(segment) >= 4 + 2 * count and segment[3 + 2 * count] >> 4 > 0
    meter.spend(REFINED_BLOCKS if refines else SCANNED_BLOCKS, blocks)
    if frame.marker in ARITHMETIC:
        meter.spend(ARITHMETIC_BLOCKS, blocks)


def _extent(frame: Frame, least_side: int, meter: Meter, *, all_held: bool) -> Extent:
    """Spend the pixels that are shown, and count what is held: all coefficients or none, and Pillow's pixels."""
    fraction = min(frame.width, frame.height) // least_side if least_side else 1
    scale = next((scale for scale in SCALES if fraction >= scale), 1)
    extent = Extent(frame.width, frame.height, 0, scale)
    progressive = frame.marker in PROGRESSIVE
    meter.spend(PROGRESSIVE_BLOCKS if progressive else BLOCKS, frame.all_blocks)
    meter.spend(SHOWN_PIXELS, extent.decoded)
    held = frame.width * LINE_BYTES + (frame.all_blocks * COEFFICIENT_BYTES if all_held else 0)
    pixel_bytes = PILLOW_PIXEL_BYTES if len(frame.factors) > 1 else 1
    return replace(extent, memory=held + pixel_bytes * extent.decoded)
