"""One run: checkpoints, inputs, subjects and all that is measured of them."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.machine import hardware, load_average, versions
from benchmarks.speed import checkpoints, in_process, inputs, roster
from benchmarks.speed.limit import peaks
from benchmarks.speed.ours import Marsmith
from benchmarks.speed.results import FORMAT, Results, placeless
from benchmarks.speed.rounds import InputSet, Rounds
from benchmarks.speed.settings import Settings
from benchmarks.speed.subjects import BenchmarkError, Job, Subject, Task, stopped_at_last
from benchmarks.speed.torchserve import TorchServe
from marsmith.errors import ServerError
from marsmith.ground.progress import Progress
from marsmith.torchserve.configuration import Ports

# Above what tests and the other benchmark use.
FIRST_PORT = 19_400
LAST_PORT = 20_000
PORTS_EACH = 5


def measure(
    tasks: Sequence[Task],
    names: Sequence[str],
    settings: Settings,
    home: Path,
    pythons: Mapping[str, Path],
    progress: Progress,
) -> Results:
    """Everything about `tasks` and the subjects `names`. Scratch files stay below `home`."""
    progress("measuring the limit")
    results: Results = {
        "format": FORMAT,
        "machine": hardware(),
        "versions": versions(Path(sys.executable)),
        "settings": asdict(settings),
        "limit": peaks(settings.threads),
        "tasks": {},
    }
    for task in tasks:
        results["tasks"][task] = _task(task, list(names), settings, home / task, pythons, progress)
    results["machine"]["load_average"]["end"] = load_average()
    return results


def _task(
    task: Task,
    names: list[str],
    settings: Settings,
    home: Path,
    pythons: Mapping[str, Path],
    progress: Progress,
) -> Results:
    progress(f"{task}: making the checkpoint and the inputs")
    checkpoint = _checkpoint(task, home / "checkpoint", settings)
    files = _inputs(task, checkpoint, home / "inputs", settings)
    reference = Job(task, checkpoint, home / "pipeline", 0, settings.threads, settings.batch_size, settings.delay_ms)
    with in_process.Pipeline(reference) as pipeline:
        progress(f"{task}: asking the checkpoint itself")
        sets = [InputSet(name, paths, flops, tuple(pipeline.classify(paths).answers)) for name, paths, flops in files]
        subjects, skipped = _subjects(task, names, reference, home, pythons, progress)
        with stopped_at_last(subjects):
            rounds = Rounds(subjects, sets, settings)
            starts = rounds.start(progress)
            facts = {one.name: {**_facts(one), **starts[one.name]} for one in rounds.subjects}
            bound = pipeline if in_process.NAME in names else None
            speeds = {
                chosen.name: {"flops": chosen.flops, "subjects": rounds.loads(chosen, bound, progress)}
                for chosen in sets
            }
    found: Results = {
        "subjects": facts,
        "skipped": {name: placeless(why) for name, why in (skipped | rounds.failed).items()},
        "sets": speeds,
    }
    if in_process.NAME in names:
        found["subjects"][in_process.NAME] = {"title": in_process.TITLE, "versions": versions(Path(sys.executable))}
    return found


def _checkpoint(task: Task, directory: Path, settings: Settings) -> Path:
    """The random checkpoint; one that is there already is of the same shape, for `home` is the run's own."""
    if (directory / "model.safetensors").is_file():
        return directory
    directory.mkdir(parents=True, exist_ok=True)
    if task == "sentiment":
        return checkpoints.text_checkpoint(directory, settings.text)
    return checkpoints.image_checkpoint(directory, settings.image)


def _inputs(
    task: Task, checkpoint: Path, directory: Path, settings: Settings
) -> list[tuple[str, tuple[Path, ...], float]]:
    """The sets of inputs: name, files and operations of an answer."""
    if task == "sentiment":
        from tokenizers import Tokenizer

        texts = inputs.texts(Tokenizer.from_file(str(checkpoint / "tokenizer.json")))
        flops = sum(settings.text.flops(tokens) for tokens in inputs.TWEET_TOKENS) / len(inputs.TWEET_TOKENS)
        return [("tweets", _write(directory / "tweets", (text.encode("utf-8") for text in texts), ".txt"), flops)]
    small = _write(directory / "small", inputs.thumbnails(), ".jpg")
    large = _write(directory / "large", inputs.phone_photos(settings.phone_photos, settings.photo_sides), ".jpg")
    return [("224 px photos", small, settings.image.flops()), ("12 MP photos", large, settings.image.flops())]


def _write(directory: Path, contents: Iterable[bytes], suffix: str) -> tuple[Path, ...]:
    directory.mkdir(parents=True, exist_ok=True)
    files = []
    for index, content in enumerate(contents):
        file = directory / f"{index}{suffix}"
        file.write_bytes(content)
        files.append(file)
    return tuple(files)


def _subjects(
    task: Task,
    names: list[str],
    common: Job,
    home: Path,
    pythons: Mapping[str, Path],
    progress: Progress,
) -> tuple[list[Subject], dict[str, str]]:
    """The subjects of a task, ready to start, and why others are not among them."""
    ready: list[Subject] = []
    skipped: dict[str, str] = {}
    ports = free_ports()
    for name in roster.servers(names, task):
        directory = home / name.replace(":", "-")
        directory.mkdir(parents=True, exist_ok=True)
        job = replace(common, home=directory, port=next(ports))
        try:
            one = roster.subject(name, job, pythons)
            progress(f"{name}: preparing")
            one.prepare()
        except BenchmarkError as error:
            if name.partition(":")[0] == roster.OURS:
                raise
            skipped[name] = str(error)
            progress(f"skipped: {error}")
        else:
            ready.append(one)
    if not ready:
        raise BenchmarkError(f"None of {', '.join(names)} can serve {task} here: {' '.join(skipped.values())}")
    return ready, skipped


def free_ports() -> Iterator[int]:
    """The first of every five ports in a row that nobody listens on. Raises BenchmarkError when there are no more."""
    for first in range(FIRST_PORT, LAST_PORT, PORTS_EACH):
        try:
            Ports(first).check_free()
        except ServerError:
            continue
        yield first
    raise BenchmarkError(f"No ports are free from {FIRST_PORT} to {LAST_PORT}: stop what listens there.")


def _facts(one: Subject) -> Results:
    facts: Results = {"title": one.title, "versions": versions(one.python)}
    if isinstance(one, TorchServe):
        facts |= {"pack_s": one.pack_s, "archive_bytes": one.archive.stat().st_size}
    if isinstance(one, Marsmith) and (accuracy := one.accuracy()):
        facts["accuracy"] = accuracy
    return facts
