"""What a user can get wrong is one sentence, said before anything is trained or lost."""

import dataclasses
import errno
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from safetensors import SafetensorError

from tests.tiny import food_checkpoint, sentiment_checkpoint
from tests.training.sentiment.conftest import LABELS, QUICK
from training.errors import TrainingError
from training.sentiment import output
from training.sentiment.base import load
from training.sentiment.checkpoints import sealed, step_of
from training.sentiment.compiler import require_compiler
from training.sentiment.run import Sources, run
from training.sentiment.trainer import SentimentTrainer

SETTINGS: dict[str, object] = {"lr": 1.0, "threads": 1}


def without(base: Path, copy: Path, *names: str) -> Path:
    shutil.copytree(base, copy)
    for name in names:
        (copy / name).unlink()
    return copy


def test_a_base_needs_a_tokenizer_of_its_own(base: Path, tmp_path: Path) -> None:
    bare = without(base, tmp_path / "bare", "tokenizer.json", "tokenizer_config.json")
    with pytest.raises(TrainingError, match=r"has no tokenizer[^\n]*\.$"):
        load(str(bare), LABELS)


def test_a_base_needs_a_config(base: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"has no config\.json"):
        load(str(without(base, tmp_path / "bare", "config.json")), LABELS)


def test_a_base_needs_weights(base: Path, tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"^The weights of [^\n]* cannot be loaded [^\n]*\.$"):
        load(str(without(base, tmp_path / "bare", "model.safetensors")), LABELS)


def test_a_base_must_be_able_to_classify_texts(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="is a vit model, which cannot classify texts"):
        load(str(food_checkpoint(tmp_path / "vit")), LABELS)


def test_weights_of_another_network_are_not_taken_for_a_base(base: Path, tmp_path: Path) -> None:
    mixed = without(base, tmp_path / "mixed", "model.safetensors")
    shutil.copy(sentiment_checkpoint(tmp_path / "roberta", "roberta") / "model.safetensors", mixed)
    with pytest.raises(TrainingError, match="its weights are of another model"):
        load(str(mixed), LABELS)


def test_a_tokenizer_of_another_network_is_refused(base: Path, tmp_path: Path) -> None:
    mixed = without(base, tmp_path / "mixed", "model.safetensors")
    small = sentiment_checkpoint(tmp_path / "small", vocab_size=20)
    for name in ("model.safetensors", "config.json"):
        shutil.copy(small / name, mixed)
    with pytest.raises(TrainingError, match=r"knows .* tokens, the model 20"):
        load(str(mixed), LABELS)


def test_a_hub_that_cannot_be_reached_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        TrainingError, match=r"^nobody/nothing has no config\.json [^\n]*check the name and the network"
    ):
        load("nobody/nothing", LABELS)


def test_a_head_of_another_size_is_replaced(tmp_path: Path) -> None:
    four = sentiment_checkpoint(tmp_path / "four", labels=("a", "b", "c", "d"))
    assert load(str(four), LABELS).model.classifier.weight.shape[0] == 3


def test_a_full_folder_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(TrainingError, match=r"is not empty: .* --resume, or .* --force"):
        output.claim(tmp_path, SETTINGS, resume=False, force=False)
    with pytest.raises(TrainingError, match="is a file"):
        output.claim(tmp_path / "notes.txt", SETTINGS, resume=False, force=True)
    output.claim(tmp_path, SETTINGS, resume=False, force=True)
    assert (tmp_path / "notes.txt").read_text("utf-8") == "mine"


def test_resuming_needs_the_same_settings_but_for_threads(tmp_path: Path) -> None:
    output.claim(tmp_path, SETTINGS, resume=False, force=False)
    output.claim(tmp_path, {"lr": 1.0, "threads": 2}, resume=True, force=False)
    with pytest.raises(TrainingError, match=r"other settings \(lr was 1\.0\)"):
        output.claim(tmp_path, {"lr": 2.0, "threads": 1}, resume=True, force=False)


def test_a_finished_model_is_not_resumed(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}", "utf-8")
    with pytest.raises(TrainingError, match="finished model"):
        output.claim(tmp_path, SETTINGS, resume=True, force=False)


def test_nothing_is_published_of_a_failure(tmp_path: Path) -> None:
    def fail() -> None:
        with output.published(tmp_path) as fresh:
            (fresh / "model.safetensors").write_text("half", "utf-8")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_an_optimizer_that_nobody_knows_is_one_sentence(sources: Sources, tmp_path: Path, console: Console) -> None:
    settings = dataclasses.replace(QUICK, optim="magic")
    with pytest.raises(TrainingError, match=r"^The Trainer does not take these settings: [^\n]*magic[^\n]*$"):
        run(sources, settings, tmp_path / "out", console, resume=False, force=False, keep=False)


def test_compiling_without_a_compiler_is_said_beforehand(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TrainingError, match=r"needs a C\+\+ compiler.*--no-torch-compile"):
        require_compiler()
    compiler = tmp_path / "g++"
    compiler.touch(mode=0o755)
    require_compiler()


