"""Across the line: a handler of one's own, from its recipe to TorchServe's real worker."""

import json
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageClassification

from marsmith.builder import build
from marsmith.diff import diff
from marsmith.errors import GoldenError, ServerError
from marsmith.evidence import replay
from marsmith.inspection import inspect
from marsmith.mar.members import DIGESTS, GOLDEN, PROVENANCE, SBOM, Source
from marsmith.mar.verify import verify
from marsmith.mar.writer import write_archive
from marsmith.recipe.tasks import TASKS, TaskName
from marsmith.torchserve.worker import Worker, WorkerRequest
from tests.tiers import builds
from tests.tiny import food_checkpoint, sentiment_checkpoint, write_recipe

pytestmark = pytest.mark.build


# Adds up numbers, with hooks that fail on demand.
ADDER = """
import json
import random

from handlers.base import BatchHandler
from handlers.errors import UnprocessableInstance
from model.words.numbers import NAMES


class Adder(BatchHandler):
    def load(self):
        self.start = json.loads((self.model_dir / "words/start.json").read_text())

    def decode(self, item):
        if not isinstance(item.value, dict):
            raise UnprocessableInstance("Give an object of numbers.")
        return [NAMES.get(number, number) for number in item.value["numbers"]]

    def predict(self, instances):
        for numbers in instances:
            if "boom" in numbers:
                raise RuntimeError(f"a private word: {numbers}")
        return [self.answer(numbers, instances) for numbers in instances]

    def answer(self, numbers, instances):
        return {"sum": self.start + sum(numbers), "unit": None}

    def encode(self, result):
        return result
"""
SAMPLES: list[dict[str, Any]] = [
    {"json": {"numbers": [1, 2.123456789]}},
    {"json": [{"numbers": ["two"]}, {"numbers": []}]},
    {"json": {"numbers": [5]}, "expect": {"sum": 15}},
]


def adder(directory: Path, code: str = ADDER, **keys: Any) -> Path:
    """A recipe without a checkpoint, its handler, and a directory of what the handler reads."""
    (directory / "words/__pycache__").mkdir(parents=True)
    (directory / "words/__pycache__/numbers.pyc").write_bytes(b"stale")
    (directory / "words/start.json").write_text("10")
    (directory / "words/numbers.py").write_text('NAMES = {"one": 1, "two": 2}\n')
    (directory / "adder.py").write_text(code, encoding="utf-8")
    values = {"name": "adder", "task": "custom", "handler": "adder.py", "extra_files": ["words"], "labels": ["sum"]}
    return write_recipe(directory, checkpoint=..., **values | {"samples": SAMPLES} | keys)


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return adder(tmp_path_factory.mktemp("adder"))


