"""What is counted: the names that metrics.yaml knows, and values that fit the batch."""

import re
import time
from collections import Counter
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from handlers import metrics
from handlers.food import FoodHandler
from handlers.metrics import COUNTERS, Metrics
from handlers.sentiment import SentimentHandler
from tests.handlers.shouter import Shouter, make_root, text
from tests.handlers.test_explanations import ask, photo
from tests.handlers.transformers_reference import Reference
from tests.handlers.worker import METRICS_CONFIG, Part, Post, Worker

# As org.pytorch.serve.metrics.Metric reads a line.
LINE = re.compile(
    r"\[METRICS\]\s*([\w\s]+)\.([\w\s]+):([0-9\-,.e]+)\|#([^|]*)(?:\|#type:([^|,]+))?\|#hostname:([^,]+),([^,]+)(?:,(.*))?"
)
Counts = dict[tuple[str, str], float]


def emitted(caplog: pytest.LogCaptureFixture) -> Iterator[tuple[str, str, float]]:
    """Name, first dimension and value of every line."""
    for message in caplog.messages:
        if message.startswith("[METRICS]"):
            match = LINE.fullmatch(message)
            assert match, message
            name, dimensions = match[1], dict(pair.split(":") for pair in match[4].split(","))
            assert dimensions.pop("Level") == "Model"
            assert dimensions.pop("ModelName") == "tiny"
            yield name, ",".join(dimensions.values()), float(match[3])


def counts(worker: Worker, caplog: pytest.LogCaptureFixture, *posts: Post) -> Counts:
    """What one batch adds to Marsmith's counters."""
    caplog.clear()
    with caplog.at_level("INFO"):
        worker.predict(*posts)
    found = list(emitted(caplog))
    assert Counter((name, kind) for name, kind, _ in found).most_common(1)[0][1] == 1, "one line for each a batch"
    return {(name, kind): value for name, kind, value in found if name.startswith("marsmith_")}


def config() -> Any:
    return yaml.safe_load(METRICS_CONFIG.read_text(encoding="utf-8"))


def test_metrics_yaml_has_every_counter_with_its_unit_and_dimensions() -> None:
    """pytorch/serve#2450, pytorch/serve#2979: what it does not name is dropped."""
    described = {
        name: {
            "name": name,
            "unit": counter.unit,
            "dimensions": [*([counter.dimension] if counter.dimension else []), "ModelName", "Level"],
        }
        for name, counter in COUNTERS.items()
    }
    assert {one["name"]: one for one in config()["model_metrics"]["counter"]} == described
    constants = {value for value in vars(metrics).values() if isinstance(value, str) and value.startswith("marsmith_")}
    assert set(COUNTERS) == constants


def test_metrics_yaml_keeps_torchserves_own() -> None:
    stock = yaml.safe_load((files("ts") / "configs/metrics.yaml").read_text(encoding="utf-8"))
    assert config()["ts_metrics"] == stock["ts_metrics"]
    assert config()["model_metrics"]["gauge"] == stock["model_metrics"]["gauge"]


