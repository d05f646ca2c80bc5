"""What a build hands to each home: the members of its archive, checked by the golden requests, and their digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from marsmith.mar import mar
from marsmith.network.choose import Engine
from marsmith.recipe.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Packed:
    """The archive at `archive`, and the sources of its members.

    `written` is what was written of each, and of the digests.
    """

    recipe: Recipe
    archive: Path
    members: mar.Members
    written: Mapping[str, mar.Member]

    @property
    def tree(self) -> dict[PurePosixPath, mar.Source]:
        """The archive's members as they lie when it is unpacked."""
        written = {name: member for name, member in self.written.items() if name != mar.DIGESTS}
        return {**self.members, PurePosixPath(mar.DIGESTS): mar.digests(written)}

    def with_members(self, changes: mar.Members) -> dict[PurePosixPath, mar.Source]:
        """The tree with members added or replaced, and digests of its own, as `verify_unpacked` wants them."""
        members = {**self.members, **changes}
        digests = {
            str(name): mar.member_of(source) if name in changes else plain(self.written[str(name)])
            for name, source in members.items()
        }
        return {**members, PurePosixPath(mar.DIGESTS): mar.digests(digests)}


def plain(member: mar.Member) -> mar.Member:
    """A member as it lies where nothing is deflated."""
    return mar.Member(member.size, member.sha256)


class Home(Protocol):
    """A target beside the archive itself: a module of this package."""

    def check(self, recipe: Recipe, engine: Engine | None) -> None:
        """Raise TargetError for a model that this home cannot serve; the engine is None before it is known."""

    def write(self, packed: Packed, out: Path) -> list[Path]:
        """Write the home's files into the directory `out`. Raises ArchiveError."""
