"""Bytes -> JSON values, within what the request may cost.

A body of 28 MB can hold millions of values, which take Python seconds and a gigabyte. So what separates and opens
values is counted before any is made: bytes are counted a hundred times faster than values are parsed.
"""

from __future__ import annotations

import json
from typing import Any

from handlers.errors import MalformedRequest, RequestError, TooLarge
from handlers.work import Work

Body = bytes | bytearray

# Nanoseconds for each byte: decoding UTF-8, strings, long numbers; 7 for numbers of MAX_DIGITS digits.
BYTE_NS = 8
# Nanoseconds for each comma, colon, bracket and brace: 400 for a number with an exponent or a new key of an object.
# More than twice that, because a value may also take 250 bytes of memory: so all of a request's take some 300 MB.
STRUCTURE_NS = 1_000
STRUCTURE = (b",", b":", b"[", b"{")
# As many as the largest float64 has. The time for reading an integer grows with the square of its digits.
MAX_DIGITS = 309


def parsed(body: Body, work: Work) -> Any:
    """The JSON value. Raises MalformedRequest, or TooLarge for more values than the request may cost."""
    work.spend(len(body), BYTE_NS)
    work.spend(sum(map(body.count, STRUCTURE)), STRUCTURE_NS)
    return _loaded(body)


def parsed_lines(body: Body, work: Work, max_lines: int) -> list[Any]:
    """The value of each line, or the RequestError that stands in its place. Raises TooLarge for too many lines.

    Lines end in LF or CRLF; behind the last end is no line.
    """
    work.spend(len(body), BYTE_NS)
    work.spend(sum(map(body.count, STRUCTURE)), STRUCTURE_NS)
    if body.count(b"\n", 0, len(body) - 1) >= max_lines:
        raise TooLarge(f"At most {max_lines} lines fit in one request.")
    lines = body.split(b"\n")
    return [_line(line) for line in (lines if lines[-1] else lines[:-1])]


def _line(line: Body) -> Any:
    try:
        return _loaded(line)
    except RequestError:
        return MalformedRequest("The line is not valid JSON.")


def _loaded(body: Body) -> Any:
    try:
        return json.loads(body, parse_int=_integer)
    except (ValueError, RecursionError):  # UnicodeDecodeError is a ValueError
        raise MalformedRequest("The body is not valid JSON.") from None


def _integer(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError("too many digits")
    return int(digits)