def test_instances_and_refusals_of_a_batch(handler: Shouter, worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    found = counts(
        worker,
        caplog,
        text("good"),
        Post.json(["one", "", "refuse", "bad-predict"]),
        Post(b"{", "application/vnd.x+json"),
        Post.form(Part("a", b"yes"), Part("b", b"\xff")),
        ask("good"),
    )
    assert found.pop(("marsmith_instances_total", "")) == 7
    kinds = {kind: value for (name, kind), value in found.items() if name == "marsmith_rejected_total"}
    assert kinds == {"malformed": 2, "unprocessable": 1, "unsupported_media": 1, "internal": 1, "not_supported": 1}
    assert {kind for name, kind in found if name == "marsmith_seconds_total"} == {"decode", "network", "encode"}


def test_tokens_and_truncations(references: dict[str, Reference], caplog: pytest.LogCaptureFixture) -> None:
    reference = references["bert"]
    worker = Worker(SentimentHandler(), reference.root, {"handler": {"explain_runs": 20}})
    texts = ["a great day", "so tired of this coffee " * 40, "no"]
    found = counts(worker, caplog, *(text(one) for one in texts[:2]), ask(texts[2]))
    assert found["marsmith_tokens_total", ""] == sum(len(reference.ids(one)) for one in texts)
    assert found["marsmith_truncated_total", ""] == 1
    stages = {kind for name, kind in found if name == "marsmith_seconds_total"}
    assert stages == {"decode", "tokenise", "network", "explain", "encode"}


def test_pixels_are_counted_as_they_came(image_root: Path, caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker(FoodHandler(), image_root)
    found = counts(worker, caplog, photo(1, (50, 40)), photo(2, (31, 90)), Post(b"junk", "image/png"))
    assert found["marsmith_pixels_total", ""] == 50 * 40 + 31 * 90


def test_golden_requests_at_load_are_not_counted(text_roots: dict[str, Path], caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO"):
        worker = Worker(SentimentHandler(), text_roots["bert"])
    assert "warmed up by 3 golden instances" in caplog.text
    assert "[METRICS]" not in caplog.text
    assert counts(worker, caplog, text("ok"))["marsmith_instances_total", ""] == 1


def test_a_count_of_a_handlers_own_is_sent_too(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    class Counting(Shouter):
        def encode(self, result: str) -> object:
            self.metrics.add("letters_total", len(result))
            return super().encode(result)

    worker = Worker(Counting(), make_root(tmp_path))
    with caplog.at_level("INFO"):
        worker.predict(text("good"), text("well"))
    assert ("letters_total", "", 8.0) in list(emitted(caplog))


def test_a_handlers_own_count_may_have_kinds_that_no_line_breaks_at(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Counting(Shouter):
        def load(self) -> None:
            super().load()
            self.kept = self.metrics

        def encode(self, result: str) -> object:
            self.kept.add("words_total", 1, f"{result}, x:y\n[METRICS]")
            return super().encode(result)

    worker = Worker(Counting(), make_root(tmp_path))
    with caplog.at_level("INFO"):
        worker.predict(text("good"), text("well"))
    lines = [line for line in emitted(caplog) if line[0] == "words_total"]
    assert lines == [("words_total", "GOOD_x_y_METRICS_", 1.0), ("words_total", "WELL_x_y_METRICS_", 1.0)]
    assert "Failed to update" not in caplog.text


def test_an_answer_that_is_too_large_is_a_refusal(
    handler: Shouter, worker: Worker, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("handlers.responses.MAX_RESPONSE_BYTES", 1000)
    found = counts(worker, caplog, Post.json(["LONG"]), text("good"))
    assert found["marsmith_rejected_total", "too_large"] == 1


class Sink:
    """Stands for TorchServe's metrics cache."""

    model_name = "m"

    def __init__(self) -> None:
        self.got: dict[tuple[str, ...], float] = {}
        self.registered: dict[str, tuple[str, tuple[str, ...]]] = {}

    def get_metric(self, name: str) -> Any:
        raise KeyError(name)

    def add_metric_to_cache(self, name: str, unit: str, dimensions: list[str]) -> Any:
        assert name not in self.registered
        self.registered[name] = (unit, tuple(dimensions))
        sink = self

        class Sender:
            def add_or_update(self, value: float, values: list[str]) -> None:
                assert len(values) == len(dimensions)
                sink.got[(name, *values)] = value

        return Sender()


def test_without_a_metrics_yaml_of_ours_the_counters_describe_themselves() -> None:
    """pytorch/serve#2450: with model_metrics_auto_detect, TorchServe takes them as they come."""
    counted, sink = Metrics(), Sink()
    counted.add(metrics.REJECTED, kind="malformed")
    counted.add(metrics.PIXELS, 12)
    counted.send(sink)
    counted.add(metrics.PIXELS, 5)
    counted.send(sink)
    assert sink.registered == {
        "marsmith_rejected_total": ("count", ("Reason", "ModelName", "Level")),
        "marsmith_pixels_total": ("pixels", ("ModelName", "Level")),
    }
    assert sink.got == {
        ("marsmith_rejected_total", "malformed", "m", "Model"): 1,
        ("marsmith_pixels_total", "m", "Model"): 5,
    }


def test_each_second_belongs_to_one_stage(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(np.arange(0, 10, 1.0))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    counted, sink = Metrics(), Sink()
    with counted.stage("outer"):  # begins at 0
        with counted.stage("inner"):  # 1
            pass  # 2
        with pytest.raises(KeyError), counted.stage("inner"):  # 3
            raise KeyError  # 4
    counted.send(sink)  # ended at 5
    seconds = {key[1]: value for key, value in sink.got.items()}
    assert seconds == {"outer": 3, "inner": 2}


def test_where_there_is_no_torchserve_counts_go_nowhere() -> None:
    counted, sink = Metrics(), Sink()
    counted.add(metrics.TOKENS, 5)
    counted.send(None)
    counted.send(sink)
    assert sink.got == {}
