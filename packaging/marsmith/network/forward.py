"""Run a checkpoint's model as transformers does: its own outputs, or one sentence why it gives none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from marsmith.errors import CheckpointError
from marsmith.network.pretrained import guarded

REMEDY = "Save the model with the tokenizer or image processor that it was trained with."


def logits(model: Any, inputs: Mapping[str, Any]) -> np.ndarray:
    """float32[B, labels] of what the tokenizer or image processor made. Raises CheckpointError."""
    what = "The checkpoint's network cannot read what its own tokenizer or image processor makes"
    with guarded(what, REMEDY), torch.inference_mode():
        found: np.ndarray = model(**inputs).logits.float().numpy()
    if found.ndim != 2 or found.shape[1] != model.config.num_labels:
        raise CheckpointError(
            f"The checkpoint's network gives logits of the shape {list(found.shape)}, where {model.config.num_labels} "
            "for each input are expected: choose another checkpoint."
        )
    return found


def probabilities(model: Any, inputs: Mapping[str, Any]) -> np.ndarray:
    """float64[labels] of a batch of one. Raises CheckpointError."""
    with _one_thread():
        (only,) = torch.from_numpy(logits(model, inputs))
    found: np.ndarray = only.double().softmax(-1).numpy()
    return found


@contextmanager
def _one_thread() -> Iterator[None]:
    """Sums in the same order whatever the number of cores, so that two machines record the same digits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
