"""Command lines that are read as argparse reads them, for a command that stands in for a program that uses it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from typer.core import TyperCommand

NEGATIVE_NUMBER = re.compile(r"-(?:\d+|\d*\.\d+)")


class ArgparseCommand(TyperCommand):
    """Takes an unambiguous beginning of a long option for the option, and no option for another one's value.

    The options of `later` are this program's own: a beginning that fits one of the others never means them.
    """

    later: frozenset[str] = frozenset()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Spell the options out, then go on as every command does."""
        return super().parse_args(ctx, list(self._spelled_out(ctx, args)))

    def _spelled_out(self, ctx: Any, args: list[str]) -> Iterator[str]:
        takes_value = {
            spelling: not getattr(option, "is_flag", False)
            for option in self.get_params(ctx)
            if option.param_type_name == "option"
            for spelling in option.opts
        }
        rest = iter(args)
        for arg in rest:
            if arg == "--":
                yield from (arg, *rest)
                return
            name, equals, value = arg.partition("=")
            if name.startswith("--") and name not in takes_value:
                name = self._meant(ctx, name, list(takes_value))
            elif not name.startswith("--") and equals and name in takes_value:
                yield from (name, value)  # argparse takes -v=1.0 apart, too
                continue
            yield f"{name}{equals}{value}"
            if takes_value.get(name) and not equals:
                yield from self._value(ctx, name, next(rest, None), list(takes_value))

    def _meant(self, ctx: Any, name: str, known: list[str]) -> str:
        """The one option that begins so; the name itself where none does, for the parser to refuse."""
        fitting = [option for option in known if option.startswith(name)]
        fitting = [option for option in fitting if option not in self.later] or fitting
        if len(fitting) > 1:
            ctx.fail(f"{name} may be {', '.join(sorted(fitting))}: write more of it.")
        return fitting[0] if fitting else name

    def _value(self, ctx: Any, name: str, value: str | None, known: list[str]) -> Iterator[str]:
        """The value of an option, which is not an option itself; none where it is missing, for the parser to refuse."""
        if value is None:
            return
        is_option = value.partition("=")[0] in known or (
            len(value) > 1 and value.startswith("-") and " " not in value and not NEGATIVE_NUMBER.fullmatch(value)
        )
        if is_option:
            ctx.fail(f"{name} needs a value, and {value} is an option. Write {name}={value} to give it as the value.")
        yield value


def likened(*own: str) -> type[ArgparseCommand]:
    """The class of a command that has options of its `own` beside those of the program that it stands in for."""
    return type("Likened", (ArgparseCommand,), {"later": frozenset(own)})
