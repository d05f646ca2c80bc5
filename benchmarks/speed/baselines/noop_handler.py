"""No model: what TorchServe itself costs for each request."""

from typing import Any


class NoopHandler:
    """Answers every request with the same word."""

    def initialize(self, _context: Any) -> None:
        """Nothing to load."""

    def handle(self, data: list[Any], _context: Any) -> list[str]:
        """One answer for each request."""
        return ["ok"] * len(data)
