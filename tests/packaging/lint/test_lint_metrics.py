"""Metrics that TorchServe would drop without a word."""

import pytest

from tests.packaging.lint.trees import HANDLER, codes, lint_with, only


def handler(line: str) -> str:
    return HANDLER.replace("        return [len(data)]", f"        {line}\n        return [len(data)]")


@pytest.mark.parametrize(
    "line",
    [
        "context.metrics.add_counter('DishesServed', len(data))",
        "self.metrics.add_time(name='DishesServed', value=1)",
        "metrics.add_metric('DishesServed', 1, unit='count')",
    ],
)
def test_a_metric_that_nobody_names_is_dropped(line: str) -> None:
    """pytorch/serve#2450, pytorch/serve#2979, pytorch/serve#2963, pytorch/serve#2907."""
    finding = only(lint_with({"handler.py": handler(line)}), "M112")
    assert (finding.where, finding.severity) == ("handler.py", "warning")
    assert "DishesServed" in finding.message


@pytest.mark.parametrize(
    "line",
    [
        "context.metrics.add_time('PredictionTime', 1)",
        "basket.add_size('DishesServed', 1)",
        "context.metrics.add_x('y')",
    ],
)
def test_what_torchserve_keeps_and_what_is_no_metric_is_left_alone(line: str) -> None:
    assert "M112" not in codes(lint_with({"handler.py": handler(line)}))
