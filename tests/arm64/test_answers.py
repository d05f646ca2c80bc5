"""The container, on emulated Graviton CPUs, answers as x86-64 does."""

import pytest

from marsmith import golden
from tests.arm64.archives import Archive
from tests.arm64.comparison import Comparison
from tests.arm64.drive import Run, requests_of

pytestmark = [pytest.mark.arm64, pytest.mark.timeout(2400)]

# Of a probability. fp32 differs in the last bits; int8 where a sum lies at the edge between two of its steps.
LIMITS = {"fp32": 1e-5, "bf16": golden.BF16_TOLERANCE, "int8": 0.02}


def test_every_golden_request_is_answered_as_expected(built: dict[str, Archive], runs: dict[str, Run]) -> None:
    found = [
        f"{cpu}: {name}: {request.name}: {difference}"
        for cpu, run in runs.items()
        for name, archive in built.items()
        for request in requests_of(archive.path)
        for difference in golden.differences(request.expect, run.answers[name][request.name], request.tolerance)
    ]
    assert found == []


def test_every_label_is_x86_64_s(comparisons: list[Comparison]) -> None:
    assert [one for one in comparisons if one.labels_alike != one.requests] == []
    assert all(one.requests for one in comparisons)


def test_every_probability_is_near_x86_64_s(comparisons: list[Comparison]) -> None:
    assert [one for one in comparisons if one.max_difference > LIMITS[one.precision]] == []


@pytest.mark.parametrize("starter", ["sentiment", "food"])
def test_bf16_is_used_where_the_cpu_has_it_and_only_there(starter: str, runs: dict[str, Run]) -> None:
    with_bf16, without = (runs[cpu].answers for cpu in ("neoverse-v1", "neoverse-n1"))
    assert without[f"{starter}-bf16"] == without[f"{starter}-fp32"]
    assert with_bf16[f"{starter}-bf16"] != with_bf16[f"{starter}-fp32"]
