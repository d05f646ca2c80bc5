"""What lint can find: each kind has a code, a severity and a title; README.md holds the same table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from marsmith.errors import LintError

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of finding. An error fails at load or surprises in production; a warning may be meant."""

    severity: Severity
    title: str


RULES: dict[str, Rule] = {}


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding: `where` is a member, a key or a line; `message` says what is wrong, `remedy` what to do."""

    code: str
    where: str
    message: str
    remedy: str

    @property
    def severity(self) -> Severity:
        """The severity of its kind."""
        return RULES[self.code].severity


def refuse(findings: Iterable[Finding], what: str) -> None:
    """Raise LintError when one of the findings about `what` is an error."""
    errors = [one for one in findings if one.severity == "error"]
    if errors:
        listed = "; ".join(f"{one.code} {one.where}: {one.message} {one.remedy}" for one in errors)
        raise LintError(f"{what} would not serve as it should: {listed}")
