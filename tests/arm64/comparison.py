"""How far the answers of an emulated CPU are from x86-64's."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.table import Table

from marsmith.ground.files import atomic
from tests.arm64.archives import Archive, scores
from tests.arm64.drive import Run


@dataclass(frozen=True, slots=True)
class Comparison:
    """One archive on one CPU: `max_difference` is the largest of any label's probability, for any request.

    `network` says how many of the starter's layers it has.
    """

    starter: str
    precision: str
    network: str
    cpu: str
    requests: int
    labels_alike: int
    max_difference: float


def answers(runs: Iterable[Run], cpu: str, archive: str) -> dict[str, Any]:
    """What an archive answered on a CPU, by the names of its requests."""
    (found,) = (run.answers[archive] for run in runs if run.cpu == cpu and archive in run.answers)
    return found


def compare(archive: Archive, runs: Iterable[Run], cpu: str) -> Comparison:
    """Raises KeyError and TypeError where a request was not answered."""
    answered = answers(runs, cpu, archive.name)
    alike, difference = 0, 0.0
    for name, body in archive.answers.items():
        expected, got = scores(body), scores(answered[name])
        assert expected.keys() == got.keys()
        alike += max(expected, key=expected.__getitem__) == max(got, key=got.__getitem__)
        difference = max(difference, *(abs(expected[label] - got[label]) for label in expected))
    return Comparison(archive.starter, archive.precision, archive.network, cpu, len(archive.answers), alike, difference)


def table(found: Iterable[Comparison]) -> Table:
    """The figures, a line for each archive and CPU."""
    shown = Table(
        "model",
        "precision",
        "network",
        "QEMU_CPU",
        "requests",
        "labels as on x86-64",
        "largest change of a probability",
    )
    for one in found:
        shown.add_row(
            one.starter,
            one.precision,
            one.network,
            one.cpu,
            f"{one.requests}",
            f"{one.labels_alike}",
            f"{one.max_difference:.1e}",
        )
    return shown


def write(file: Path, found: Sequence[Comparison], runs: Sequence[Run], size: str) -> None:
    """Store what was seen as JSON."""
    report = {
        "image": size,
        "runs": [
            {
                "cpu": run.cpu,
                "archives": run.way,
                "ready_s": round(run.ready_s, 1),
                "stop_s": round(run.stop_s, 1),
                "exit_code": run.exit_code,
                "unanswered_at_stop": run.unanswered,
            }
            for run in runs
        ],
        "comparisons": [asdict(one) for one in found],
    }
    with atomic(file) as stream:
        stream.write((json.dumps(report, indent=2) + "\n").encode("utf-8"))
