"""A double of what DJL Serving's Python engine gives a model: Input and Output, as far as their documentation goes.

Written from the contract in https://github.com/deepjavalibrary/djl-serving (engines/python), not the package itself,
which no registry has. With MARSMITH_DJL_PYTHON, the directory that holds the real `djl_python`, the tests use that.
"""

from __future__ import annotations

from typing import Any


class PairList:
    """Keys and values in their order; a key may be None or come twice."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        self.values: list[Any] = []

    def add(self, key: str | None = None, value: Any = None) -> None:
        self.keys.append(key)
        self.values.append(value)

    def get_keys(self) -> list[str | None]:
        return self.keys

    def get_values(self) -> list[Any]:
        return self.values


class Input:
    """One request, or a batch whose properties and contents begin with batch_000. and so on."""

    def __init__(self) -> None:
        self.properties: dict[str, Any] = {}
        self.content = PairList()

    def is_empty(self) -> bool:
        return not self.content.keys

    def is_batch(self) -> bool:
        return "batch_size" in self.properties

    def get_batches(self) -> list[Input]:
        if not self.is_batch():
            return [self]
        batch = [Input() for _ in range(int(self.properties["batch_size"]))]
        for name, value in self.properties.items():
            if name != "batch_size" and name.startswith("batch_"):
                batch[int(name[6:9])].properties[name[10:]] = value
        for key, value in zip(self.content.keys, self.content.values, strict=True):
            assert key is not None
            batch[int(key[6:9])].content.add(key[10:], value)
        return batch

    def get_properties(self) -> dict[str, Any]:
        return self.properties

    def get_property(self, key: str) -> Any:
        return next((value for name, value in self.properties.items() if name.lower() == key.lower()), None)

    def get_content(self) -> PairList:
        return self.content


class Output:
    """The answer: one code, message and set of properties, and contents by key."""

    def __init__(self, code: int = 200, message: str = "OK") -> None:
        self.code = code
        self.message = message
        self.properties: dict[str, Any] = {}
        self.content = PairList()

    def add_property(self, key: str, value: Any) -> Output:
        self.properties[key] = value
        return self

    def add(self, value: bytes, key: str | None = None, batch_index: Any = None) -> Output:
        if batch_index is not None:
            key = f"batch_{batch_index}.{key or ''}"
        self.content.add(key, bytearray(value))
        return self