@pytest.fixture(scope="module")
@builds
def archive(recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(recipe, tmp_path_factory.mktemp("store")).path


@pytest.fixture(scope="module")
def worker(archive: Path) -> Iterator[Worker]:
    with Worker(archive) as running:
        yield running


def ask(numbers: object) -> WorkerRequest:
    return WorkerRequest.raw(json.dumps({"numbers": numbers}).encode(), "application/json")


def test_bad_items_and_an_exception_in_predict_hurt_only_the_culprit(worker: Worker) -> None:
    requests = [ask([1]), WorkerRequest.raw(b"[", "application/json"), WorkerRequest.raw(b"text", "text/plain")]
    requests += [ask(["boom"]), ask(["nonsense"]), WorkerRequest.raw(b"{}", "application/json"), ask(["one"])]
    answers = worker.predict(requests)
    assert [one.status for one in answers] == [200, 400, 422, 500, 500, 500, 200]
    assert [json.loads(answers[place].body) for place in (0, 6)] == [{"sum": 11, "unit": None}] * 2
    assert b"private" not in b"".join(one.body for one in answers)
    assert "private" not in worker.log.read_text()


def test_what_the_recipe_does_not_expect_is_recorded_whole(archive: Path) -> None:
    with zipfile.ZipFile(archive) as zip_file:
        requests = json.loads(zip_file.read(GOLDEN))["requests"]
    assert [one["name"] for one in requests] == ["json 1", "json 2", "json 3"]
    assert requests[0]["expect"] == {"sum": 13.1235, "unit": None}  # as many digits as the tolerance tells apart
    assert requests[1]["expect"] == [{"sum": 12, "unit": None}, {"sum": 10, "unit": None}]
    assert requests[2]["expect"] == {"sum": 15}
    assert [one.get("whole") for one in requests] == [True, True, None]


def test_every_later_worker_must_repeat_what_was_recorded(archive: Path, tmp_path: Path) -> None:
    assert all(one.ok for one in replay.in_worker(archive))
    other = tmp_path / "other.mar"
    with zipfile.ZipFile(archive) as zip_file:
        files: dict[PurePosixPath, Source] = {
            PurePosixPath(name): zip_file.read(name) for name in zip_file.namelist() if name != DIGESTS
        }
    entry = PurePosixPath("adder.py")
    files[entry] = ADDER.replace('"unit": None', '"unit": None, "more": 1').encode()
    write_archive(other, files)
    assert [one.differences for one in replay.in_worker(other)] == [
        ["answer.more is not expected"],
        ["answer[0].more is not expected", "answer[1].more is not expected"],
        [],
    ]


def test_the_archive_is_sound_reproducible_and_says_what_it_is(archive: Path, recipe: Path, tmp_path: Path) -> None:
    verify(archive).require_ok()
    again = build(recipe, tmp_path)
    assert again.path.read_bytes() == archive.read_bytes()
    assert diff(archive, again.path) == []
    card = inspect(archive)
    assert (card.task, card.handler, card.checkpoint, card.precision) == ("custom", "adder.py", "none", "none")
    assert card.engine == "none"
    assert card.labels == ["sum"]
    assert [line.partition("==")[0] for line in card.requirements] == ["numpy", "onnxruntime"]
    with zipfile.ZipFile(archive) as zip_file:
        names = {name for name in zip_file.namelist() if name.startswith("model/")}
        bill = json.loads(zip_file.read(SBOM))["metadata"]["component"]
        statement = json.loads(zip_file.read(PROVENANCE))
    assert names == {"model/serving.json", "model/words/numbers.py", "model/words/start.json"}
    assert {one["name"] for one in bill["components"]} == {*names, "adder.py"}
    assert [one["name"] for one in statement["subject"]] == ["adder.py"]
    inputs = [one["name"] for one in statement["predicate"]["buildDefinition"]["resolvedDependencies"]]
    assert inputs == ["adder.py", "words/numbers.py", "words/start.json"]


@pytest.mark.parametrize(
    ("change", "samples", "says"),
    [
        ({}, [{"text": "a private text"}], r"answers text 1 with status 422 \(Give an object of numbers\.\)"),
        ({}, [{"json": {"numbers": ["boom"]}}], r"answers json 1 with status 500 \(The model could not answer"),
        ({'{"sum"': 'None and {"sum"'}, SAMPLES[:1], "answers json 1 with null or no JSON"),
        ({"self.start + sum": "random.random() + sum"}, SAMPLES[:1], r"1 of 1 golden requests otherwise than expected"),
        ({"self.start + sum": "len(instances) + sum"}, SAMPLES[:2], r"otherwise than expected: json 1: answer\.sum"),
        ({}, [SAMPLES[2] | {"expect": {"sum": 16}}], r"otherwise than expected: json 1: answer\.sum is 15, not 16"),
        ({}, [SAMPLES[2] | {"expect": {"total": 15}}], r"json 1: answer\.total is missing"),
    ],
    ids=["refused", "broken", "null", "chance", "neighbours", "number", "key"],
)
def test_an_answer_that_cannot_be_golden_fails_the_build(
    tmp_path: Path, change: dict[str, str], samples: list[dict[str, Any]], says: str
) -> None:
    code = ADDER
    for old, new in change.items():
        code = code.replace(old, new)
    with pytest.raises(GoldenError) as raised:
        build(adder(tmp_path, code, samples=samples), tmp_path / "store")
    assert re.search(says, str(raised.value))
    assert "private" not in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("words/start.json", "start.json", r"Model failed to load: .*start\.json"),
        # TorchServe covers this one with a failed import of its own.
        (
            "import json",
            "import json\nfrom numpy import no_such_name",
            "ImportError: cannot import name 'no_such_name'",
        ),
    ],
)
def test_a_handler_that_does_not_load_fails_the_build_with_its_own_words(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    recipe = adder(tmp_path, ADDER.replace(old, new))
    with pytest.raises(ServerError, match=f"could not load its model. Its last words: {says}"):
        build(recipe, tmp_path / "store")
    assert not (tmp_path / "store").exists()


SIGMOID = """
from handlers.food import FoodHandler
from handlers.engine import np


class Plate(FoodHandler):
    def predict(self, instances):
        return list(1 / (1 + np.exp(-self.logits(instances))))

    def encode(self, result):
        return dict(zip(self.settings.labels, result))
"""


def test_a_multi_label_image_checkpoint_answers_with_a_handler_of_its_own(tmp_path: Path) -> None:
    """The standard answer is one dish of several; a plate may hold all of them."""
    food_checkpoint(tmp_path, labels=("rice", "beans"), problem_type="multi_label_classification")
    (tmp_path / "plate.py").write_text(SIGMOID)
    Image.linear_gradient("L").convert("RGB").resize((50, 40)).save(tmp_path / "photo.png")
    keys = {"task": "food", "handler": "plate.py", "samples": [{"image": "photo.png"}]}
    built = build(write_recipe(tmp_path, **keys), tmp_path / "store")
    assert (built.golden, built.parity is not None) == (1, True)
    processor = AutoImageProcessor.from_pretrained(tmp_path, backend="pil", trust_remote_code=False)
    model = AutoModelForImageClassification.from_pretrained(tmp_path, trust_remote_code=False).eval()
    with torch.inference_mode(), Image.open(tmp_path / "photo.png") as photo:
        expected = model(**processor(images=photo, return_tensors="pt")).logits[0].sigmoid().numpy()
    with Worker(built.path) as worker:
        (answer,) = worker.predict([WorkerRequest.raw((tmp_path / "photo.png").read_bytes(), "image/png")])
    assert np.array(list(json.loads(answer.body).values())) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("task", ["sentiment", "food"])
def test_a_handler_over_a_checkpoint_is_tested_with_probes(tmp_path: Path, task: str) -> None:
    (sentiment_checkpoint if task == "sentiment" else food_checkpoint)(tmp_path)
    base = f"{task.title()}Handler"
    (tmp_path / "best.py").write_text(
        f"from handlers.{task} import {base}\n\n\nclass Best({base}):\n"
        "    def encode(self, result):\n        return super().encode(result) | {'by': 'best'}\n"
    )
    built = build(write_recipe(tmp_path, task=task, handler="best.py"), tmp_path / "store")
    outcomes = replay.in_worker(built.path)
    assert [one.name for one in outcomes][:2] == ["probe 1", "probe 2"]
    assert all(one.ok and one.prediction.body["by"] == "best" for one in outcomes)


@pytest.mark.parametrize("task", ["sentiment", "food"])
def test_what_a_build_writes_beside_the_extra_files_is_known_before(tmp_path: Path, task: TaskName) -> None:
    """Else an extra file of that name would be lost, or fail the build at its end."""
    (sentiment_checkpoint if task == "sentiment" else food_checkpoint)(tmp_path)
    built = build(write_recipe(tmp_path, task=task), tmp_path / "store")
    with zipfile.ZipFile(built.path) as zip_file:
        written = {name.partition("/")[2] for name in zip_file.namelist() if name.startswith("model/")}
    assert written <= TASKS[task].members


WORDS = """
class Words:
    def initialize(self, context): ...

    def handle(self, data, context):
        return ["no JSON"] * len(data)
"""


@pytest.mark.parametrize("answer", ["no JSON", "[NaN]"])
def test_a_handler_of_another_kind_is_told_that_it_must_answer_with_json(tmp_path: Path, answer: str) -> None:
    with pytest.raises(GoldenError, match="answers json 1 with null or no JSON"):
        build(adder(tmp_path, WORDS.replace("no JSON", answer), samples=SAMPLES[:1]), tmp_path / "store")
