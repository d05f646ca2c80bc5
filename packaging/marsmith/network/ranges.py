"""How large the numbers are that a graph multiplies by its weights, on inputs like those that it will see."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import onnx
from onnx import helper

from marsmith.network.export import GRAPH, no_room, outputs_of

# Inputs that are looked at: a channel that is large is so for nearly all of them.
OBSERVED_INPUTS = 64
OBSERVED_GRAPH = "observed.onnx"


def largest_by_channel(
    exported: Path, tensors: Sequence[str], inputs: Iterable[Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """float32[channels] of each tensor of the graph in `exported`: the largest absolute value along its last axis.

    Raises ExportError where there is no room, or ONNX Runtime cannot run it.
    """
    # The weights stay where they are: beside the graph with more outputs.
    model = onnx.load(exported / GRAPH, load_external_data=False)
    model.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in tensors)
    observed = exported / OBSERVED_GRAPH
    try:
        onnx.save_model(model, observed)
    except OSError as error:
        raise no_room(exported, error) from None
    run = outputs_of(observed, tensors)
    largest = {name: np.zeros(1, np.float32) for name in tensors}
    for feeds in islice(inputs, OBSERVED_INPUTS):
        for name, values in zip(tensors, run(feeds), strict=True):
            channels = np.abs(values).max(axis=tuple(range(values.ndim - 1)))
            largest[name] = np.maximum(largest[name], channels)
    return largest
