"""A recipe's sample: a request, and what is expected of its answer."""

from __future__ import annotations

import math
from typing import Any

from pydantic import Field, field_validator, model_validator

from marsmith.ground.values import OwnPath, Section


class Sample(Section):
    """A request that the archive must answer as the checkpoint does, and the label that you expect of both.

    Of a handler of your own, `expect` is the least that its answer holds; `json` is sent as it is.
    """

    text: str | None = None
    image: OwnPath | None = None
    value: Any = Field(None, alias="json")
    expect: Any = None

    @field_validator("value", "expect")
    @classmethod
    def _json(cls, value: Any) -> Any:
        if not _is_json(value):
            raise ValueError("JSON has neither nan nor inf, and no dates or times: leave them out, or quote them")
        return value

    @field_validator("expect")
    @classmethod
    def _decides(cls, expect: Any) -> Any:
        if not isinstance(expect, str | dict):
            raise ValueError("name a label in quotes, or of a handler of your own a table, as in {rating = 4.2}")  # noqa: TRY004
        if _holds_empty(expect):
            raise ValueError("any answer holds an empty table or list: name what the answer must hold, or leave it out")
        return expect

    @model_validator(mode="after")
    def _one_input(self) -> Sample:
        if sum(one is not None for one in (self.text, self.image, self.value)) != 1:
            raise ValueError("give either text or image, or json for a handler of your own")
        return self


def _is_json(value: Any) -> bool:
    """Whether JSON can say a value of TOML."""
    if isinstance(value, dict):
        return all(map(_is_json, value.values()))
    if isinstance(value, list):
        return all(map(_is_json, value))
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _holds_empty(value: Any) -> bool:
    if isinstance(value, dict | list):
        return not value or any(map(_holds_empty, value.values() if isinstance(value, dict) else value))
    return False
