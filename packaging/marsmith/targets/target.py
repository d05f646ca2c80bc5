"""What a target is, and what a build hands to it: the members of its archive, checked, and their digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

from marsmith.ground.serving import Engine
from marsmith.mar.members import DIGESTS, Digest, Members, Source, digest_of, digests_json
from marsmith.recipe.recipe import Recipe


@dataclass(frozen=True, slots=True)
class Packed:
    """The archive at `archive`, and the sources of its members.

    `written` is what was written of each, and of the digests.
    """

    recipe: Recipe
    archive: Path
    members: Members
    written: Mapping[str, Digest]

    @property
    def tree(self) -> dict[PurePosixPath, Source]:
        """The archive's members as they lie when it is unpacked."""
        written = {name: member for name, member in self.written.items() if name != DIGESTS}
        return {**self.members, PurePosixPath(DIGESTS): digests_json(written)}

    def with_members(self, changes: Members) -> dict[PurePosixPath, Source]:
        """The tree with members added or replaced, and digests of its own, as `verify_unpacked` wants them."""
        members = {**self.members, **changes}
        digests = {
            str(name): digest_of(source) if name in changes else plain(self.written[str(name)])
            for name, source in members.items()
        }
        return {**members, PurePosixPath(DIGESTS): digests_json(digests)}


def plain(member: Digest) -> Digest:
    """A member as it lies where nothing is deflated."""
    return Digest(member.size, member.sha256)


class Target(Protocol):
    """A target beside the archive itself: a module of this package."""

    def check(self, recipe: Recipe, engine: Engine | None) -> None:
        """Raise TargetError for a model that this target cannot serve; the engine is None before it is known."""

    def write(self, packed: Packed, out: Path) -> list[Path]:
        """Write the target's files into the directory `out`. Raises ArchiveError."""
