"""The rounds of one task: subjects start, are asked in turn, and stop."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.speed.agreement import Answer, agreement
from benchmarks.speed.in_process import NAME as PIPELINE
from benchmarks.speed.in_process import Pipeline
from benchmarks.speed.limit import ROOT
from benchmarks.speed.load import Outcome, Plan
from benchmarks.speed.memory import memory
from benchmarks.speed.results import Results, percentiles, summary
from benchmarks.speed.settings import Settings
from benchmarks.speed.subjects import BenchmarkError, Subject
from benchmarks.speed.torchserve import TorchServe
from marsmith.ground.progress import Progress

# Beyond what a loop itself takes: its last answers, and the generator's own start.
LOAD_MARGIN_S = 300.0
# No figure of a closed loop rests on fewer, and none on fewer than there are clients.
LEAST_ANSWERS = 8


@dataclass(frozen=True, slots=True)
class InputSet:
    """Files of one kind, what one answer needs in operations, and the checkpoint's answers."""

    name: str
    files: tuple[Path, ...]
    flops: float
    expected: tuple[Answer, ...]


class Rounds:
    """Subjects of one task, and what is measured of them. All rounds alternate between the subjects."""

    def __init__(self, subjects: Sequence[Subject], sets: Sequence[InputSet], settings: Settings) -> None:
        self.subjects = list(subjects)
        # Why baselines that did not start are no longer among the subjects.
        self.failed: dict[str, str] = {}
        self._sets = sets
        self._settings = settings
        self._probe = sets[0].files[0].read_bytes()

    def start(self, progress: Progress) -> dict[str, Results]:
        """Seconds until the first answer, and what another worker costs in memory; at the end all servers sleep.

        The starts of the settings have the machine alone, and the last one beside sleeping servers. `worker_s` counts
        from the start of TorchServe's worker process, `start_s` from the server's.
        """
        found: dict[str, Results] = {one.name: {"start_s": [], "worker_s": []} for one in self.subjects}
        turns = self._settings.starts
        for turn in range(turns + 1):
            for one in list(self.subjects):
                progress(f"{one.name}: start {turn + 1} of {turns + 1}")
                try:
                    self._start(one, found[one.name], with_memory=turns > 0 and turn == 0)
                except BenchmarkError as error:
                    if one.ours:
                        raise
                    progress(f"skipped: {error}")
                    self.failed[one.name] = str(error)
                    self.subjects.remove(one)
                    del found[one.name]
                    one.stop()
                else:
                    one.stop() if turn < turns else one.pause()
        for figures in found.values():
            for key in ("start_s", "worker_s"):
                figures[key] = summary(figures[key]) if figures[key] else None
        return found

    def _start(self, one: Subject, figures: Results, *, with_memory: bool) -> None:
        figures["start_s"].append(one.start(one.body(self._probe)))
        if isinstance(one, TorchServe) and (began := one.worker_start_s()):
            figures["worker_s"].append(time.time() - began)
        if with_memory:
            figures["memory"] = self._memory(one)

    def _memory(self, one: Subject) -> Results:
        """Bytes with one worker and with two, after both have worked, of a server that was set up for two."""
        one.stop()
        with one.set_up_for_several():
            one.start(one.body(self._probe))
            return self._memory_of_two(one)

    def _memory_of_two(self, one: Subject) -> Results:
        self._work(one)
        single = memory(one.processes())
        one.add_worker(one.body(self._probe))
        self._work(one)
        return {"one_worker": asdict(single), "further_worker": asdict(memory(one.processes()) - single)}

    def _work(self, one: Subject) -> None:
        self._closed(one, self._sets[0], max(self._settings.clients))

    def loads(self, chosen: InputSet, pipeline: Pipeline | None, progress: Progress) -> dict[str, Results]:
        """Throughput, latency and agreement on one set of inputs; all servers run, and only one of them may work."""
        found: dict[str, Results] = {one.name: {"closed": {}, "open": []} for one in self.subjects}
        outcomes: dict[str, list[Outcome]] = {one.name: [] for one in self.subjects}
        bound: list[float] = []
        for clients in self._settings.clients:
            measured: dict[str, list[Outcome]] = {one.name: [] for one in self.subjects}
            for turn in range(self._settings.rounds):
                for one in self.subjects:
                    progress(f"{chosen.name}, {clients} clients, round {turn + 1}: {one.name}")
                    with one.awake():
                        measured[one.name].append(self._closed(one, chosen, clients))
                if pipeline is not None and clients == max(self._settings.clients):
                    progress(f"{chosen.name}, round {turn + 1}: {PIPELINE}")
                    bound.append(pipeline.classify(chosen.files, self._settings.seconds).per_second)
            for name, ones in measured.items():
                found[name]["closed"][str(clients)] = _closed_figures(ones)
                outcomes[name] += ones
        for load in self._settings.loads:
            # What has no model is there for its peak alone.
            for one in (one for one in self.subjects if one.answers):
                busiest = found[one.name]["closed"][str(max(self._settings.clients))]
                if rate := load * busiest["per_second"]["median"]:
                    progress(f"{chosen.name}, {rate:.1f} requests/s: {one.name}")
                    with one.awake():
                        outcome = self._open(one, chosen, rate)
                    outcomes[one.name].append(outcome)
                    found[one.name]["open"].append({"load": load, "rate": rate, **_open_figures(outcome)})
        for one in self.subjects:
            found[one.name]["agreement"] = _agreement(one, chosen, outcomes[one.name])
        return found | ({PIPELINE: {"in_process": {"per_second": summary(bound)}}} if bound else {})

    def _closed(self, one: Subject, chosen: InputSet, clients: int) -> Outcome:
        return self._load(one, self._plan(one, chosen, self._settings.seconds, clients=clients))

    def _open(self, one: Subject, chosen: InputSet, rate: float) -> Outcome:
        return self._load(one, self._plan(one, chosen, self._settings.open_seconds, rate=rate))

    def _plan(self, one: Subject, chosen: InputSet, seconds: float, *, clients: int = 0, rate: float = 0) -> Plan:
        return Plan(
            port=one.job.port,
            path=one.path,
            content_type=one.content_type(),
            bodies=bodies(one, chosen),
            mode="closed" if clients else "open",
            seconds=seconds,
            warm_up_s=self._settings.warm_up_s,
            clients=clients,
            rate=rate,
            least=max(LEAST_ANSWERS, clients),
        )

    def _load(self, one: Subject, plan: Plan) -> Outcome:
        """Let the load generator carry out a plan."""
        plan_file, outcome_file = one.home / "plan.json", one.home / "outcome.json"
        plan_file.write_text(json.dumps(asdict(plan)), encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.speed.load", str(plan_file), str(outcome_file)]
        limit_s = plan.warm_up_s + plan.seconds + LOAD_MARGIN_S
        try:
            subprocess.run(command, cwd=ROOT, check=True, timeout=limit_s)  # noqa: S603 - our own command line
        except subprocess.SubprocessError as error:
            raise BenchmarkError(f"The load on {one.name} broke off: {error}") from None
        return Outcome(**json.loads(outcome_file.read_text(encoding="utf-8")))


def bodies(one: Subject, chosen: InputSet) -> list[str]:
    """The files of a subject's requests, written once."""
    directory = one.home / "bodies" / chosen.name.replace(" ", "-")
    directory.mkdir(parents=True, exist_ok=True)
    named = [directory / f"{index}.bin" for index in range(len(chosen.files))]
    for file, body in zip(chosen.files, named, strict=True):
        if not body.exists():
            body.write_bytes(one.body(file.read_bytes()))
    return [str(body) for body in named]


def _closed_figures(measured: Sequence[Outcome]) -> Results:
    latencies = [percentiles(one.latencies_ms) for one in measured]
    named: Mapping[str, list[float]] = {key: [one[key] for one in latencies if one] for key in ("p50", "p95", "p99")}
    return {
        "per_second": summary([one.per_second for one in measured]),
        "latency_ms": {key: summary(values) for key, values in named.items() if values},
        "failed": sum(one.failed for one in measured),
    }


def _open_figures(measured: Outcome) -> Results:
    return {"failed": measured.failed, "latency_ms": percentiles(measured.latencies_ms)}


def _agreement(one: Subject, chosen: InputSet, outcomes: Sequence[Outcome]) -> Results | None:
    """Every answer of the loads compared with the checkpoint's; one that cannot be read is a wrong one."""
    if not one.answers:
        return None
    read: list[tuple[int, Answer]] = []
    for outcome in outcomes:
        for index, raw in outcome.answers:
            try:
                read.append((index, one.answer(raw)))
            except (ValueError, KeyError, TypeError, IndexError):
                read.append((index, Answer("", {})))
    found = agreement(chosen.expected, read)
    return {**asdict(found), "ok": found.ok}
