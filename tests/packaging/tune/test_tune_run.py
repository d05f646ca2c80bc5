"""The rounds of a run: what is measured, in which order, and what becomes of what cannot be."""

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from marsmith.errors import MarsmithError, ServerError, TuneError
from marsmith.ground.progress import Progress
from marsmith.recipe.recipe import Recipe
from marsmith.tune.inputs import Inputs
from marsmith.tune.measure import Bench, Row
from marsmith.tune.run import Tuning
from marsmith.tune.schedule import Schedule
from marsmith.tune.setting import Choices, Setting
from tests.packaging.ports import free_ports
from tests.packaging.tune.rows import row
from tests.tiny import write_recipe

TEXT = Inputs([(b"good", "text/plain")], ["Line 1"], "1 text")
ARCHIVES = {"fp32": Path("fp32"), "int8": Path("int8")}


@dataclass(frozen=True, slots=True)
class MadeUp(Bench):
    """Serves nothing: int8 is fast, batches of 8 are best, and each millisecond of delay costs a lone request one."""

    faults: dict[int, MarsmithError] = field(default_factory=dict)
    firsts: list[bool] = field(default_factory=list)

    def measure(self, archive: Path, setting: Setting, progress: Progress, *, first: bool) -> Row:
        self.firsts.append(first)
        assert archive == ARCHIVES[setting.precision]
        progress("pretending")
        if fault := self.faults.get(setting.workers):
            raise fault
        speed = {"fp32": 100, "int8": 200}[setting.precision] - abs(setting.batch_size - 8) + setting.workers
        wait = setting.max_batch_delay_ms if setting.batch_size > 1 else 0
        return row(setting, per_second=float(speed), noise=0.1, lone_p50_ms=20.0 + wait)


def tuning(directory: Path, faults: dict[int, MarsmithError] | None = None, **changes: object) -> Tuning:
    file = write_recipe(directory, serving={"batch_size": 16, "max_batch_delay_ms": 3})
    recipe = Recipe.load(file)
    choices = Choices(2, ("fp32", "int8"), (1, 2), batch_sizes=(1, 8, 16), delays_ms=(1, 5))
    bench = MadeUp(recipe, free_ports(), 2, TEXT, clients=2, seconds=1.0, faults=faults or {})
    return Tuning(recipe, file, replace(choices, **changes), bench)  # type: ignore[arg-type] # of any key


def explore(run: Tuning) -> list[tuple[str, float, float]]:
    """Let it run, and return what it showed."""
    shown: list[tuple[str, float, float]] = []
    run.explore(ARCHIVES, run.schedule(lambda *one: shown.append(one)))
    return shown


def keys(run: Tuning) -> list[tuple[str, int, int, int]]:
    settings = [one.setting for one in run.rows]
    return [(one.precision, one.workers, one.batch_size, one.max_batch_delay_ms) for one in settings]


def test_batches_are_varied_for_the_best_two_and_delays_for_the_best_of_those(tmp_path: Path) -> None:
    run = tuning(tmp_path)
    explore(run)
    assert keys(run) == [
        *[("fp32", 1, 16, 3), ("fp32", 1, 16, 1), ("fp32", 2, 16, 1), ("int8", 1, 16, 1), ("int8", 2, 16, 1)],
        *[("int8", 2, 1, 1), ("int8", 2, 8, 1), ("int8", 1, 1, 1), ("int8", 1, 8, 1)],
        *[("int8", 2, 8, 5), ("int8", 1, 8, 5)],
    ]


def test_a_setting_that_does_not_start_is_left_out(tmp_path: Path) -> None:
    run = tuning(tmp_path, {2: ServerError("A worker could not load its model: no memory")})
    explore(run)
    assert {one.setting.workers for one in run.rows} == {1}
    assert {one.reason for one in run.refused} == {"A worker could not load its model: no memory"}
    assert all(", 2 x 1 threads, " in one.what for one in run.refused)


def test_what_stops_the_first_stops_the_run(tmp_path: Path) -> None:
    run = tuning(tmp_path, {1: ServerError("no Java")})
    with pytest.raises(ServerError, match="no Java"):
        explore(run)


def test_the_time_that_is_left_ends_at_nothing(tmp_path: Path) -> None:
    run = tuning(tmp_path)
    schedule = Schedule(0, run.choices.most(run.recipe), 5.0, lambda *_: None)
    assert schedule.left_s > 0
    run.explore(ARCHIVES, schedule)
    assert schedule.left_s == 0
    whats = [what for what, _, _ in explore(tuning(tmp_path))]
    assert whats[1] == "fp32, 1 x 2 threads, batches of 16, 3 ms: pretending"


def test_a_precision_whose_build_is_refused_is_left_out_unless_it_is_the_only_one(tmp_path: Path) -> None:
    run = tuning(tmp_path, precisions=("fp32",))
    with pytest.raises(MarsmithError, match="checkpoint"):  # the directory holds none
        run.run(run.schedule(lambda *_: None))
    assert [one.what for one in run.refused] == ["fp32"]


def test_an_environment_that_overrules_the_threads_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARSMITH_THREADS", "1")
    with pytest.raises(TuneError, match="MARSMITH_THREADS is set, and would overrule every setting: unset it"):
        tuning(tmp_path).check()


def test_only_the_first_setting_is_asked_every_input(tmp_path: Path) -> None:
    run = tuning(tmp_path, precisions=("fp32",), workers=(1,))
    explore(run)
    assert isinstance(run.bench, MadeUp)
    assert run.bench.firsts == [True] + [False] * (len(run.rows) - 1)


def test_more_clients_than_may_wait_are_refused_before_anything_is_built(tmp_path: Path) -> None:
    run = tuning(tmp_path)
    queue = run.recipe.serving.job_queue_size
    replace(run, bench=replace(run.bench, clients=queue)).check()
    with pytest.raises(TuneError, match=f"--clients {queue + 1} are more than the {queue} requests .*job_queue_size"):
        replace(run, bench=replace(run.bench, clients=queue + 1)).check()


def test_the_recipe_with_a_setting_says_threads_only_where_they_are_not_the_plans(tmp_path: Path) -> None:
    run = tuning(tmp_path)
    said = run.with_setting(Setting("fp32", workers=2, threads=1, batch_size=8, max_batch_delay_ms=3)).serving
    assert (said.workers, said.threads, said.batch_size, said.max_batch_delay_ms) == (2, None, 8, 3)
    assert run.with_setting(Setting("fp32", 1, 1, 8, 3)).serving.threads == 1
