"""Reads numbers of any number of bits, most significant first, as video headers have them."""

from __future__ import annotations


class Bits:
    """Bits of `data` in order. Past the end they are zeros."""

    def __init__(self, data: bytes) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    def take(self, count: int) -> int:
        """The next `count` bits as a number."""
        self._left -= count
        value = self._value >> self._left if self._left >= 0 else self._value << -self._left
        return value & ((1 << count) - 1)

    def flag(self) -> bool:
        """The next bit."""
        return bool(self.take(1))

    def exponential(self) -> int:
        """An unsigned exponential-Golomb code (ITU-T H.265, 9.2), which AV1 calls uvlc."""
        zeros = 0
        while zeros < 32 and not self.take(1):
            zeros += 1
        return (1 << zeros) - 1 + self.take(zeros) if zeros < 32 else (1 << 32) - 1
