"""The tiers of the tests: what `pytest` runs by default, and what puts a test into a slower tier.

Without a marker a test belongs to the default tier, whose tests take two seconds at most on a quiet machine. `build`
is for tests that build an archive of a checkpoint, `server` for those that start a real TorchServe, `arm64` for those
that need the emulator, and `slow` for all others that take longer.
"""

from collections.abc import Callable
from typing import Any, TypeVar

# Seconds, on two quiet cores.
DEFAULT_TIER_S = 2.0
MARKERS = ("build", "server", "slow", "arm64")
BUILDING: set[str] = set()

FixtureT = TypeVar("FixtureT", bound=Callable[..., Any])


def builds(fixture: FixtureT) -> FixtureT:
    """Say that a fixture builds an archive: every test that takes it belongs to the tier `build`."""
    BUILDING.add(fixture.__name__)
    return fixture
