"""How far a run is, and how long it still takes: by what its steps took so far, else by what they are expected to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal

from marsmith.ground.progress import Progress

Kind = Literal["build", "setting"]
# Seconds of a build of a small checkpoint, and of a server's start and end.
BUILD_S, START_S = 30.0, 10.0

# Hears what is being done, seconds that passed, and seconds that are left.
Show = Callable[[str, float, float], None]


class Schedule:
    """The steps of a run: `builds`, then rounds of settings with at most so many in each.

    `measuring_s` is what a setting takes beside the start of its server.
    """

    def __init__(self, builds: int, rounds: Sequence[int], measuring_s: float, show: Show) -> None:
        self._left: dict[Kind, int] = {"build": builds, "setting": 0}
        self._later = list(rounds)
        self._expected_s: dict[Kind, float] = {"build": BUILD_S, "setting": START_S + measuring_s}
        self._took_s: dict[Kind, list[float]] = {"build": [], "setting": []}
        self._began = time.monotonic()
        self._show = show

    @property
    def left_s(self) -> float:
        """Seconds that are expected to be left when the running step begins."""
        settings = self._left["setting"] + sum(self._later)
        return self._left["build"] * self._seconds("build") + settings * self._seconds("setting")

    def begin_round(self, settings: int) -> None:
        """The next round has so many settings."""
        self._later.pop(0)
        self._left["setting"] = settings

    @contextmanager
    def step(self, kind: Kind, what: str) -> Iterator[Progress]:
        """One step; yields the function that hears its parts."""
        began = time.monotonic()

        def progress(part: str) -> None:
            now = time.monotonic()
            left_s = self.left_s - min(now - began, self._seconds(kind))
            self._show(f"{what}: {part}", now - self._began, left_s)

        progress("begins")
        yield progress
        self._took_s[kind].append(time.monotonic() - began)
        self._left[kind] -= 1

    def _seconds(self, kind: Kind) -> float:
        took = self._took_s[kind]
        return sum(took) / len(took) if took else self._expected_s[kind]
