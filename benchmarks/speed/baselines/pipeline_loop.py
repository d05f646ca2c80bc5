"""B5: `transformers.pipeline`, batched, in process: what PyTorch does without any server.

python pipeline_loop.py TASK CHECKPOINT THREADS BATCH_SIZE

Reads one JSON line after another from standard input, `{"files": […], "seconds": S}`, and answers each with a line:
`{"count", "seconds", "answers"}`. Every file is classified once, and all again and again until the time is over.
"""

import json
import sys
import time
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from transformers import pipeline

PIPELINES = {"sentiment": "text-classification", "food": "image-classification"}
TOP_K = {"sentiment": None, "food": 5}


def main() -> None:
    """Answer until standard input ends."""
    task, checkpoint = sys.argv[1:3]
    threads, batch_size = map(int, sys.argv[3:5])
    torch.set_num_threads(threads)
    classify: Any = pipeline(PIPELINES[task], checkpoint, top_k=TOP_K[task], device="cpu", trust_remote_code=False)
    for line in sys.stdin:
        order = json.loads(line)
        files = [Path(name) for name in order["files"]]
        answers: list[Any] = []
        begin = time.perf_counter()
        count = 0
        for batch in batches(files, batch_size):
            inputs = [read(task, file) for file in batch]
            found = classify(inputs, batch_size=batch_size)
            count += len(found)
            answers += found[: len(files) - len(answers)]
            if len(answers) == len(files) and time.perf_counter() - begin >= order["seconds"]:
                break
        print(json.dumps({"count": count, "seconds": time.perf_counter() - begin, "answers": answers}), flush=True)  # noqa: T201


def batches(files: list[Path], size: int) -> Iterator[list[Path]]:
    """The files over and over, `size` at a time."""
    turn = cycle(files)
    while True:
        yield [next(turn) for _ in range(size)]


def read(task: str, file: Path) -> Any:
    """What the pipeline takes: a text, or an image that it decodes here."""
    return file.read_text(encoding="utf-8") if task == "sentiment" else Image.open(file).convert("RGB")


if __name__ == "__main__":
    main()
