"""Measure one setting: the archive with another model-config.yaml, behind a real TorchServe."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import psutil

from marsmith.errors import TuneError
from marsmith.evidence import replay
from marsmith.ground.cores import intra_op_threads
from marsmith.ground.progress import Progress
from marsmith.load.loops import NO_ANSWER
from marsmith.mar.members import CONFIG, SEALS, Source
from marsmith.mar.writer import write_archive
from marsmith.recipe import manifest
from marsmith.recipe.recipe import Recipe, Serving
from marsmith.rest.client import Client
from marsmith.torchserve.configuration import Ports
from marsmith.torchserve.server import Server
from marsmith.tune.accuracy import Accuracy, accuracy
from marsmith.tune.inputs import Inputs
from marsmith.tune.load import Load, measured
from marsmith.tune.others import Others
from marsmith.tune.setting import Setting

# Not measured: connections open, and the Java VM compiles what it runs often.
WARM_UP_S = 1.0
# One client needs less time than many to say what a request takes, but some answers.
LONE_SHARE = 0.5
LONE_LEAST = 5
# Of fewer batches, one more or less in the window would show.
LEAST_BATCHES = 2
WRONG = "wrong golden answer"


@dataclass(frozen=True, slots=True)
class Row:
    """What was measured of a setting.

    `per_second` (give or take `noise`), `p50_ms` and `p95_ms` are those of many clients, `lone_p50_ms` that of one.
    `memory_bytes` is the workers' proportional set size, `failures` counts the requests without an answer by status,
    and golden requests with a wrong one. `others` is how many cores were busy with other work meanwhile.
    """

    setting: Setting
    per_second: float
    noise: float
    p50_ms: float
    p95_ms: float
    lone_p50_ms: float
    memory_bytes: int
    failures: Mapping[str, int]
    accuracy: Accuracy
    others: float

    @property
    def failed(self) -> int:
        """How many requests failed."""
        return sum(self.failures.values())


@dataclass(frozen=True, slots=True)
class Bench:
    """What all settings have in common: where they are served, and how long and by whom they are asked."""

    recipe: Recipe
    ports: Ports
    cores: int
    inputs: Inputs
    clients: int
    seconds: float

    @property
    def measuring_s(self) -> float:
        """How long a setting is asked."""
        return WARM_UP_S + (1 + LONE_SHARE) * self.seconds

    def measure(self, archive: Path, setting: Setting, progress: Progress, *, first: bool) -> Row:
        """Serve `archive`, unpacked in a directory, as the setting says, and ask it.

        The first of all settings is asked every input once before. Raises ServerError, and TuneError for an input that
        is refused, for a worker that ended, and when nothing was answered.
        """
        with tempfile.TemporaryDirectory(prefix="marsmith-tune-") as scratch:
            served = variant(self.recipe, archive, setting, self.cores, Path(scratch) / f"{self.recipe.name}.mar")
            with Server([served], self.ports) as server:
                progress("starting TorchServe")
                server.start()
                server.wait_ready()
                progress("golden requests")
                outcomes = list(replay.on_server(served, self.ports.url))
                if first:
                    progress("every input once")
                    self.inputs.check(Client(self.ports.url), self.recipe.name, self.clients)
                others = Others()
                progress(f"{self.clients} clients")
                least = LEAST_BATCHES * setting.batch_size * setting.workers
                load = self._load(self.clients, self.seconds, WARM_UP_S, least)
                memory_bytes = memory(server.worker_pids(self.recipe.name), setting.workers)
                progress("1 client")
                lone = self._load(1, LONE_SHARE * self.seconds, 0, LONE_LEAST)
                others_cores = others.cores()
        failures = failures_of(outcomes, load, lone)
        return Row(
            setting,
            per_second=load.per_second,
            noise=load.noise,
            p50_ms=load.percentile(0.5),
            p95_ms=load.percentile(0.95),
            lone_p50_ms=lone.percentile(0.5),
            memory_bytes=memory_bytes,
            failures=failures,
            accuracy=accuracy(archive, outcomes),
            others=others_cores,
        )

    def _load(self, clients: int, seconds: float, warm_up_s: float, least: int) -> Load:
        path = f"/predictions/{self.recipe.name}"
        return measured(self.ports.first, path, self.inputs.bodies, clients, seconds, warm_up_s, least)


def failures_of(outcomes: Sequence[replay.Outcome], *loads: Load) -> dict[str, int]:
    """How many requests failed of each kind. Raises TuneError where a load has no answer at all."""
    found = Counter(WRONG if one.prediction.ok else _kind(one.prediction.status) for one in outcomes if not one.ok)
    for load in loads:
        found.update({_kind(status): count for status, count in load.statuses.items()})
    if all(load.latencies_ms for load in loads):
        return dict(found)
    if found:
        raise TuneError(f"No request was answered rightly ({told(found)}): ask it with marsmith predict to see why.")
    raise TuneError("No request was answered in time: measure longer with --seconds.")


def told(failures: Mapping[str, int]) -> str:
    """Failures in words, as in `413: 3`."""
    return ", ".join(f"{kind}: {count}" for kind, count in sorted(failures.items()))


def _kind(status: int) -> str:
    return "no answer" if status == NO_ANSWER else str(status)


def variant(recipe: Recipe, archive: Path, setting: Setting, cores: int, path: Path) -> Path:
    """Write, to `path`, the recipe's unpacked `archive` with the setting in place of the recipe's own."""
    files = {PurePosixPath(file.relative_to(archive)): file for file in archive.rglob("*") if file.is_file()}
    members: dict[PurePosixPath, Source] = {name: file for name, file in files.items() if str(name) not in SEALS}
    tuned = recipe.model_copy(update={"serving": serving(recipe.serving, setting, cores)})
    write_archive(path, members | {PurePosixPath(CONFIG): manifest.model_config(tuned)})
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


def memory(pids: Iterable[int], workers: int) -> int:
    """Proportional set size in bytes: what workers share, as mapped weights are, is counted once.

    Raises TuneError when that is not of all `workers`.
    """
    try:
        sizes = [psutil.Process(pid).memory_full_info().pss for pid in pids]
    except psutil.NoSuchProcess:
        sizes = []
    if len(sizes) < workers:
        raise TuneError("A worker ended while it was measured: its log in marsmith serve says why.")
    return sum(sizes)
