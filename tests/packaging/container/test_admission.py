"""What the container serves is what it verified: models are taken into a store of its own first."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from marsmith.builder import Built
from marsmith.container import admission
from marsmith.container.admission import admit_archive, admit_tree, dismiss
from marsmith.container.plan import admit_models
from marsmith.container.settings import Settings
from marsmith.errors import ArchiveError, ContainerError, VerifyError
from marsmith.mar.keys import keygen
from marsmith.mar.members import CONFIG, DIGESTS
from marsmith.mar.reader import extract_archive, read_yaml
from marsmith.mar.signing import sign
from marsmith.mar.unpacked import verify_unpacked
from marsmith.torchserve.store import startup_timeout_s


@pytest.fixture
def store(tmp_path: Path, sentiment_archive: Built, food_archive: Built) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    for built in (sentiment_archive, food_archive):
        shutil.copy(built.path, directory)
    return directory


@pytest.fixture
def settings(store: Path, tmp_path: Path) -> Settings:
    return Settings(store, tmp_path / "home")


@pytest.fixture
def tree(sentiment_archive: Built, tmp_path: Path) -> Path:
    directory = tmp_path / "tree"
    extract_archive(sentiment_archive.path, directory)
    return directory


def left_over(settings: Settings) -> list[str]:
    """What is in the container's store, hidden or not."""
    return sorted(path.name for path in settings.store.iterdir())


def test_archives_are_served_by_their_models_names(settings: Settings, store: Path) -> None:
    (store / "food.mar").rename(store / "of-another-name.mar")
    assert admit_models(settings) == {"food": store / "of-another-name.mar", "sentiment": store / "sentiment.mar"}
    assert left_over(settings) == ["food", "sentiment"]
    for name in ("food", "sentiment"):
        verify_unpacked(settings.store / name)


def test_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match=r"no archive in .*marsmith image build, or mount"):
        admit_models(Settings(tmp_path, tmp_path / "home"))


def test_two_models_with_the_same_name_are_refused(settings: Settings, store: Path) -> None:
    shutil.copy(store / "food.mar", store / "again.mar")
    with pytest.raises(ContainerError, match="Two models are called food"):
        admit_models(settings)


def test_a_damaged_archive_is_never_served(settings: Settings, store: Path) -> None:
    content = bytearray((store / "food.mar").read_bytes())
    content[len(content) // 2] ^= 1
    (store / "food.mar").write_bytes(content)
    with pytest.raises(VerifyError, match=r"food\.mar is not to be trusted"):
        admit_archive(store / "food.mar", settings)
    assert left_over(settings) == []


def test_a_required_signature_is_required_of_every_archive(store: Path, tmp_path: Path) -> None:
    public = keygen(tmp_path / "key.pem")
    settings = Settings(store, tmp_path / "home", require_signature=True, key=public)
    sign(store / "food.mar", tmp_path / "key.pem")
    with pytest.raises(VerifyError, match="not signed"):
        admit_models(settings)
    sign(store / "sentiment.mar", tmp_path / "key.pem")
    assert len(admit_models(settings)) == 2


def test_an_archive_that_changes_after_it_was_read_is_not_what_is_served(
    settings: Settings, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever replaces it between any two steps, as whoever may write to the mounted volume can."""
    steps = ("fill", "_keep")
    for step in steps:
        shutil.rmtree(settings.store, ignore_errors=True)
        shutil.copy(store / "sentiment.mar", store / "food.mar.saved")
        original = getattr(admission, step)

        def replacing(*arguments: Any, _original: Any = original, **named: Any) -> object:
            result = _original(*arguments, **named)
            (store / "sentiment.mar").write_bytes(b"another archive")
            return result

        with monkeypatch.context() as patched:
            patched.setattr(admission, step, replacing)
            assert admit_archive(store / "sentiment.mar", settings) == "sentiment"
        verify_unpacked(settings.store / "sentiment")
        shutil.move(store / "food.mar.saved", store / "sentiment.mar")


def test_a_tree_that_changes_while_it_is_copied_is_refused(
    tree: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changing(*arguments: Any, **named: Any) -> object:
        with (tree / "handlers/base.py").open("a") as stream:
            stream.write("import os\n")
        return copytree(*arguments, **named)

    copytree = shutil.copytree
    monkeypatch.setattr(shutil, "copytree", changing)
    with pytest.raises(VerifyError, match=r"the content of handlers/base\.py was changed"):
        admit_tree(tree, settings)
    assert left_over(settings) == []


def test_a_tree_is_served_by_the_name_that_is_asked_for(tree: Path, settings: Settings) -> None:
    assert admit_tree(tree, settings) == "sentiment"
    assert admit_tree(tree, settings, "another") == "another"
    with pytest.raises(ContainerError, match="Two models are called another"):
        admit_tree(tree, settings, "another")
    verify_unpacked(settings.store / "another")
    dismiss("another", settings)
    assert left_over(settings) == ["sentiment"]


@pytest.mark.parametrize("kind", ["added", "link", "pipe", "no digests"])
def test_a_tree_that_is_not_what_was_built_is_refused(tree: Path, settings: Settings, kind: str) -> None:
    if kind == "added":
        (tree / "sitecustomize.py").write_text("raise SystemExit\n")
    elif kind == "link":
        (tree / "handlers/link.py").symlink_to("base.py")
    elif kind == "pipe":
        os.mkfifo(tree / "pipe")
    else:
        (tree / DIGESTS).unlink()
    with pytest.raises((VerifyError, ArchiveError)):
        admit_tree(tree, settings)
    assert not (settings.store / "sentiment").exists()


def test_what_an_earlier_container_left_is_not_served(settings: Settings) -> None:
    (settings.store / "old").mkdir(parents=True)
    assert sorted(admit_models(settings)) == left_over(settings) == ["food", "sentiment"]


def test_the_environment_changes_the_time_outs_of_every_archive(store: Path, tmp_path: Path) -> None:
    settings = Settings(store, tmp_path / "home", startup_timeout_s=900, response_timeout_s=600)
    for name in admit_models(settings):
        tree = settings.store / name
        assert startup_timeout_s(tree) == 900
        before, after = read_yaml(store / f"{name}.mar", CONFIG), read_yaml(tree, CONFIG)
        assert after == before | {"startupTimeout": 900, "responseTimeout": 600}


def test_a_home_without_room_says_what_to_mount(store: Path, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")
    with pytest.raises(ContainerError, match="mount a volume with room"):
        admit_models(Settings(store, tmp_path / "home"))
