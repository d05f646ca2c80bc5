"""`marsmith tune`: build one archive for each precision, and measure it in the settings that are worth trying."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from marsmith.builder import build
from marsmith.errors import MarsmithError, TuneError
from marsmith.mar.reader import extract_archive
from marsmith.recipe.members import NO_CHECKPOINT
from marsmith.recipe.recipe import Recipe
from marsmith.tune.edit import edited
from marsmith.tune.measure import Bench, Row, serving
from marsmith.tune.recommend import eligible
from marsmith.tune.schedule import Schedule, Show
from marsmith.tune.setting import BEST, Choices, Setting

# The environment is stronger than an archive's configuration: with this every setting would have the same threads.
THREADS_VARIABLE = "MARSMITH_THREADS"


@dataclass(frozen=True, slots=True)
class Refusal:
    """What was not measured, and why."""

    what: str
    reason: str


@dataclass(slots=True)
class Tuning:
    """One run. `rows` and `refused` grow while it goes on, so that an interrupted run has them too."""

    recipe: Recipe
    file: Path
    choices: Choices
    bench: Bench
    rows: list[Row] = field(default_factory=list)
    refused: list[Refusal] = field(default_factory=list)

    def run(self, schedule: Schedule) -> None:
        """Build and measure. Raises MarsmithError for what stops every setting."""
        with tempfile.TemporaryDirectory(prefix="marsmith-tune-") as scratch:
            self.explore(self._build(Path(scratch), schedule), schedule)

    def explore(self, archives: dict[str, Path], schedule: Schedule) -> None:
        """Measure, in three rounds, the archives that lie unpacked in a directory for each precision."""
        first = [one for one in self.choices.first(self.recipe) if one.precision in archives]
        self._measure(first, archives, schedule)
        for vary in (self.choices.batches, self.choices.delays):
            best = [row.setting for row in eligible(self.rows)[:BEST]]
            self._measure([new for one in best for new in vary(one)], archives, schedule)

    def schedule(self, show: Show) -> Schedule:
        """The steps to come."""
        return Schedule(len(self.choices.precisions), self.choices.most(self.recipe), self.bench.measuring_s, show)

    def check(self) -> None:
        """Raise MarsmithError for what can be known before anything is built."""
        if THREADS_VARIABLE in os.environ:
            raise TuneError(f"{THREADS_VARIABLE} is set, and would overrule every setting: unset it.")
        self.choices.plans()
        if self.bench.clients > (queue := self.recipe.serving.job_queue_size):
            raise TuneError(
                f"--clients {self.bench.clients} are more than the {queue} requests of the recipe's job_queue_size, "
                "and the others would be answered 503: ask by fewer, or raise job_queue_size."
            )
        self.bench.ports.check_free()

    def with_setting(self, setting: Setting) -> Recipe:
        """The recipe as it reads with a setting in it. Raises RecipeError."""
        table = serving(self.recipe.serving, setting, self.choices.cores)
        return edited(self.recipe, self.file, self._with_precision(setting.precision, serving=table))

    def _with_precision(self, precision: str, **changes: object) -> Recipe:
        known = {} if precision == NO_CHECKPOINT else {"precision": precision}
        return self.recipe.model_copy(update=changes | known)

    def _build(self, scratch: Path, schedule: Schedule) -> dict[str, Path]:
        """The unpacked archive of each precision; one whose build is refused is left out."""
        archives: dict[str, Path] = {}
        error: MarsmithError | None = None
        for precision in self.choices.precisions:
            with schedule.step("build", f"building {precision}") as progress:
                try:
                    recipe = edited(self.recipe, self.file, self._with_precision(precision))
                    built = build(recipe, scratch / "store", progress)
                except MarsmithError as refusal:
                    error = refusal
                    self.refused.append(Refusal(precision, str(refusal)))
                    continue
                archives[precision] = scratch / precision
                extract_archive(built.path, archives[precision])
                built.path.unlink()
        if not archives and error:
            raise error
        return archives

    def _measure(self, settings: list[Setting], archives: dict[str, Path], schedule: Schedule) -> None:
        """Measure each setting that was not yet. One that does not start is refused, unless it is the first of all."""
        done = {row.setting for row in self.rows}
        new = [one for one in dict.fromkeys(settings) if one not in done]
        schedule.begin_round(len(new))
        for setting in new:
            with schedule.step("setting", str(setting)) as progress:
                try:
                    archive, first = archives[setting.precision], not self.rows
                    self.rows.append(self.bench.measure(archive, setting, progress, first=first))
                except MarsmithError as refusal:
                    if not self.rows:
                        raise
                    self.refused.append(Refusal(str(setting), str(refusal)))
