import pytest

from tests.training.bottleneck.made_up import facts, findings
from training.bottleneck.advice import Findings, advise, fitting_workers
from training.bottleneck.records import RunFacts


def rules(found: Findings) -> list[str]:
    return [advice.rule for advice in advise(found)]


def test_a_run_that_passes_no_threshold_is_balanced() -> None:
    (advice,) = advise(findings())
    assert advice.rule == "balanced"
    assert advice.seen == "No phase passes its threshold; forward is the largest with 30% of the step."


@pytest.mark.parametrize(("share", "expected"), [(0.099, ["balanced"]), (0.10, ["data loader starves"])])
def test_the_loader_starves_from_a_tenth_of_the_step(share: float, expected: list[str]) -> None:
    assert rules(findings({"data": share})) == expected


@pytest.mark.parametrize(
    ("workers", "change"),
    [
        (0, "Use 7 loader workers a rank."),
        (6, "Use 7 loader workers a rank."),
        (7, "Make loading cheaper: store smaller photos, decode at a fraction of the size, augment in batches."),
    ],
)
def test_a_starving_loader_gets_the_cores_that_are_there_and_then_less_work(workers: int, change: str) -> None:
    (advice,) = advise(findings({"data": 0.5}, facts=facts(workers=workers)))
    assert advice.change == change
    assert "50%" in advice.seen
    assert f"{workers} loader workers" in advice.seen


def test_a_starving_loader_is_found_without_facts_too() -> None:
    (advice,) = advise(findings({"data": 0.5}, facts=None))
    assert "idle cores" in advice.change


@pytest.mark.parametrize(
    ("workers", "use", "expected"),
    [
        (9, 0.90, ["too many workers for the cores"]),
        (9, None, ["too many workers for the cores"]),
        (9, 0.89, ["balanced"]),
        (8, 1.0, ["balanced"]),
    ],
)
def test_workers_are_too_many_beyond_the_cores_that_are_busy(
    workers: int, use: float | None, expected: list[str]
) -> None:
    assert rules(findings(facts=facts(workers=workers), cores_use=use)) == expected


def test_workers_of_all_ranks_share_the_cores() -> None:
    (advice,) = advise(findings(facts=facts(workers=3, ranks=4), cores_use=0.95))
    assert advice.seen == "12 loader workers share 8 cores (95% busy) with the training itself."
    assert advice.change == "Use 1 loader worker a rank, and more only while the step gets faster."


@pytest.mark.parametrize(("cores", "ranks", "expected"), [(8, 1, 7), (8, 2, 3), (2, 1, 1), (1, 1, 1), (4, 8, 1)])
def test_each_loader_and_training_process_gets_a_core(cores: int, ranks: int, expected: int) -> None:
    assert fitting_workers(facts(cores=cores, ranks=ranks)) == expected


@pytest.mark.parametrize(("share", "expected"), [(0.199, ["balanced"]), (0.20, ["communication-bound"])])
def test_communication_binds_from_a_fifth_of_the_step(share: float, expected: list[str]) -> None:
    assert rules(findings({"communication": share})) == expected


@pytest.mark.parametrize(
    ("cv", "share", "expected"),
    [
        (0.25, 0.10, ["backward fluctuates"]),
        (0.249, 0.9, ["balanced"]),
        (2.0, 0.099, ["balanced"]),
    ],
)
def test_backward_fluctuates_where_it_matters(cv: float, share: float, expected: list[str]) -> None:
    assert rules(findings({"backward": share, "forward": 0}, cv=cv)) == expected


@pytest.mark.parametrize(
    ("found", "competing"),
    [
        (facts(workers=5, threads=4), True),
        (facts(workers=4, threads=4), False),
        (facts(workers=0, threads=16), False),
        (None, False),
    ],
)
def test_a_fluctuating_backward_suspects_the_loader_where_cores_are_scarce(
    found: RunFacts | None, competing: bool
) -> None:
    (advice,) = advise(findings({"backward": 0.5}, cv=0.4, facts=found))
    assert advice.change.startswith("Loader workers") is competing
    assert "40%" in advice.seen


@pytest.mark.parametrize(("load", "others"), [(0.5, True), (0.49, False), (None, False)])
def test_a_fluctuating_backward_suspects_other_programs_first(load: float | None, others: bool) -> None:
    (advice,) = advise(findings({"backward": 0.5}, cv=0.4, other_load=load, facts=facts(workers=9), cores_use=0.5))
    assert advice.change.startswith("Other programs keep 0.5 cores busy") is others


@pytest.mark.parametrize(
    ("compute", "gemm", "changes", "expected"),
    [
        (0.70, 0.50, {}, ["GEMM-bound: try bf16"]),
        (0.69, 0.50, {}, ["balanced"]),
        (0.70, 0.49, {}, ["balanced"]),
        (0.70, None, {}, ["balanced"]),
        (0.90, 0.90, {"bf16": True}, ["balanced"]),
        (0.90, 0.90, {"bf16_capable": False}, ["balanced"]),
    ],
)
def test_bf16_is_advised_where_it_is_there_and_off(
    compute: float, gemm: float | None, changes: dict[str, bool], expected: list[str]
) -> None:
    share = {"forward": compute - 0.40, "backward": 0.40}
    assert rules(findings(share, gemm_share=gemm, facts=facts(**changes))) == expected


def test_several_rules_may_hold_and_the_most_pressing_is_first() -> None:
    share = {"data": 0.3, "communication": 0.3}
    found = findings(share, cv=0.5, cores_use=1.0, facts=facts(workers=32))
    assert rules(found) == [
        "too many workers for the cores",
        "data loader starves",
        "communication-bound",
        "backward fluctuates",
    ]
