"""M112: metrics of a handler's own, which TorchServe drops unless it is told to keep them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from marsmith.lint.findings import Finding
from marsmith.lint.modules import Modules, last_name

# The methods of ts.metrics.metrics_cache_yaml_impl that take a metric's name first.
ADDERS = frozenset({"add_counter", "add_error", "add_metric", "add_percent", "add_size", "add_time"})
# model_metrics of TorchServe's own metrics.yaml.
KEPT = frozenset({"HandlerTime", "PredictionTime"})


def lint_metrics(modules: Modules) -> Iterator[Finding]:
    """A finding for each metric that TorchServe's own metrics.yaml does not name."""
    for member, module in modules.parsed.items():
        for name in dict.fromkeys(_metrics(module)):
            if name not in KEPT:
                yield Finding(
                    "M112",
                    member,
                    f"TorchServe drops the metric {name}, which its metrics.yaml does not name.",
                    "Set model_metrics_auto_detect=true in config.properties, or name it in a metrics_config of yours.",
                )


def _metrics(module: ast.Module) -> Iterator[str]:
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDERS:
            given = [*node.args[:1], *(one.value for one in node.keywords if one.arg in ("name", "metric_name"))]
            if "metrics" in last_name(node.func.value):
                yield from (one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str))