def test_weights_beyond_fp16_are_not_stored_as_infinity(base: Path, tmp_path: Path) -> None:
    loaded = load(str(base), LABELS)
    with torch.no_grad():
        loaded.model.classifier.weight[0, 0] = 1e6
    with pytest.raises(TrainingError, match="too large for fp16"):
        output.store(loaded.model, loaded.tokenizer, tmp_path, "fp16")


@pytest.mark.slow
def test_a_loss_that_is_no_number_stops_it_and_the_last_checkpoint_stays(
    sources: Sources, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest: Any = SentimentTrainer.compute_loss

    def spoiled(trainer: Any, *arguments: Any, **keywords: Any) -> Any:
        loss = honest(trainer, *arguments, **keywords)
        return loss * float("nan") if trainer.state.global_step == 6 else loss

    monkeypatch.setattr(SentimentTrainer, "compute_loss", spoiled)
    with pytest.raises(TrainingError, match=r"^The loss became nan at step 7: .*checkpoint-4\."):
        run(sources, QUICK, tmp_path / "out", console, resume=False, force=False, keep=False)
    assert [step_of(path) for path in sealed(tmp_path / "out" / "checkpoints")] == [4]
    assert not (tmp_path / "out" / "config.json").exists()
    monkeypatch.undo()
    done = run(sources, QUICK, tmp_path / "out", console, resume=True, force=False, keep=False)
    assert done["training"]["resumed_at_step"] == 4


@pytest.mark.slow
def test_weights_that_are_no_numbers_never_become_a_checkpoint(
    sources: Sources, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest: Any = SentimentTrainer.training_step

    def spoiled(trainer: Any, *arguments: Any, **keywords: Any) -> Any:
        loss = honest(trainer, *arguments, **keywords)
        if trainer.state.global_step == 7:  # an infinite gradient in the very step that is saved
            trainer.model.classifier.weight.grad.fill_(float("nan"))
        return loss

    monkeypatch.setattr(SentimentTrainer, "training_step", spoiled)
    with pytest.raises(TrainingError, match=r"^The weights are no numbers after step 8: .*checkpoint-4\."):
        run(sources, QUICK, tmp_path / "out", console, resume=False, force=False, keep=False)


@pytest.mark.slow
@pytest.mark.parametrize("failing", ["_save_optimizer_and_scheduler", "save_model"])
def test_a_full_disk_leaves_the_last_checkpoint_usable(
    sources: Sources, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    honest: Any = getattr(SentimentTrainer, failing)

    def full(trainer: Any, folder: str, **keywords: Any) -> None:
        if trainer.state.global_step == 8:
            Path(folder).mkdir(parents=True, exist_ok=True)
            (Path(folder) / "model.safetensors").write_bytes(b"as far as it")
            raise OSError(errno.ENOSPC, "No space left on device")
        honest(trainer, folder, **keywords)

    monkeypatch.setattr(SentimentTrainer, failing, full)
    with pytest.raises(TrainingError, match=r"checkpoint of step 8 .*No space left.*checkpoint-4\. Free .*--resume"):
        run(sources, QUICK, tmp_path / "out", console, resume=False, force=False, keep=False)
    monkeypatch.undo()
    done = run(sources, QUICK, tmp_path / "out", console, resume=True, force=False, keep=False)
    assert (done["training"]["resumed_at_step"], done["training"]["steps"]) == (4, 12)


def test_published_answers_must_fit_the_test_tweets(sources: Sources, tmp_path: Path, console: Console) -> None:
    for content in ("1\n0\n", "1\n" * 59 + "7\n", "x\n" * 60):
        (tmp_path / "p.txt").write_text(content, "utf-8")
        asked = dataclasses.replace(sources, published=str(tmp_path / "p.txt"))
        with pytest.raises(TrainingError, match=r"p\.txt"):
            run(asked, QUICK, tmp_path / "out", console, resume=False, force=False, keep=False)
    assert not (tmp_path / "out").exists()


def test_settings_of_a_run_are_written_down(tmp_path: Path) -> None:
    folder = output.claim(tmp_path / "new", SETTINGS, resume=True, force=False)
    assert json.loads((folder / "settings.json").read_text("utf-8")) == SETTINGS


def test_several_processes_would_write_over_each_other(
    sources: Sources, tmp_path: Path, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TrainingError, match="in one process"):
        run(sources, QUICK, tmp_path / "out", console, resume=False, force=False, keep=False)


def test_a_disk_that_is_full_at_the_end_is_one_sentence(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded = load(str(base), LABELS)

    def full(*_: Any, **__: Any) -> None:
        raise SafetensorError("I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(type(loaded.model), "save_pretrained", full)
    with pytest.raises(TrainingError, match=r"No space left .*--resume"):
        output.store(loaded.model, loaded.tokenizer, tmp_path, "fp16")
