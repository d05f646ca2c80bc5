"""Measure one setting: the archive with another model-config.yaml, behind a real TorchServe."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import psutil

from marsmith import manifest, mar, replay
from marsmith.configuration import Ports
from marsmith.cores import intra_op_threads
from marsmith.errors import TuneError
from marsmith.progress import Progress
from marsmith.recipe import Recipe, Serving
from marsmith.server import Server
from marsmith.tune.accuracy import Accuracy, accuracy
from marsmith.tune.load import Body, closed_loop
from marsmith.tune.others import Others
from marsmith.tune.setting import Setting

# Not measured: connections open, and the Java VM compiles what it runs often.
WARM_UP_S = 1.0
# One client needs less time than many to say what a request takes.
LONE_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of a setting.

    `per_second` (give or take `noise`), `p50_ms` and `p95_ms` are those of many clients, `lone_p50_ms` that of one.
    `memory_bytes` is the workers' proportional set size, `failed` counts the requests without an answer, and golden
    requests with a wrong one. `others` is how many cores were busy with other work meanwhile.
    """

    setting: Setting
    per_second: float
    noise: float
    p50_ms: float
    p95_ms: float
    lone_p50_ms: float
    memory_bytes: int
    failed: int
    accuracy: Accuracy
    others: float


@dataclass(frozen=True, slots=True)
class Bench:
    """What all settings have in common: where they are served, and how long and by whom they are asked."""

    recipe: Recipe
    ports: Ports
    cores: int
    bodies: list[Body]
    clients: int
    seconds: float

    @property
    def measuring_s(self) -> float:
        """How long a setting is asked."""
        return WARM_UP_S + (1 + LONE_SHARE) * self.seconds

    def measure(self, archive: Path, setting: Setting, progress: Progress) -> Row:
        """Serve `archive`, unpacked in a directory, as the setting says, and ask it. Raises ServerError."""
        with tempfile.TemporaryDirectory(prefix="marsmith-tune-") as scratch:
            served = variant(self.recipe, archive, setting, self.cores, Path(scratch) / f"{self.recipe.name}.mar")
            with Server([served], self.ports) as server:
                progress("starting TorchServe")
                server.start()
                server.wait_ready()
                progress("golden requests")
                outcomes = list(replay.on_server(served, self.ports.url))
                others = Others()
                progress(f"{self.clients} clients")
                path = f"/predictions/{self.recipe.name}"
                load = closed_loop(self.ports.first, path, self.bodies, self.clients, self.seconds, WARM_UP_S)
                memory_bytes = _memory(server.worker_pids(self.recipe.name))
                progress("1 client")
                lone = closed_loop(self.ports.first, path, self.bodies, 1, LONE_SHARE * self.seconds, 0)
                others_cores = others.cores()
        if not load.latencies_ms or not lone.latencies_ms:
            raise TuneError(
                f"No request was answered in time ({load.failed + lone.failed} failed): measure longer with --seconds."
            )
        return Row(
            setting,
            per_second=load.per_second,
            noise=load.noise,
            p50_ms=load.percentile(0.5),
            p95_ms=load.percentile(0.95),
            lone_p50_ms=lone.percentile(0.5),
            memory_bytes=memory_bytes,
            failed=load.failed + lone.failed + sum(not one.ok for one in outcomes),
            accuracy=accuracy(archive, outcomes),
            others=others_cores,
        )


def variant(recipe: Recipe, archive: Path, setting: Setting, cores: int, path: Path) -> Path:
    """Write, to `path`, the recipe's unpacked `archive` with the setting in place of the recipe's own."""
    files = {PurePosixPath(file.relative_to(archive)): file for file in archive.rglob("*") if file.is_file()}
    members: dict[PurePosixPath, mar.Source] = {
        name: file for name, file in files.items() if str(name) not in mar.SEALS
    }
    tuned = recipe.model_copy(update={"serving": serving(recipe.serving, setting, cores)})
    mar.write(path, members | {PurePosixPath(manifest.CONFIG_FILE): manifest.model_config(tuned)})
    return path


def serving(before: Serving, setting: Setting, cores: int) -> Serving:
    """A recipe's table with what a setting says; threads only where they are not what the thread plan gives."""
    planned = setting.threads == intra_op_threads(cores, setting.workers)
    return before.model_copy(
        update={
            "workers": setting.workers,
            "threads": None if planned else setting.threads,
            "batch_size": setting.batch_size,
            "max_batch_delay_ms": setting.max_batch_delay_ms,
        }
    )


def _memory(pids: Iterable[int]) -> int:
    """Proportional set size in bytes: what workers share, as mapped weights are, is counted once."""
    pss = 0
    for pid in pids:
        with contextlib.suppress(psutil.NoSuchProcess):
            pss += psutil.Process(pid).memory_full_info().pss
    return pss
