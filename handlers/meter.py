"""What reading an image file may cost: every countable step with its price, and the memory that it takes.

A reader of this package counts the steps of one format from the file's structure and spends them from the request's
Work before Pillow sees the file. A price is nanoseconds of one core, an upper bound for the decoders of Pillow 13 on a
slow core; `python -m benchmarks.hostile.prices` measures each of them again.
"""

from __future__ import annotations

from dataclasses import dataclass

from handlers.errors import TooLarge
from handlers.work import Work

# Of one image while it is decoded and resized, beside the file itself; what all threads decode at once keeps to it too.
MAX_IMAGE_MEMORY = 450_000_000
# The longest side that JPEG can state; other formats' rows are held to it, because Pillow reads whole rows.
MAX_SIDE = 65_535


@dataclass(frozen=True, slots=True)
class Step:
    """One kind of step, as an error names it (in the plural), and its price in nanoseconds."""

    name: str
    price: int


@dataclass(frozen=True, slots=True)
class Extent:
    """Sides that a file states, and the most bytes that are held at once while Pillow decodes it.

    With a `scale`, each side of what is decoded is that many times shorter.
    """

    width: int
    height: int
    memory: int
    scale: int = 1

    @property
    def decoded(self) -> int:
        """Pixels that are decoded."""
        return -(-self.width // self.scale) * -(-self.height // self.scale)


class Meter:
    """Spends the work of one image, and says what there was too much of."""

    def __init__(self, work: Work, max_pixels: int = MAX_SIDE**2) -> None:
        self._work, self._max_pixels = work, max_pixels

    def spend(self, step: Step, amount: int = 1) -> None:
        """Spend `amount` steps before they are done. Raises TooLarge, naming the step, where that is too many."""
        try:
            self._work.spend(amount, step.price)
        except TooLarge:
            raise TooLarge(
                f"The image has too many {step.name} to be read in the time of one request: "
                "send it smaller, saved in a plainer way, or in a request of its own."
            ) from None

    def check_sides(self, width: int, height: int) -> None:
        """Raise TooLarge for too many pixels, or too long a side: before they are spent, so that the error says so."""
        if width * height > self._max_pixels:
            raise TooLarge(f"An image may have at most {self._max_pixels} pixels.")
        if max(width, height) > MAX_SIDE:
            raise TooLarge(f"Each side of an image may have at most {MAX_SIDE} pixels.")


def check_memory(held: int) -> None:
    """Raise TooLarge where one image would hold so many bytes."""
    if held > MAX_IMAGE_MEMORY:
        raise TooLarge(f"To decode the image would take more than {MAX_IMAGE_MEMORY // 1_000_000} MB: send it smaller.")
