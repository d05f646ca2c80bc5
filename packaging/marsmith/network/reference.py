"""What a checkpoint is to the steps that turn it into a network, whatever goes into it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from marsmith.ground.serving import ImageSettings, TextSettings

# The network's inputs by name, with the logits float32[batch, labels] that the checkpoint gives them.
Case = tuple[Mapping[str, np.ndarray], np.ndarray]


class Reference(Protocol):
    """A checkpoint as Hugging Face runs it: a TextReference or an ImageReference."""

    @property
    def settings(self) -> TextSettings | ImageSettings:
        """How the network is fed."""

    def preprocessing(self) -> dict[str, bytes]:
        """The files that the worker preprocesses with, by name."""

    def probabilities(self, body: str | bytes) -> np.ndarray:
        """float64[labels] of one text or image file. Raises RecipeError when it is none."""

    def feeds(self, body: str | bytes) -> Mapping[str, np.ndarray]:
        """The network's inputs for one text or image file. Raises RecipeError when it is none."""

    def export(self, out: Path) -> None:
        """Write the ONNX graph into a directory. Raises ExportError."""

    def record(self, out: Path) -> None:
        """Write the PyTorch program into a directory. Raises ExportError."""

    def cases(self) -> Iterable[Case]:
        """Feeds, with the logits that the checkpoint gives them."""
