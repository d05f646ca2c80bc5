"""What the checks of an image found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from marsmith.ground.untrusted import printable

# A note is what cannot be known of this image, or not from this file.
Status = Literal["ok", "wrong", "note"]


@dataclass(frozen=True, slots=True)
class Result:
    """One check: what it is about, what it found in one sentence, and the files or settings that it means."""

    check: str
    status: Status
    message: str
    where: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))
        object.__setattr__(self, "where", tuple(map(printable, self.where)))


@dataclass(frozen=True, slots=True)
class LayerSize:
    """A layer's bytes compressed (None where the file holds it as it is) and unpacked, and the step that made it."""

    compressed: int | None
    unpacked: int
    created_by: str


@dataclass(slots=True)
class Report:
    """All of it; `digest` is the manifest's in an OCI archive, the configuration's in a docker archive."""

    image: str
    format: str
    digest: str
    architecture: str
    layers: list[LayerSize]
    results: list[Result] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return all(one.status != "wrong" for one in self.results)

    @property
    def compressed(self) -> int | None:
        """Bytes of all layers compressed; None where one is not."""
        sizes = [one.compressed for one in self.layers]
        return None if None in sizes else sum(filter(None, sizes))

    @property
    def unpacked(self) -> int:
        """Bytes of the files of all layers."""
        return sum(one.unpacked for one in self.layers)


def verdict(check: str, wrong: Sequence[str], good: str, bad: str) -> Result:
    """The result of a check that lists what is wrong."""
    return Result(check, "wrong", bad, tuple(wrong)) if wrong else Result(check, "ok", good)
