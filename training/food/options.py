"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import torch
import typer

Data = Annotated[
    str,
    typer.Argument(help="A folder with train/, val/ and test/ of class folders, a parquet file or folder, a hub id."),
]
Out = Annotated[Path, typer.Argument(file_okay=False, help="The checkpoint folder to write.")]
Dtype = Annotated[Literal["fp16", "fp32"], typer.Option(help="How the weights are stored.")]
Epochs = Annotated[int, typer.Option(min=1)]
Rate = Annotated[float, typer.Option(help="Peak learning rate of the head.")]
BatchSize = Annotated[int, typer.Option(min=1, help="Photos a step, over all processes together.")]
Accumulate = Annotated[int, typer.Option(min=1, help="Parts that a step of each process is run in, to save memory.")]
FindBatch = Annotated[bool, typer.Option(help="Take the largest batch that fits the memory, in place of --batch.")]
Memory = Annotated[float | None, typer.Option(min=0, help="GiB that a CPU's --find-batch-size may plan with.")]
Stored = Annotated[int | None, typer.Option(help="Side of the shrunken photos that crops are cut from, in pixels.")]
LayerDecay = Annotated[float, typer.Option(help="Each layer learns so many times as fast as the one above.")]
Frozen = Annotated[int, typer.Option(min=0, help="First layers that keep their weights, with the embeddings.")]
Relative = Annotated[bool, typer.Option(help="Steps of LayerScale's former layers follow their weights' size.")]
HeadStart = Annotated[bool, typer.Option(help="Begin with a head fitted to the frozen features.")]
Jitter = Annotated[float, typer.Option(min=0, max=1, help="Range of brightness, contrast and saturation.")]
Operations = Annotated[int, typer.Option(min=0, help="RandAugment's operations for a view; 0 leaves it out.")]
Magnitude = Annotated[int, typer.Option(min=0, max=30, help="Their strength.")]
Mixup = Annotated[float, typer.Option(min=0, help="Alpha of mixup; 0 leaves it out.")]
Cutmix = Annotated[float, typer.Option(min=0, help="Alpha of cutmix; 0 leaves it out.")]
Ema = Annotated[float, typer.Option(min=0, max=1, help="Decay of the average of the weights; 0 for none.")]
Bf16 = Annotated[bool, typer.Option(help="Run the networks in bf16 where autocast may.")]
Seed = Annotated[int, typer.Option(min=0)]
Resume = Annotated[bool, typer.Option(help="Go on after the last checkpoint in OUT.")]
CheckpointSteps = Annotated[int, typer.Option(min=0, help="Steps between checkpoints; one every epoch comes on top.")]
LogSteps = Annotated[int, typer.Option(min=1, help="Steps between lines of log.jsonl.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Intra-op threads of each process.")]
LoaderThreads = Annotated[int, typer.Option(min=0, help="Threads that make views ahead of time; 0: none does.")]
BackendName = Annotated[
    Literal["nccl", "gloo", "smddp"] | None, typer.Option(help="Of torchrun's processes; by default nccl on GPUs.")
]
Zero = Annotated[bool, typer.Option(help="Share the optimizer's state out among the processes.")]
Timings = Annotated[
    Path | None, typer.Option(file_okay=False, help="Record each step's time here, for training.bottleneck report.")
]
Json = Annotated[bool, typer.Option("--json", help="Write JSON.")]

DTYPES = {"fp16": torch.float16, "fp32": torch.float32}
STORED_SHARE = 1.37  # of the size a network sees, where none is told: 192 for 140


def in_bytes(gib: float | None) -> int | None:
    """Return GiB in bytes."""
    return None if gib is None else round(gib * 2**30)


def stored_side(size: int, told: int | None) -> int:
    """Return the side in pixels of the photos that crops of `size` are cut from."""
    return told or round(STORED_SHARE * size)
