"""What one request may cost its worker: spent before each expensive step, and refused with 413 once it is used up.

The unit is a nanosecond of one core, by the prices below. A price is an upper bound, measured on a slow core by
`python -m benchmarks.hostile.prices`; what is counted is in the file or the body itself and costs next to nothing to
count. So the answer to a request depends on the request alone, never on how busy the machine is.
"""

from __future__ import annotations

from threading import Lock

from handlers.errors import TooLarge

NANOSECONDS_PER_MS = 1_000_000
# Of one core, for all of a request's instances together. The `work_ms` option of settings.py changes it.
WORK_MS = 2_000


class Work:
    """The work that one request may still cost; its instances, which may be decoded at once, spend from it together."""

    def __init__(self, milliseconds: int = WORK_MS) -> None:
        self._milliseconds = milliseconds
        self._left = milliseconds * NANOSECONDS_PER_MS
        self._lock = Lock()

    @property
    def left(self) -> int:
        """Nanoseconds that may still be spent."""
        return self._left

    def spend(self, amount: int, price: int) -> None:
        """Take `amount` steps of `price` nanoseconds each, before they are done.

        Raises TooLarge, and takes nothing, where they cost more than is left.
        """
        with self._lock:
            if amount * price > self._left:
                raise TooLarge(
                    f"To read this request would take longer than {self._milliseconds} ms: send less at once."
                )
            self._left -= amount * price
