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
    """The work that one request may still cost.

    Each of its instances spends from a `share` of its own, which ends where the request's does: an instance that alone
    costs too much is refused in its place. Where only all of them together do, `exceeded` says so, and the request is
    refused as a whole: which instance came last depends on threads, their sum does not.
    """

    def __init__(self, milliseconds: int = WORK_MS, request: Work | None = None) -> None:
        self._milliseconds = milliseconds
        self._left = milliseconds * NANOSECONDS_PER_MS
        self._request = request
        self._lock = Lock()
        self.exceeded = False

    def share(self) -> Work:
        """What one instance may cost: as much as the request, and no more than the others leave."""
        return Work(self._milliseconds, self)

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
                self.exceeded = True
                raise self.refusal()
            if self._request is not None:
                self._request.spend(amount, price)
            self._left -= amount * price

    def refusal(self) -> TooLarge:
        """What answers a request that costs too much."""
        return TooLarge(f"To read this request would take longer than {self._milliseconds} ms: send less at once.")
