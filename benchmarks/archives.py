"""How fast archives are built, verified and loaded, beside torch-model-archiver and a plain copy.

    python -m benchmarks.archives [--size-mb 500] [--rounds 3] [--json FILE]

Builds alternate round by round, and their medians are compared. Every build's file is synced to the disk before its
clock stops, as Marsmith does by itself; `cp` is shown with and without. Loading is the time in which a real TorchServe
unpacks an archive and has its worker ready; the handler loads nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

HANDLER = "def handle(data, context):\n    return data and [b'ok'] * len(data)\n"
CONFIG = "minWorkers: 1\nmaxWorkers: 1\nbatchSize: 1\nmaxBatchDelay: 1\nresponseTimeout: 60\nstartupTimeout: 120\n"
MB = 1_000_000
FIRST_PORT = 18600
TABLE_WIDTH = 140
# Written in blocks, so that the script's own memory stays small.
BLOCK_BYTES = 1 << 22

err = Console(stderr=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print a table and, if asked, write JSON."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--size-mb", type=int, default=500, help="size of the weights in MB")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path, help="write the results to this file")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="marsmith-benchmark-") as scratch:
        result = measure(Path(scratch), options.size_mb * MB, options.rounds)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    Console(width=TABLE_WIDTH).print(table(result))


def measure(home: Path, size: int, rounds: int) -> dict[str, Any]:
    """Every figure: seconds as medians with their spread, memory in bytes above the bare interpreter's."""
    model = make_model(home, size)
    builds = {
        "cp": lambda: copy(model, home / "copy.bin", sync=False),
        "cp, synced": lambda: copy(model, home / "copy.bin", sync=True),
        "torch-model-archiver default": lambda: stock(home, "default"),
        "torch-model-archiver zip-store": lambda: stock(home, "zip-store"),
        "marsmith archive": lambda: ours(home),
    }
    seconds: dict[str, list[float]] = {name: [] for name in builds}
    # Both sides load their modules before the clock runs.
    stock(home, "zip-store")
    ours(home)
    for _ in track(range(rounds), "building", console=err):
        for name, build in builds.items():
            os.sync()  # what the one before left to the disk is not this one's
            seconds[name].append(timed(build))
    verified = [timed(lambda: verify(home)) for _ in range(rounds)]
    hashed = [timed(lambda: sha256(home)) for _ in range(rounds)]
    loads = {name: [load(home / folder / "m.mar") for _ in range(rounds)] for name, folder in FOLDERS.items()}
    return {
        "bytes": size,
        "machine": {"cpu": cpu(), "cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {name: version(name) for name in ("marsmith", "torch-model-archiver", "torchserve")},
        "build_s": {name: summary(times) for name, times in seconds.items()},
        "build_peak_bytes": peaks(home),
        "archive_bytes": {name: (home / folder / "m.mar").stat().st_size for name, folder in FOLDERS.items()},
        "verify_s": {"marsmith verify": summary(verified), "sha256 of the file": summary(hashed)},
        "load_s": {name: summary(times) for name, times in loads.items()},
    }


FOLDERS = {
    "torch-model-archiver default": "default",
    "torch-model-archiver zip-store": "zip-store",
    "marsmith archive": "marsmith",
}


def make_model(home: Path, size: int) -> Path:
    """Weights that look like float32 numbers to a compressor: three random bytes, then one that hardly varies."""
    import numpy as np

    (home / "m_handler.py").write_text(HANDLER, encoding="utf-8")
    (home / "model-config.yaml").write_text(CONFIG, encoding="utf-8")
    for folder in FOLDERS.values():
        (home / folder).mkdir()
    rng = np.random.default_rng(1)
    path = home / "model.pt"
    with path.open("wb") as stream:
        while stream.tell() < size:
            block = rng.normal(0, 0.02, BLOCK_BYTES // 4).astype(np.float32).tobytes()
            stream.write(block[: size - stream.tell()])
        os.fsync(stream.fileno())
    return path


def inputs(home: Path) -> dict[str, str]:
    """What both archivers pack."""
    return {
        "model_name": "m",
        "version": "1.0",
        "handler": str(home / "m_handler.py"),
        "serialized_file": str(home / "model.pt"),
        "config_file": str(home / "model-config.yaml"),
    }


def copy(source: Path, target: Path, *, sync: bool) -> None:
    """`cp`, and with `sync` until the disk has it."""
    subprocess.run(["cp", source, target], check=True)  # noqa: S603, S607 - the system's own
    if sync:
        sync_file(target)
    target.unlink()


def stock(home: Path, archive_format: str) -> None:
    """torch-model-archiver, which stages everything below TMPDIR first."""
    from model_archiver.model_archiver_config import ModelArchiverConfig
    from model_archiver.model_packaging import generate_model_archive

    tempfile.tempdir = str(home / "staging")
    Path(tempfile.tempdir).mkdir(exist_ok=True)
    try:
        config = ModelArchiverConfig(
            **inputs(home), export_path=str(home / archive_format), archive_format=archive_format, force=True
        )
        generate_model_archive(config)
        sync_file(home / archive_format / "m.mar")
    finally:
        tempfile.tempdir = None


def ours(home: Path) -> None:
    """`marsmith archive`, by its Python API."""
    import marsmith

    marsmith.archive(**inputs(home), export_path=home / "marsmith", force=True)  # type: ignore[arg-type]


def verify(home: Path) -> None:
    """`marsmith verify`, by its Python API."""
    from marsmith.mar.verify import verify as verify_archive

    verify_archive(home / "marsmith/m.mar").require_ok()


def sha256(home: Path) -> None:
    """The bound for verification: one digest of the whole file."""
    from marsmith.ground.files import file_sha256

    file_sha256(home / "marsmith/m.mar")


def load(archive: Path) -> float:
    """Seconds from the start of TorchServe until the archive's worker is READY."""
    from marsmith.torchserve.configuration import Ports
    from marsmith.torchserve.server import Server

    with Server([archive], Ports(FIRST_PORT)) as server:
        begin = time.perf_counter()
        server.start()
        server.wait_ready()
        return time.perf_counter() - begin


def peaks(home: Path) -> dict[str, int]:
    """Peak resident memory of a process that only builds, above a bare interpreter's."""
    bare = peak("pass", home)
    module = (
        "from benchmarks import archives; from pathlib import Path; import sys; home = Path(sys.argv[1]); archives."
    )
    calls = {
        "torch-model-archiver default": "stock(home, 'default')",
        "torch-model-archiver zip-store": "stock(home, 'zip-store')",
        "marsmith archive": "ours(home)",
        "marsmith verify": "verify(home)",
    }
    return {name: peak(module + call, home) - bare for name, call in calls.items()}


def peak(code: str, home: Path) -> int:
    """Peak resident bytes of a Python process that runs `code`, as Linux counts them since its start."""
    code += "; import re; print(re.search(r'VmHWM:\\s+(\\d+) kB', open('/proc/self/status').read())[1])"
    result = subprocess.run([sys.executable, "-c", code, str(home)], check=True, capture_output=True, text=True)  # noqa: S603
    return int(result.stdout.split()[-1]) * 1024


def sync_file(path: Path) -> None:
    """Wait until the disk has the file."""
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def timed(work: Callable[[], None]) -> float:
    """Seconds that `work` takes."""
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def summary(seconds: list[float]) -> dict[str, float]:
    """Median, least and most."""
    return {"median": statistics.median(seconds), "min": min(seconds), "max": max(seconds)}


def cpu() -> str:
    """The processor's name, where /proc tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def table(result: dict[str, Any]) -> Table:
    """Medians, and ratios to `cp`, `cp, synced` and torch-model-archiver's default."""
    shown = Table(
        *("", "seconds (min to max)", "to cp", "to cp, synced", "default / this", "peak memory", "archive"),
        title=f"{result['bytes'] / MB:.0f} MB of weights, {result['machine']['cores']} cores",
    )
    builds = result["build_s"]
    for name, times in builds.items():
        ratios = [f"{times['median'] / builds[base]['median']:.2f}x" for base in ("cp", "cp, synced")]
        faster = f"{builds['torch-model-archiver default']['median'] / times['median']:.1f}x"
        shown.add_row(
            f"build: {name}", spread(times), *ratios, faster, memory(result, name), archive_size(result, name)
        )
    for name, times in result["verify_s"].items():
        shown.add_row(name, spread(times), *[""] * 3, memory(result, name), "")
    for name, times in result["load_s"].items():
        faster = f"{result['load_s']['torch-model-archiver default']['median'] / times['median']:.1f}x"
        shown.add_row(f"load: {name}", spread(times), "", "", faster, "", "")
    return shown


def spread(times: dict[str, float]) -> str:
    """A summary as text."""
    return f"{times['median']:.2f} ({times['min']:.2f} to {times['max']:.2f})"


def memory(result: dict[str, Any], name: str) -> str:
    """Peak memory as text, empty where it was not measured."""
    count = result["build_peak_bytes"].get(name)
    return f"{count / MB:.0f} MB" if count is not None else ""


def archive_size(result: dict[str, Any], name: str) -> str:
    """An archive's size as text, empty for a plain copy."""
    count = result["archive_bytes"].get(name)
    return f"{count / MB:.0f} MB" if count is not None else ""


if __name__ == "__main__":
    main()
