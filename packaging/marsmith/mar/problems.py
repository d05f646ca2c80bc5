"""What can be wrong with an archive, as verification reports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from marsmith.ground.untrusted import printable

Kind = Literal[
    "added",
    "ambiguous",
    "changed",
    "directory",
    "duplicate",
    "limit",
    "missing",
    "order",
    "pin",
    "signature",
    "trailing",
    "truncated",
    "unsafe",
]


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is not as it was written; `member` is None where it belongs to no member."""

    kind: Kind
    member: str | None
    message: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", printable(self.message))


class Unreadable(Exception):
    """A problem past which the file cannot be followed."""

    def __init__(self, kind: Kind, member: str | None, message: str) -> None:
        super().__init__(printable(message))
        self.problem = Problem(kind, member, message)
