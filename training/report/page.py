"""A report as one HTML file that needs nothing else: tables and plots are inside it."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid #ddd; padding: .25rem .75rem; text-align: right; }
th:first-child, td:first-child { text-align: left; }
img { max-width: 100%; margin: .5rem 0; }
code { background: #f4f4f4; padding: .1rem .3rem; overflow-wrap: anywhere; }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #181818; } th, td { border-color: #444; } code { background: #2a2a2a; }
}
"""


@dataclass(frozen=True, slots=True)
class Table:
    """A heading, the names of the columns, and rows of as many cells."""

    heading: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]

    @classmethod
    def of(cls, heading: str, values: Mapping[str, object]) -> Table:
        """Names and values as two columns."""
        return cls(heading, ("", ""), [(name, shown(value)) for name, value in values.items()])


@dataclass(frozen=True, slots=True)
class Plot:
    """A PNG, and what it shows in words, for those who cannot see it."""

    png: bytes
    words: str


@dataclass(frozen=True, slots=True)
class Words:
    """A paragraph, or a command where `code`."""

    text: str
    code: bool = False


def page(title: str, parts: Sequence[Table | Plot | Words]) -> str:
    """Write the page; every text is escaped."""
    body = "\n".join(map(_part, parts))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n"
        f"<h1>{escape(title)}</h1>\n{body}\n</body>\n</html>\n"
    )


def shown(value: object) -> str:
    """Write a value as a person would."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value)) or "none"
    return str(value)


def _part(part: Table | Plot | Words) -> str:
    if isinstance(part, Words):
        text = escape(part.text)
        return f"<p><code>{text}</code></p>" if part.code else f"<p>{text}</p>"
    if isinstance(part, Plot):
        data = base64.b64encode(part.png).decode("ascii")
        return f'<p><img alt="{escape(part.words)}" src="data:image/png;base64,{data}"></p>'
    head = "".join(f"<th>{escape(name)}</th>" for name in part.columns)
    rows = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>\n" for row in part.rows)
    return f"<h2>{escape(part.heading)}</h2>\n<table>\n<tr>{head}</tr>\n{rows}</table>"
