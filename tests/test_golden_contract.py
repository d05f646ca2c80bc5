"""Across the line: what the checkpoint answers, the archive answers in TorchServe's real worker, offline."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any

import pytest
from PIL import Image

from marsmith.builder import build
from marsmith.errors import CheckpointError, GoldenError, LintError, ServerError
from marsmith.evidence import replay
from marsmith.evidence.golden import TOLERANCE
from marsmith.ground.serving import Decode
from marsmith.mar.members import DIGESTS, GOLDEN, MANIFEST
from marsmith.mar.writer import write_archive
from marsmith.torchserve.worker import Worker, WorkerRequest
from tests.packaging.forgery import members, unpacked
from tests.tiers import builds
from tests.tiny import food_checkpoint, sentiment_checkpoint, write_recipe

TWEETS = (
    "a great day @beach https://example.org 😀",
    "no. just no",
    "so tired of this coffee " * 30,
    "\u0130stanbul @",
)


@pytest.fixture(scope="module")
@builds
def sentiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = sentiment_checkpoint(tmp_path_factory.mktemp("checkpoint"), model_type="roberta")
    samples = [{"text": text} for text in TWEETS]
    return build(write_recipe(directory, normalise="tweet", samples=samples), tmp_path_factory.mktemp("store")).path


@pytest.fixture(scope="module")
def food_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of every kind that two decoders could see differently."""
    directory = food_checkpoint(tmp_path_factory.mktemp("checkpoint"))
    gradient = Image.linear_gradient("L").resize((90, 60))
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    Image.merge("RGB", (gradient, gradient.rotate(180), gradient)).save(directory / "turned.jpg", exif=exif)
    Image.merge("RGBA", (gradient,) * 4).save(directory / "clear.png")
    gradient.convert("P").save(directory / "palette.gif")
    Image.merge("CMYK", (gradient,) * 4).save(directory / "cmyk.jpg")
    gradient.save(directory / "grey.webp", lossless=True)
    names = ("turned.jpg", "clear.png", "palette.gif", "cmyk.jpg", "grey.webp")
    return write_recipe(directory, task="food", samples=[{"image": name} for name in names])


def changed(archive: Path, out: Path, change: Callable[[dict[str, Any]], None], member: str = GOLDEN) -> Path:
    """The archive with one JSON member changed, and digests that fit."""
    files = dict(unpacked(archive.read_bytes()))
    content = json.loads(files[member])
    change(content)
    files[member] = json.dumps(content).encode()
    del files[DIGESTS]
    write_archive(out, members(files))
    return out


def test_the_handler_answers_tweets_as_the_checkpoint_does(sentiment: Path) -> None:
    """The checkpoint's answers come from transformers alone: tokenizer, normalisation and truncation are all in it."""
    outcomes = replay.in_worker(sentiment)
    assert [one.name for one in outcomes] == ["text 1", "text 2", "text 3", "text 4"]
    assert all(one.ok for one in outcomes)
    scores = outcomes[0].prediction.body["scores"]
    assert scores == pytest.approx(outcomes[0].expected["scores"], abs=TOLERANCE)
    assert outcomes[2].prediction.body["truncated"]


@pytest.mark.build
def test_the_handler_answers_pictures_as_the_checkpoint_does(food_recipe: Path, tmp_path: Path) -> None:
    """The build itself would have refused a difference; what it wrote is asked again."""
    outcomes = replay.in_worker(build(food_recipe, tmp_path).path)
    assert len(outcomes) == 5
    assert all(one.ok for one in outcomes)


def test_an_answer_that_differs_is_named(sentiment: Path, tmp_path: Path) -> None:
    def shift(golden: dict[str, Any]) -> None:
        golden["requests"][1]["expect"]["scores"]["neutral"] += 0.01

    outcomes = replay.in_worker(changed(sentiment, tmp_path / "m.mar", shift))
    assert [one.ok for one in outcomes] == [True, False, True, True]
    with pytest.raises(
        GoldenError, match=r"answers 1 of 4 golden requests otherwise.* text 2: answer\.scores\.neutral"
    ):
        replay.require_ok(outcomes, "m.mar")


def test_a_request_that_fails_is_a_difference(sentiment: Path, tmp_path: Path) -> None:
    def empty(golden: dict[str, Any]) -> None:
        golden["requests"][0]["text"] = " "

    first, *rest = replay.in_worker(changed(sentiment, tmp_path / "m.mar", empty))
    assert first.differences[0].startswith("status 422: ")
    assert all(one.ok for one in rest)


