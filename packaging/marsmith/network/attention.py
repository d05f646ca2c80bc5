"""Which attention a model of transformers computes while it is exported."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def attending(model: Any, implementation: str) -> Iterator[None]:
    """Let the model attend by one of transformers' implementations, or one that is registered there."""
    before = model.config._attn_implementation  # transformers has a public way to set it only
    model.set_attn_implementation(implementation)
    try:
        yield
    finally:
        model.set_attn_implementation(before)
