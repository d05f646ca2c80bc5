"""Only whole checkpoints count, and the last whole one is never given up."""

from pathlib import Path

import pytest

from training.sentiment.checkpoints import PICKLED_ARGUMENTS, discard, is_sealed, seal, sealed, step_of


def written(folder: Path, step: int, *, whole: bool = True) -> Path:
    checkpoint = folder / f"checkpoint-{step}"
    checkpoint.mkdir(parents=True)
    (checkpoint / "model.safetensors").write_bytes(b"weights")
    (checkpoint / PICKLED_ARGUMENTS).write_bytes(b"pickle")
    if whole:
        seal(checkpoint)
    return checkpoint


def steps(folder: Path) -> list[int]:
    return sorted(step_of(path) for path in folder.iterdir())


def test_a_seal_is_good_until_a_file_changes_its_size_or_goes(tmp_path: Path) -> None:
    checkpoint = written(tmp_path, 3)
    assert is_sealed(checkpoint)
    (checkpoint / "model.safetensors").write_bytes(b"weig")
    assert not is_sealed(checkpoint)
    (checkpoint / "model.safetensors").unlink()
    assert not is_sealed(checkpoint)


def test_no_pickle_stays_in_a_sealed_checkpoint(tmp_path: Path) -> None:
    assert not (written(tmp_path, 3) / PICKLED_ARGUMENTS).exists()


@pytest.mark.parametrize("content", ["", "[]", '{"missing": 1}', "7"])
def test_a_broken_seal_is_none(tmp_path: Path, content: str) -> None:
    checkpoint = written(tmp_path, 3)
    (checkpoint / "sealed.json").write_text(content, "utf-8")
    assert not is_sealed(checkpoint)


def test_whole_checkpoints_are_listed_by_step(tmp_path: Path) -> None:
    for step in (100, 20, 3):
        written(tmp_path, step)
    written(tmp_path, 200, whole=False)
    assert [step_of(path) for path in sealed(tmp_path)] == [3, 20, 100]
    assert sealed(tmp_path / "nowhere") == []


@pytest.mark.parametrize(("best", "kept"), [(1, [1, 4]), (4, [3, 4]), (None, [3, 4]), (3, [3, 4])])
def test_the_newest_and_the_best_are_kept(tmp_path: Path, best: int | None, kept: list[int]) -> None:
    for step in (1, 2, 3, 4):
        written(tmp_path, step)
    written(tmp_path, 5, whole=False)
    discard(tmp_path, best)
    assert steps(tmp_path) == kept


def test_nothing_whole_is_removed_for_one_that_is_not(tmp_path: Path) -> None:
    written(tmp_path, 1)
    written(tmp_path, 2, whole=False)
    discard(tmp_path, 2)
    assert steps(tmp_path) == [1]