def test_a_wrong_normalisation_is_caught(sentiment: Path, tmp_path: Path) -> None:
    """Train/serve skew: the archive says "none" where the checkpoint was asked with "tweet"."""

    def skew(serving: dict[str, Any]) -> None:
        serving["text"]["normalise"] = "none"

    outcomes = replay.in_worker(changed(sentiment, tmp_path / "m.mar", skew, "model/serving.json"))
    assert not outcomes[0].ok


@pytest.mark.build
def test_an_archive_that_answers_otherwise_is_never_built(
    food_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from marsmith.network.processor import image_settings

    def coarser(path: Path, decode: Decode) -> Any:
        return image_settings(path, decode).model_copy(update={"resample": int(Image.Resampling.NEAREST)})

    monkeypatch.setattr("marsmith.network.image_reference.image_settings", coarser)
    with pytest.raises(CheckpointError, match=r"ViTImageProcessor .* its values and the handler's differ by up to"):
        build(food_recipe, tmp_path)
    monkeypatch.setattr("marsmith.network.convert.check_images", lambda *_: None)
    with pytest.raises(GoldenError, match=r"answers 5 of 5 golden requests otherwise than expected: turned\.jpg"):
        build(food_recipe, tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.build
def test_a_recipe_that_refuses_long_texts_is_tested_with_short_ones(tmp_path: Path) -> None:
    sentiment_checkpoint(tmp_path)
    built = build(write_recipe(tmp_path, long_text="error"), tmp_path / "store")
    assert [(one.name, one.ok) for one in replay.in_worker(built.path)] == [("probe 1", True), ("probe 2", True)]


def test_a_recipe_that_lint_refuses_is_never_built(tmp_path: Path) -> None:
    sentiment_checkpoint(tmp_path)
    (tmp_path / "vocab.txt").unlink(missing_ok=True)
    secret = tmp_path.with_suffix(".secret")
    secret.write_text("outside")
    (tmp_path / "vocab.txt").symlink_to(secret)
    with pytest.raises(LintError, match=r"M412 .*vocab\.txt"):
        build(write_recipe(tmp_path), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_archive_of_others_is_loaded_and_asked_nothing(tmp_path: Path) -> None:
    handler = b"def handle(data, context):\n    return data and [b'ok'] * len(data)\n"
    manifest = json.dumps({"model": {"modelName": "m", "handler": "m_handler.py"}, "runtime": "python"}).encode()
    write_archive(tmp_path / "m.mar", members({"m_handler.py": handler, MANIFEST: manifest}))
    assert replay.in_worker(tmp_path / "m.mar") == []


@pytest.mark.parametrize(
    "reaches",
    [
        "import urllib.request; urllib.request.urlopen('http://example.org')",
        "import socket; socket.create_connection(('127.0.0.1', 9))",
        "import socket; socket.socket(type=socket.SOCK_DGRAM).sendto(b'', ('127.0.0.1', 9))",
        "import huggingface_hub; huggingface_hub.hf_hub_download('owner/name', 'config.json')",
    ],
)
def test_a_handler_that_wants_the_network_fails_here_and_not_in_production(tmp_path: Path, reaches: str) -> None:
    """pytorch/serve#982: a packaged vocabulary is ignored, and the hub is asked instead."""
    handler = f"def handle(data, context):\n    {reaches}\n".encode()
    manifest = json.dumps({"model": {"modelName": "m", "handler": "m_handler.py"}, "runtime": "python"}).encode()
    path = tmp_path / "m.mar"
    write_archive(path, members({"m_handler.py": handler, MANIFEST: manifest}))
    with pytest.raises(ServerError, match="could not load"):
        replay.in_worker(path)


def test_the_worker_is_clean(sentiment: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What this process has in its environment does not make a test pass that fails elsewhere."""
    monkeypatch.setenv("MARSMITH_TOP_K", "no number")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    with Worker(sentiment) as worker:
        assert worker.predict([WorkerRequest.raw(b"hm", "text/plain")])[0].status == 200


def test_a_test_changes_nothing_of_the_archive(sentiment: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(sentiment, tmp_path / "m.mar"))
    copy.chmod(0o444)
    before = copy.read_bytes()
    replay.in_worker(copy)
    assert copy.read_bytes() == before
    assert list(tmp_path.iterdir()) == [copy]


@pytest.mark.build
def test_golden_requests_hold_the_paths_of_the_recipe_alone(food_recipe: Path, tmp_path: Path) -> None:
    files = dict(unpacked(build(food_recipe, tmp_path).path.read_bytes()))
    for name, content in files.items():
        assert str(food_recipe.parent).encode() not in content, PurePosixPath(name)
