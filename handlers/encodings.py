"""Bodies under a Content-Encoding -> the bodies themselves. TorchServe inflates nothing."""

from __future__ import annotations

import zlib

from handlers.errors import MalformedRequest, TooLarge, UnsupportedMedia
from handlers.work import Work

# As much as config.properties lets a request have that is not compressed (max_request_size).
MAX_INFLATED_BYTES = 28_000_000
# Inflated at once: what is refused has cost no more than one of these above its limit.
CHUNK_BYTES = 1_000_000
# Given to zlib at once: it copies what it leaves over.
FEED_BYTES = 16_384
# Nanoseconds for each byte inflated, and for each member of a gzip file: 4 and 5,000 were measured.
INFLATED_NS, MEMBER_NS = 8, 10_000
GZIP, DEFLATE = ("gzip", "x-gzip"), ("deflate",)
# zlib's own numbers for what surrounds the compressed data: gzip's header, zlib's header, nothing.
GZIP_BITS, ZLIB_BITS, RAW_BITS = 31, 15, -15
ZLIB_METHOD, ZLIB_CHECK = 8, 31


def inflated(body: object, encoding: str, work: Work) -> object:
    """The body that `encoding`, a Content-Encoding header, describes: bytes, a str or what JSON they were.

    Raises UnsupportedMedia for any but gzip, deflate and identity, MalformedRequest for what is not whole, has more
    behind it or is not compressed, and TooLarge past MAX_INFLATED_BYTES or the request's work.
    """
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return body
    if encoding not in GZIP + DEFLATE:
        raise UnsupportedMedia("This Content-Encoding is not read: send gzip, deflate, or the body as it is.")
    if isinstance(body, str):  # compressed bytes that happen to be UTF-8
        body = body.encode("utf-8")
    if not isinstance(body, (bytes, bytearray)):
        raise _malformed()
    bits = GZIP_BITS if encoding in GZIP else _deflate_bits(body)
    view, found, place = memoryview(body), bytearray(), 0
    while True:
        work.spend(1, MEMBER_NS)
        place = _member(view, place, zlib.decompressobj(bits), found, work)
        if place == len(view):
            return found
        if bits != GZIP_BITS:  # a gzip file may have several members
            raise _malformed()


def _member(view: memoryview, place: int, inflate: zlib._Decompress, found: bytearray, work: Work) -> int:
    """Add the content of the member at `place` to `found`; the place behind the member."""
    waiting: bytes | memoryview = b""
    try:
        while not inflate.eof:
            if not waiting:
                waiting = view[place : place + FEED_BYTES]
                place += len(waiting)
            chunk = inflate.decompress(waiting, CHUNK_BYTES)
            if not chunk and not waiting:
                raise _malformed()
            waiting = inflate.unconsumed_tail
            work.spend(len(chunk), INFLATED_NS)
            found += chunk
            if len(found) > MAX_INFLATED_BYTES:
                raise TooLarge(f"An inflated body may have at most {MAX_INFLATED_BYTES} bytes.")
    except zlib.error:
        raise _malformed() from None
    return place - len(inflate.unused_data)


def _deflate_bits(body: bytes | bytearray) -> int:
    """Whether there is zlib's header (RFC 1950), as HTTP asks for, or none, as many clients send it."""
    header = body[:2]
    if len(header) == 2 and header[0] & 0xF == ZLIB_METHOD and int.from_bytes(header, "big") % ZLIB_CHECK == 0:
        return ZLIB_BITS
    return RAW_BITS


def _malformed() -> MalformedRequest:
    return MalformedRequest("The body is not what its Content-Encoding says: it is damaged or not whole.")
