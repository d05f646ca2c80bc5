"""Silence of the whole process, for several threads at once."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

STANDARD_ERROR = 2


class Shared:
    """A context that is the process's: the first thread in enters it, the last one out leaves it.

    Were each thread to enter it by itself, the last one out would restore what it found: another one's silence.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Any]]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._inside = 0
        self._context: AbstractContextManager[Any] = nullcontext()

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._context = self._make()
                self._context.__enter__()
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._context.__exit__(None, None, None)


@contextmanager
def _no_standard_error() -> Iterator[None]:
    kept = os.dup(STANDARD_ERROR)
    try:
        with Path(os.devnull).open("wb") as nowhere:
            os.dup2(nowhere.fileno(), STANDARD_ERROR)
        yield
    finally:
        os.dup2(kept, STANDARD_ERROR)
        os.close(kept)


# Python's warnings, and what native libraries write themselves.
no_warnings = Shared(lambda: warnings.catch_warnings(action="ignore"))
no_standard_error = Shared(_no_standard_error)
