"""The container, on emulated Graviton CPUs, answers as x86-64 does."""

import pytest

from marsmith.evidence import golden
from tests.arm64.archives import STARTERS, Archive
from tests.arm64.comparison import Comparison, answers
from tests.arm64.drive import Run, requests_of
from tests.arm64.emulation import CPUS

pytestmark = [pytest.mark.arm64, pytest.mark.timeout(2400)]

# Of a probability. fp32 differs in the last bits; int8 where a sum lies at the edge between two of its steps.
LIMITS = {"fp32": 1e-5, "bf16": golden.BF16_TOLERANCE, "int8": 0.02}


def test_every_golden_request_is_answered_as_expected(built: dict[str, Archive], runs: list[Run]) -> None:
    found = [
        f"{cpu}: {name}: {request.name}: {difference}"
        for cpu in CPUS
        for name, archive in built.items()
        for request in requests_of(archive.path)
        for difference in golden.differences(request.expect, answers(runs, cpu, name)[request.name], request.tolerance)
    ]
    assert found == []


def test_every_label_is_x86_64_s(comparisons: list[Comparison]) -> None:
    assert [one for one in comparisons if one.labels_alike != one.requests] == []
    assert all(one.requests for one in comparisons)


def test_every_probability_is_near_x86_64_s(comparisons: list[Comparison]) -> None:
    assert [one for one in comparisons if one.max_difference > LIMITS[one.precision]] == []


@pytest.mark.parametrize("starter", STARTERS)
def test_bf16_is_used_where_the_cpu_has_it_and_only_there(starter: str, runs: list[Run]) -> None:
    for cpu, has_bf16 in CPUS.items():
        reduced, exact = (answers(runs, cpu, f"{starter}-{precision}") for precision in ("bf16", "fp32"))
        assert [reduced[name] != exact[name] for name in reduced] == [has_bf16] * len(reduced)
