"""Checkpoint -> ONNX graph.

A text graph takes a batch as one sequence without padding (packed.py), or padded where its family does not allow that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import torch
from torch import Tensor, nn

from marsmith.errors import ExportError, first_line
from marsmith.ground.quiet import quiet
from marsmith.ground.serving import ImageSettings, TextSettings
from marsmith.network.attention import attending
from marsmith.network.early_selection import select_tokens_early
from marsmith.network.packed import packed
from marsmith.network.program import WEIGHTS, Run

GRAPH = "model.onnx"
# Tensors below this many bytes stay in the graph, where shape inference can see them.
EXTERNAL_BYTES = 1024
# transformers' attention in plain operators: the others guard against rows of nothing but padding, which takes time.
PLAIN = "eager"


class PaddedText(nn.Module):
    """A sequence classifier as a function of `input_ids` and `attention_mask`, int64[B, T].

    And of `token_type_ids` int64[B, T], where the tokenizer makes other types than 0.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None) -> Tensor:
        """Logits float32[B, labels]; `attention_mask` is 1 for tokens, 0 for the padding after them."""
        types = {} if token_type_ids is None else {"token_type_ids": token_type_ids}
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, **types).logits
        return logits


class Images(nn.Module):
    """An image classifier as a function of `pixels` uint8[B, H, W, 3] alone, which it rescales and normalises."""

    scale: Tensor
    shift: Tensor

    def __init__(self, model: Any, settings: ImageSettings) -> None:
        super().__init__()
        self.model = model
        mean, std = (torch.tensor(values).reshape(3, 1, 1) for values in (settings.mean, settings.std))
        self.register_buffer("scale", settings.rescale_factor / std)
        self.register_buffer("shift", mean / std)

    def forward(self, pixels: Tensor) -> Tensor:
        """Logits float32[B, labels]."""
        # Channels are moved while they are bytes.
        values = pixels.permute(0, 3, 1, 2).to(torch.float32) * self.scale - self.shift
        logits: Tensor = self.model(pixel_values=values).logits
        return logits


def text_network(model: Any, settings: TextSettings) -> nn.Module:
    """A text classifier as a function of what the handlers feed it in its layout."""
    return packed(model) if settings.layout == "packed" else PaddedText(model)


def export_text(model: Any, settings: TextSettings, out: Path) -> None:
    """Write `model.onnx` and `model.weights` of a text classifier into the directory `out`. Raises ExportError."""
    tokens, batch, longest = (torch.export.Dim(name, min=1) for name in ("tokens", "batch", "longest"))
    network = text_network(model, settings)
    if settings.layout == "padded":
        example = {
            "input_ids": torch.tensor([[5, 6, 7], [8, 9, model.config.pad_token_id or 0]]),
            "attention_mask": torch.tensor([[1, 1, 1], [1, 1, 0]]),
        }
        if settings.token_types:
            example["token_type_ids"] = torch.zeros(2, 3, dtype=torch.int64)
        with attending(model, PLAIN):
            _export(network, example, {name: {0: batch, 1: tokens} for name in example}, out)
        return
    example = {
        "input_ids": torch.tensor([5, 6, 7, 8, 9]),
        "position_ids": torch.tensor([2, 3, 4, 2, 3]),
        "rows": torch.tensor([[0, 1, 2], [3, 4, -1]]),
        "slots": torch.tensor([0, 1, 2, 3, 4]),
    }
    if settings.token_types:
        example["token_type_ids"] = torch.zeros(5, dtype=torch.int64)
    shapes = {name: {0: batch, 1: longest} if name == "rows" else {0: tokens} for name in example}
    _export(network, example, shapes, out)


def export_images(model: Any, settings: ImageSettings, out: Path) -> None:
    """Write `model.onnx` and `model.weights` of an image classifier into the directory `out`. Raises ExportError."""
    height, width = settings.crop or settings.size
    example = {"pixels": torch.zeros(2, height, width, 3, dtype=torch.uint8)}
    with attending(model, PLAIN):
        _export(Images(model, settings), example, {"pixels": {0: torch.export.Dim("batch", min=1)}}, out)


def _export(module: nn.Module, example: dict[str, Tensor], shapes: dict[str, Any], out: Path) -> None:
    try:
        with quiet(), torch.inference_mode():
            program = torch.onnx.export(
                module.eval(),
                (),
                kwargs=example,
                output_names=["logits"],
                dynamic_shapes=shapes,
                dynamo=True,
                verbose=False,
            )
        if program is None:
            raise ExportError("torch.onnx.export returned nothing: use another torch version.")
        graph = program.model_proto
    except ExportError:
        raise
    except Exception as error:  # torch.export raises nearly every type
        raise ExportError(f"The network cannot be exported to ONNX: {first_line(error.__cause__ or error)}.") from error
    select_tokens_early(graph)
    _forget_origin(graph)
    save_graph(graph, out)


def save_graph(graph: onnx.ModelProto, out: Path) -> None:
    """Write a graph as `model.onnx` and `model.weights` into the directory `out`. Raises ExportError without room."""
    try:
        onnx.save_model(
            graph,
            out / GRAPH,
            save_as_external_data=True,
            all_tensors_to_one_file=True,
            location=WEIGHTS,
            size_threshold=EXTERNAL_BYTES,
        )
    except OSError as error:
        raise no_room(out, error) from None


def no_room(out: Path, error: OSError) -> ExportError:
    """What is raised when nothing more can be written into a scratch directory."""
    return ExportError(f"There is no room for the export in {out.parent}: {error.strerror}. Set TMPDIR.")


def _forget_origin(graph: onnx.ModelProto) -> None:
    """Drop stack traces and other notes: they hold this machine's paths and would differ between machines.

    So would torch's local version (+cpu): its builds of one release export the same graph.
    """
    graph.producer_version = graph.producer_version.partition("+")[0]
    del graph.metadata_props[:]
    for function in graph.functions:
        del function.metadata_props[:]
    for item in _everything(graph.graph):
        del item.metadata_props[:]
        item.doc_string = ""


def _everything(graph: onnx.GraphProto) -> Iterator[Any]:
    yield graph
    yield from graph.node
    yield from graph.initializer
    yield from graph.input
    yield from graph.output
    yield from graph.value_info
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _everything(attribute.g)


def session(graph: Path) -> Run:
    """The graph as a function from feeds to logits. Raises ExportError when ONNX Runtime cannot run it."""
    run = outputs_of(graph, ["logits"])
    return lambda feeds: run(feeds)[0]


def outputs_of(graph: Path, names: Sequence[str]) -> Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]:
    """The graph as a function from feeds to these outputs. Raises ExportError when ONNX Runtime cannot run it."""
    try:
        opened = ort.InferenceSession(str(graph), providers=["CPUExecutionProvider"])
    except Exception as error:  # ONNX Runtime's exceptions have no base of their own
        raise _cannot_run(error) from error

    def run(feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        try:
            return [np.asarray(one) for one in opened.run(list(names), dict(feeds))]
        except Exception as error:
            raise _cannot_run(error) from error

    return run


def _cannot_run(error: Exception) -> ExportError:
    return ExportError(f"ONNX Runtime cannot run the exported graph: {first_line(error)}.")
