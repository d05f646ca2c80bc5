"""Why a server did not start or a worker did not load, out of what they logged."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterable
from pathlib import Path

# What log4j2.xml puts before a worker's line; the worker's own log has none of it.
_PREFIX = r"^(?:\d{4}-\S+ \S+ )?"
# What TorchServe's worker logs before it covers the cause with an exception of its own: of a handler that raised
# RuntimeError while it loaded, and of one that could not be imported, where the first exception is the cause.
WORKER_DEATH = "Backend worker process died."
LOAD_FAILURES = (
    re.compile(rf"{_PREFIX}Failed to load model \S+, exception (.+)$", re.MULTILINE),
    re.compile(
        rf"{_PREFIX}{re.escape(WORKER_DEATH)}$[\s\S]*?{_PREFIX}(?:\w+\.)*(\w*(?:Error|Exception|Exit|Interrupt)\b.*)$",
        re.MULTILINE,
    ),
)
# An exception of Java's, at the beginning of its stack and where that goes on with what caused it.
JAVA_EXCEPTION = re.compile(
    r"^(?:Exception in thread \"[^\"]*\" |Caused by: |Error: )?(?:[\w$]+\.)+([\w$]+(?:Exception|Error)(?:: .*)?)$",
    re.MULTILINE,
)
ADDRESS_IN_USE = re.compile(r"Address already in use|BindException")
# As the C library, and so Python and Java, words them.
FULL = {
    errno.ENOSPC: "No space left on device",
    errno.EDQUOT: "Disk quota exceeded",
    errno.EROFS: "Read-only file system",
}
# Enough that a file system which takes it is not full.
PROBE_BYTES = 64 << 10


def full_disk(directory: Path, logs: Iterable[str] = ()) -> str | None:
    """That there is no room in a directory, by what the logs say or by trying; None where there is."""
    reasons = [words for words in FULL.values() if any(words in log for log in logs)]
    probe = directory / "probe"
    try:
        probe.write_bytes(bytes(PROBE_BYTES))
    except OSError as error:
        if error.errno in FULL:
            reasons.append(FULL[error.errno])
    finally:
        with contextlib.suppress(OSError):
            probe.unlink(missing_ok=True)
    return no_room(directory, reasons[0]) if reasons else None


def no_room(directory: Path | str, reason: str) -> str:
    """What is wrong where nothing more can be written, and what to do."""
    remedy = "make room there, or set TMPDIR to another directory"
    return f"Nothing more can be written below {directory} ({reason}): {remedy}."


def java_failure(log: str) -> str | None:
    """The first exception of Java in a log, and what caused it at last; None where there is none."""
    first: str | None = None
    cause = ""
    for match in JAVA_EXCEPTION.finditer(log):
        if first is None:
            first = match[1]
        elif match[0].startswith("Caused by: "):
            cause = match[1]
        else:
            break
    if first is None or not cause or cause in first:
        return first
    return f"{first}, caused by {cause}"


def worker_failure(log: str) -> str | None:
    """Why a worker could not load, in its own words, by its log or the server's of it; None while none has failed."""
    for match in filter(None, (pattern.search(log) for pattern in LOAD_FAILURES)):
        return match[1]
    return WORKER_DEATH if WORKER_DEATH in log else None
