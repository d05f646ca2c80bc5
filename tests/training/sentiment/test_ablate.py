"""The ablation: the same steps in fresh processes, compared with the baseline, and what to make of it."""

import dataclasses
import io
from typing import Any

import pytest
from rich.console import Console

from tests.training.sentiment.conftest import QUICK
from training.errors import TrainingError
from training.sentiment import ablate
from training.sentiment.advice import advice
from training.sentiment.run import Sources
from training.sentiment.show import variants

WARM_UP, STEPS = 1, 2


def plan(sources: Sources, **changes: Any) -> ablate.Measurement:
    measured = ablate.Measurement(sources.base, sources.train, STEPS, WARM_UP, rounds=1, mend=False)
    return dataclasses.replace(measured, **changes)


@pytest.mark.slow
def test_variants_run_the_same_steps_and_are_compared_with_the_baseline(
    sources: Sources, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {name: ablate.CHANGES[name] for name in ("baseline", "+fused")}  # compiling takes a minute
    monkeypatch.setattr(ablate, "CHANGES", some)
    result = ablate.ablate(plan(sources), QUICK, console)
    baseline, fused = result["variants"].values()
    assert (baseline["speed_up"], list(result["variants"])) == (1.0, ["baseline", "+fused"])
    assert fused["speed_up"] == pytest.approx(fused["steps_per_second"] / baseline["steps_per_second"])
    assert baseline["samples_per_second"] == pytest.approx(baseline["steps_per_second"] * QUICK.batch)
    assert fused["final_loss"] == pytest.approx(baseline["final_loss"], rel=1e-4)
    assert all(one["peak_bytes"] > 50e6 for one in (baseline, fused))
    assert result["hardware"]["cores"] >= 1


@pytest.mark.slow
def test_a_run_that_fails_is_one_sentence(sources: Sources, console: Console) -> None:
    with pytest.raises(TrainingError, match=r"^There is no file nowhere\.tsv: [^\n]*$"):
        ablate.ablate(plan(sources, train="nowhere.tsv"), QUICK, console)


def test_rounds_are_interleaved_and_figures_are_their_medians(
    sources: Sources, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def measure(_: object, settings: Any) -> dict[str, float]:
        asked.append((settings.torch_compile, settings.bf16, settings.optim))
        return dict.fromkeys(("steps_per_second", "final_loss"), float(len(asked)))

    monkeypatch.setattr(ablate, "measure", measure)
    result = ablate.ablate(plan(sources, rounds=3), QUICK, console)
    once = [
        (False, False, "adamw_torch"),
        (True, False, "adamw_torch"),
        (False, True, "adamw_torch"),
        (False, False, "adamw_torch_fused"),
        (True, True, "adamw_torch_fused"),
    ]
    assert asked == once * 3
    assert result["variants"]["baseline"]["steps_per_second"] == 6
    assert result["variants"]["all"]["speed_up"] == pytest.approx(10 / 6)


def measured(
    compiled: float, warm_up: float, features: list[str], gpus: list[str], load: float = 0.0
) -> dict[str, Any]:
    def one(speed: float, seconds: float) -> dict[str, float]:
        figures = {"samples_per_second": speed, "cpu_seconds_per_step": 1.0, "peak_bytes": 5e8, "final_loss": 1.0}
        return {"steps_per_second": speed, "speed_up": speed / 2, "warm_up_seconds": seconds, **figures}

    return {
        "variants": {
            "baseline": one(2.0, 5.0),
            "+compile": one(compiled, warm_up),
            "+bf16": one(1.0, 5.0),
            "+fused": one(2.1, 5.0),
            "all": one(2.0, 5.0),
        },
        "hardware": {"features": features, "gpus": gpus, "cores": 2},
        "load_average": load,
    }


@pytest.mark.parametrize(
    ("compiled", "warm_up", "says"),
    [
        (4.0, 30.0, "Measured: 100% faster, 0% more work for the CPU; compiling cost 25 s, won back after 100 steps."),
        (
            1.0,
            30.0,
            "Measured: 50% slower, 0% more work for the CPU; compiling cost 25 s, which no number of steps wins back.",
        ),
        (4.0, 5.0, "compiling cost no time."),
    ],
)
def test_compiling_is_weighed_against_its_cost(compiled: float, warm_up: float, says: str) -> None:
    assert says in advice(measured(compiled, warm_up, [], []))[0]


@pytest.mark.parametrize(
    ("features", "says"),
    [
        ([], "no bf16 arithmetic"),
        (["avx512f"], "no bf16 arithmetic"),
        (["avx512_bf16"], "itself (avx512_bf16)"),
        (["amx_bf16"], "twice as fast or more"),
    ],
)
def test_bf16_is_judged_by_what_the_cpu_has(features: list[str], says: str) -> None:
    words = advice(measured(2.0, 5.0, features, []))[1]
    assert says in words
    assert words.endswith("Measured: 50% slower, 0% more work for the CPU.")


def test_a_busy_machine_is_said() -> None:
    assert len(advice(measured(2.0, 5.0, [], [], load=0.9))) == 3
    assert "busy (load 1.5 on 2 cores)" in advice(measured(2.0, 5.0, [], [], load=1.5))[3]


def test_a_gpu_is_named() -> None:
    words = advice(measured(2.0, 5.0, [], ["Tesla"]))
    assert "Tesla" in words[1]
    assert not any("CPU" in one for one in words)


def test_the_table_names_every_variant_and_its_speed_up() -> None:
    console = Console(width=140, record=True, file=io.StringIO())
    console.print(variants(measured(4.0, 30.0, [], [])))
    text = console.export_text()
    assert [name for name in ("baseline", "+compile", "+bf16", "+fused", "all") if name in text] == list(ablate.CHANGES)
    assert "2.00x" in text
