"""YAML out of an archive: read with bounds, and with the keys that stand twice."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

# TorchServe's own reader (snakeyaml) gives up at 50; merged mappings double with each one, so 20 is what can be had.
MAX_ALIASES = 20


class YamlFault(Exception):
    """Why a text is no YAML that TorchServe and its worker can read; a phrase without the text itself."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, as TorchServe's worker uses it, that counts aliases."""

    aliases = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """The next node. Raises YamlFault at one alias too many."""
        if self.check_event(yaml.AliasEvent):
            self.aliases += 1
            if self.aliases > MAX_ALIASES:
                raise YamlFault("it has too many aliases")
        return super().compose_node(parent, index)


@dataclass(frozen=True, slots=True)
class Document:
    """A document's value, and each key that stands twice in one of its mappings, with its line."""

    value: Any
    twice: list[tuple[str, int]]


def load(text: str) -> Document:
    """The only document in `text`. Raises YamlFault."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return Document(None, [])
        twice = list(_twice(node))  # before merges are written out, which may override a key
        return Document(loader.construct_document(node), twice)
    except YamlFault:
        raise
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise YamlFault(f"{line}{error.problem or error.context or 'not YAML'}") from None
    except RecursionError:
        raise YamlFault("it is nested too deeply") from None
    except Exception as error:  # PyYAML lets out whatever int(), datetime() and dict() say to an odd scalar
        raise YamlFault(f"not YAML ({type(error).__name__})") from None


def _twice(node: yaml.Node) -> Iterator[tuple[str, int]]:
    seen: set[int] = set()
    stack = [node]
    while stack:
        one = stack.pop()
        if id(one) in seen or not isinstance(one, yaml.CollectionNode):
            continue
        seen.add(id(one))
        if isinstance(one, yaml.MappingNode):
            keys: set[str] = set()
            for key, _ in one.value:
                if isinstance(key, yaml.ScalarNode):
                    if key.value in keys and key.value != "<<":
                        yield key.value, key.start_mark.line + 1
                    keys.add(key.value)
            stack += [part for pair in one.value for part in pair]
        else:
            stack += one.value
