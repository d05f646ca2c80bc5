"""HEVC: the pictures of one item, and their sides (ITU-T H.265, 7.3.1 and 7.3.2; ISO/IEC 14496-15, 8.3.3)."""

from __future__ import annotations

from collections.abc import Iterator

from handlers.headers.av1 import Coded
from handlers.headers.bits import Bits
from handlers.meter import Meter, Step

UNITS = Step("units of coded pixels", 3_000)
CODED_PIXELS, CODED_BYTES = Step("pixels", 32), Step("bytes of coded pixels", 150)
# libde265 has no vector instructions for samples of more than a byte.
DEEP_PIXELS = Step("pixels", 88)

SEQUENCE_PARAMETERS, LAST_PICTURE_TYPE = 33, 31
# Of a sequence's parameters, up to its sides.
HEADER_BYTES = 200
ARRAYS_AT = 22
# Luma and chroma of up to 4:4:4 and 16 bits, as libde265 holds them.
SAMPLE_BYTES = {0: 1.0, 1: 1.5, 2: 2.0, 3: 3.0}


def read_hevc(configuration: bytes, data: bytes, meter: Meter) -> Coded:
    """The pictures of an item of length-prefixed units; `configuration` is its hvcC box's content."""
    meter.spend(CODED_BYTES, len(data))
    length_bytes = (configuration[21] & 3) + 1 if len(configuration) > 21 else 4
    parameters = [_parameters(unit) for unit in _configured(configuration, meter) if _kind(unit) == SEQUENCE_PARAMETERS]
    pictures = 0
    for unit in _units(data, length_bytes, meter):
        if _kind(unit) == SEQUENCE_PARAMETERS:
            parameters.append(_parameters(unit))
        elif _kind(unit) <= LAST_PICTURE_TYPE and len(unit) > 2:
            pictures += unit[2] >> 7
    largest = max((width * height for width, height, _, _ in parameters), default=0)
    held = max((int(width * height * size) for width, height, size, _ in parameters), default=0)
    deep = any(more for _, _, _, more in parameters)
    return Coded(DEEP_PIXELS if deep else CODED_PIXELS, largest * max(1, pictures), largest, held)


def _kind(unit: bytes) -> int:
    return unit[0] >> 1 & 63 if unit else 63


def _configured(configuration: bytes, meter: Meter) -> Iterator[bytes]:
    """The units of the configuration's arrays."""
    place = ARRAYS_AT + 1
    for _ in range(configuration[ARRAYS_AT] if len(configuration) > ARRAYS_AT else 0):
        count = int.from_bytes(configuration[place + 1 : place + 3], "big")
        place += 3
        for _ in range(count):
            if place >= len(configuration):
                return
            meter.spend(UNITS)
            length = int.from_bytes(configuration[place : place + 2], "big")
            yield configuration[place + 2 : place + 2 + length]
            place += 2 + length


def _units(data: bytes, length_bytes: int, meter: Meter) -> Iterator[bytes]:
    place = 0
    while place + length_bytes < len(data):
        meter.spend(UNITS)
        length = int.from_bytes(data[place : place + length_bytes], "big")
        place += length_bytes
        yield data[place : place + min(length, HEADER_BYTES)]
        place += length


def _parameters(unit: bytes) -> tuple[int, int, float, bool]:
    """Width, height, bytes of one decoded pixel, and whether its samples have more than eight bits."""
    bits = Bits(unit[2:HEADER_BYTES].replace(b"\0\0\3", b"\0\0"))
    bits.take(4)
    layers = bits.take(3)
    bits.take(1 + 88 + 8)
    stated = [(bits.flag(), bits.flag()) for _ in range(layers)]
    bits.take(2 * (8 - layers) if layers else 0)
    for profile, level in stated:
        bits.take(88 * profile + 8 * level)
    bits.exponential()
    chroma = bits.exponential()
    if chroma == 3:
        bits.take(1)
    width, height = bits.exponential(), bits.exponential()
    if bits.flag():
        for _ in range(4):
            bits.exponential()
    deep = bits.exponential() + bits.exponential() > 0
    return width, height, SAMPLE_BYTES.get(chroma, 3.0) * (2 if deep else 1), deep
