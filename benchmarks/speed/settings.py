"""How long and how often a run measures."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.speed.shapes import DEIT_SMALL, ROBERTA_BASE, TINY_IMAGE, TINY_TEXT, ImageShape, TextShape


@dataclass(frozen=True, slots=True)
class Settings:
    """`rounds` alternate between the subjects, each measuring `seconds` of every closed loop after a warm-up.

    Open loops run at shares `loads` of a subject's own peak, once, for `open_seconds`. Servers are started `starts`
    times alone, where memory is measured too, and once for the rounds. `threads` of one worker is the budget of all;
    `photo_sides` (width, height) are those of the large photos.
    """

    rounds: int = 3
    seconds: float = 8.0
    open_seconds: float = 15.0
    warm_up_s: float = 2.0
    starts: int = 2
    clients: tuple[int, ...] = (1, 32)
    loads: tuple[float, ...] = (0.25, 0.5, 0.8)
    threads: int = 2
    batch_size: int = 16
    delay_ms: int = 1
    text: TextShape = ROBERTA_BASE
    image: ImageShape = DEIT_SMALL
    phone_photos: int = 8
    photo_sides: tuple[int, int] = (4000, 3000)


FULL = Settings()
# Under five minutes on two quiet cores: enough to see a regression of a seventh. Memory and open loops are left out.
QUICK = Settings(rounds=2, seconds=2.5, warm_up_s=0.5, starts=0, loads=(), phone_photos=4)
# Everything runs, nothing is worth reading: for tests.
TINY = Settings(
    rounds=2,
    seconds=1.0,
    open_seconds=1.0,
    warm_up_s=0.3,
    starts=1,
    clients=(1, 4),
    loads=(0.5,),
    text=TINY_TEXT,
    image=TINY_IMAGE,
    phone_photos=2,
    photo_sides=(800, 600),
)
