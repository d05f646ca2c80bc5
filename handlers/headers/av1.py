"""AV1: the frames of one sample, and how many pixels each may have (AV1 Bitstream Specification, 5.5 and 5.9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from handlers.headers.bits import Bits
from handlers.meter import Meter, Step

UNITS = Step("units of coded pixels", 3_000)
DEEP_PIXELS = Step("pixels", 60)
CODED_PIXELS, CODED_BYTES = Step("pixels", 30), Step("bytes of coded pixels", 130)

SEQUENCE_HEADER, FRAME_HEADER, FRAME, REDUNDANT_HEADER = 1, 3, 6, 7
KEY_FRAME, SWITCH_FRAME = 0, 3
SELECT = 2
# Bits that are looked at: headers are far shorter.
HEADER_BYTES = 300
MOST_SIZE_BYTES = 8


@dataclass(frozen=True, slots=True)
class Sequence:
    """What a sequence header says; `width_bits` and `height_bits` are those of a frame that states its own sides.

    `sample_bytes` are those of one pixel's luma and chroma, decoded.
    """

    width: int
    height: int
    width_bits: int
    height_bits: int
    reduced: bool
    timed: bool
    frame_id_bits: int
    screen_content: int
    integer_motion: int
    sample_bytes: float
    deep: bool


@dataclass(frozen=True, slots=True)
class Coded:
    """A sample: pixels of all its frames at a price, those of the largest, and the bytes that it takes decoded."""

    step: Step
    pixels: int
    largest: int
    held: int


def read_av1(data: bytes, meter: Meter) -> Coded:
    """The frames in open bitstream units; none where no header says how large they are."""
    meter.spend(CODED_BYTES, len(data))
    sequence: Sequence | None = None
    sizes, held, step = [], 0, CODED_PIXELS
    for kind, content in _units(data, meter):
        if kind == SEQUENCE_HEADER:
            sequence = _sequence(Bits(content[:HEADER_BYTES]))
            step = DEEP_PIXELS if sequence.deep else step
        elif kind in {FRAME, FRAME_HEADER, REDUNDANT_HEADER} and sequence:
            width, height = _frame_sides(Bits(content[:HEADER_BYTES]), sequence)
            sizes.append(width * height)
            held = max(held, int(width * height * sequence.sample_bytes))
    return Coded(step, sum(sizes), max(sizes, default=0), held)


def _units(data: bytes, meter: Meter) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place < len(data):
        meter.spend(UNITS)
        head = data[place]
        place += 2 if head & 4 else 1
        size = len(data) - place
        if head & 2:
            size = 0
            for index, byte in enumerate(data[place : place + MOST_SIZE_BYTES]):
                size |= (byte & 127) << 7 * index
                place += 1
                if not byte & 128:
                    break
        yield head >> 3 & 15, data[place : place + min(size, HEADER_BYTES)]
        place += size


def _sequence(bits: Bits) -> Sequence:
    profile = bits.take(3)
    bits.take(1)
    reduced = bits.flag()
    timed = False
    if reduced:
        bits.take(5)
    else:
        timed = _operating_points(bits)
    width_bits, height_bits = bits.take(4) + 1, bits.take(4) + 1
    width, height = bits.take(width_bits) + 1, bits.take(height_bits) + 1
    frame_id_bits = 0
    if not reduced and bits.flag():
        more = bits.take(4) + 2
        frame_id_bits = bits.take(3) + more + 1
    bits.take(3)
    screen_content = integer_motion = SELECT
    if not reduced:
        bits.take(4)
        ordered = bits.flag()
        bits.take(2 if ordered else 0)
        screen_content = SELECT if bits.flag() else bits.take(1)
        if screen_content:
            integer_motion = SELECT if bits.flag() else bits.take(1)
        bits.take(3 if ordered else 0)
    bits.take(3)
    deep = bits.flag()
    grey = profile != 1 and _is_grey(bits, profile, deep)
    chroma = 0.0 if grey else {0: 0.5, 1: 2.0}.get(profile, 2.0)
    return Sequence(
        width, height, width_bits, height_bits, reduced, timed, frame_id_bits, screen_content, integer_motion,
        (1 + chroma) * (2 if deep else 1), deep,
    )  # fmt: skip


def _is_grey(bits: Bits, profile: int, deep: bool) -> bool:
    if profile == 2 and deep:
        bits.take(1)
    return bits.flag()


def _operating_points(bits: Bits) -> bool:
    """Step over the timing and the operating points; whether each shown frame states its time."""
    delay_bits = timed = 0
    if bits.flag():
        bits.take(64)
        equal = bits.flag()
        if equal:
            bits.exponential()
        if bits.flag():
            delay_bits = bits.take(5) + 1
            bits.take(32)
            bits.take(5)
            timed = bits.take(5) + 1 if not equal else 0
    delays = bits.flag()
    for _ in range(bits.take(5) + 1):
        bits.take(12)
        if bits.take(5) > 7:
            bits.take(1)
        if delay_bits and bits.flag():
            bits.take(2 * delay_bits + 1)
        if delays and bits.flag():
            bits.take(4)
    return bool(timed)


def _frame_sides(bits: Bits, sequence: Sequence) -> tuple[int, int]:
    """The sides of a frame; the largest that its bits can state, where a frame other than a key frame has its own."""
    usual = sequence.width, sequence.height
    largest = 1 << sequence.width_bits, 1 << sequence.height_bits
    if sequence.reduced:
        return usual
    if sequence.timed:
        return largest
    if bits.flag():  # a frame that was decoded before
        return 0, 0
    kind, shown = bits.take(2), bits.flag()
    if not shown:
        bits.take(1)
    if kind != SWITCH_FRAME and not (kind == KEY_FRAME and shown):
        bits.take(1)
    bits.take(1)
    screen_content = bits.take(1) if sequence.screen_content == SELECT else sequence.screen_content
    if screen_content and sequence.integer_motion == SELECT:
        bits.take(1)
    bits.take(sequence.frame_id_bits)
    overridden = True if kind == SWITCH_FRAME else bits.flag()
    return largest if overridden else usual
