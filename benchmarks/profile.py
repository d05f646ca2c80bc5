"""Where the time of an archive goes: in the network by operator, and in the handler by function.

    python -m benchmarks.profile ARCHIVE [--inputs FILE|DIR] [--batch 16] [--repeats 10] [--json FILE]

The archive's own handler answers batches in this process, as TorchServe's worker would call it, under cProfile. What it
feeds its network is then fed to the graph again, under ONNX Runtime's profiler. FILE has one text a line, and each file
in DIR is an image; without either, inputs are made as for the comparison of speed.
"""

from __future__ import annotations

import argparse
import cProfile
import importlib
import json
import pstats
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from rich.table import Table

from benchmarks.speed import inputs
from marsmith.errors import MarsmithError
from marsmith.ground.files import read_lines
from marsmith.mar.reader import extract_archive

BATCH, REPEATS, TOP = 16, 10, 15
MICROSECONDS = 1e-6
MANIFEST, CONFIG, MODEL = "MAR-INF/MANIFEST.json", "model-config.yaml", "model"
GRAPH = "model.onnx"
# The handlers' name for the field of a raw body, which TorchServe gives it.
BODY = "body"

Feeds = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class Line:
    """An operator or a function: how often it ran, its own seconds, and their share of all."""

    name: str
    calls: int
    seconds: float
    share: float


class Recorder:
    """In the network's place: remembers what it is fed."""

    def __init__(self, network: Any) -> None:
        self._network = network
        self.fed: list[Feeds] = []

    def run(self, feeds: Feeds) -> Any:
        """The network's answer."""
        self.fed.append(dict(feeds))
        return self._network.run(feeds)


def profile(archive: Path, asked: Path | None, batch: int, repeats: int) -> dict[str, Any]:
    """Lines of the network's operators and of the handler's functions, the slowest first."""
    with tempfile.TemporaryDirectory(prefix="marsmith-profile-") as scratch:
        root = Path(scratch) / "archive"
        extract_archive(archive, root)
        handler, context = loaded(root, batch)
        bodies = list(islice(cycle(requests(root / MODEL, asked)), batch))
        data = [{BODY: body} for body in bodies]
        functions = handler_lines(handler, context, data, repeats)
        handler.engine = recorder = Recorder(handler.engine)
        handler.handle(data, context)
        graph = root / MODEL / GRAPH
        operators = operator_lines(graph, recorder.fed, handler.threads, repeats) if graph.is_file() else []
    lines = {"operators": operators, "functions": functions}
    return {"batch": batch, "repeats": repeats, "threads": handler.threads} | {
        name: [asdict(line) for line in found] for name, found in lines.items()
    }


def loaded(root: Path, batch: int) -> tuple[Any, Any]:
    """The archive's handler, loaded, and a context as the worker makes it for a batch of so many."""
    from ts.context import Context, RequestProcessor

    manifest = json.loads((root / MANIFEST).read_text(encoding="utf-8"))
    # What the archive brings, not what is in the checkout.
    sys.path.insert(0, str(root))
    module = importlib.import_module(manifest["model"]["handler"].partition(":")[0].removesuffix(".py"))
    (kind,) = (one for one in vars(module).values() if isinstance(one, type) and one.__module__ == module.__name__)
    config = yaml.safe_load((root / CONFIG).read_text(encoding="utf-8"))
    context = Context("m", str(root), manifest, batch, None, "", model_yaml_config=config)
    handler: Any = kind()
    handler.initialize(context)
    context.request_processor = [RequestProcessor({}) for _ in range(batch)]
    context.request_ids = {}
    return handler, context


def requests(model: Path, asked: Path | None) -> list[bytes]:
    """Raw bodies: of a file or a directory, or made up for the kind of model that lies in `model`."""
    if asked is not None and asked.is_dir():
        return [file.read_bytes() for file in sorted(asked.iterdir()) if file.is_file()]
    if asked is not None:
        return [line.encode() for line in read_lines(asked) if line.strip()]
    tokenizer = model / "tokenizer.json"
    if not tokenizer.is_file():
        return list(inputs.thumbnails())
    from tokenizers import Tokenizer

    return [text.encode() for text in inputs.texts(Tokenizer.from_file(str(tokenizer)))]


def handler_lines(handler: Any, context: Any, data: list[dict[str, Any]], repeats: int) -> list[Line]:
    """What `handle` spends in each function itself, without what that calls."""
    handler.handle(data, context)
    profiler = cProfile.Profile()
    for _ in range(repeats):
        # TorchServe hands over new objects each time.
        fresh = [dict(fields) for fields in data]
        profiler.enable()
        handler.handle(fresh, context)
        profiler.disable()
    measured: dict[tuple[str, int, str], tuple[Any, ...]] = pstats.Stats(profiler).stats  # type: ignore[attr-defined]
    seconds, calls = Counter[str](), Counter[str]()
    for (file, _line, function), (_primitive, count, own, *_rest) in measured.items():
        name = f"{Path(file).name}: {function}" if file != "~" else function
        seconds[name] += own
        calls[name] += count
    return _lines(seconds, calls)


def operator_lines(graph: Path, fed: Sequence[Feeds], threads: int, repeats: int) -> list[Line]:
    """What the network spends in each kind of operator."""
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.enable_profiling = True
    options.profile_file_prefix = str(graph.with_name("profile"))
    session = ort.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])
    for _ in range(repeats):
        for feeds in fed:
            session.run(None, dict(feeds))
    events: list[dict[str, Any]] = json.loads(Path(session.end_profiling()).read_text(encoding="utf-8"))
    seconds, calls = Counter[str](), Counter[str]()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            name = event["args"]["op_name"]
            seconds[name] += event["dur"] * MICROSECONDS
            calls[name] += 1
    return _lines(seconds, calls)


def _lines(seconds: Counter[str], calls: Counter[str]) -> list[Line]:
    whole = sum(seconds.values())
    return [Line(name, calls[name], own, own / whole if whole else 0.0) for name, own in seconds.most_common(TOP)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print two tables, and write them as JSON where asked to; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.profile", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("archive", type=Path)
    parser.add_argument("--inputs", type=Path, help="a file with one text a line, or a directory of images")
    parser.add_argument("--batch", type=int, default=BATCH, help=f"requests at a time (default: {BATCH})")
    parser.add_argument("--repeats", type=int, default=REPEATS, help=f"batches (default: {REPEATS})")
    parser.add_argument("--json", type=Path, help="write the lines to this file")
    options = parser.parse_args(arguments)
    try:
        found = profile(options.archive, options.inputs, options.batch, options.repeats)
    except (MarsmithError, OSError, RuntimeError) as error:
        Console(stderr=True).print(str(error), style="red", markup=False)
        return 1
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    out = Console()
    for kind in ("operators", "functions"):
        table = Table("", "calls", "ms a batch", "share", title=f"{kind}, {found['threads']} threads")
        for line in found[kind]:
            ms = f"{line['seconds'] * 1000 / found['repeats']:.2f}"
            table.add_row(line["name"], str(line["calls"]), ms, f"{line['share']:.1%}")
        out.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
