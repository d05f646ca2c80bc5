"""What the training loop tells whoever measures it: which phase it is in, and when a step ends."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Protocol


class Clock(Protocol):
    """Times the phases "data", "forward", "backward", "communication" and "optimizer" of training steps."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Time what runs inside."""

    def step(self, samples: int) -> None:
        """End a step of so many photos of this process."""


class NoClock:
    """Times nothing."""

    def phase(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002
        """Run what is inside."""
        return nullcontext()

    def step(self, samples: int) -> None:
        """Count nothing."""
