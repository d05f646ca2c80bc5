"""Files on disk, before they are packed."""

import os
from pathlib import Path

import pytest

from marsmith.lint.sources import lint_sources
from tests.packaging.lint.test_lint_secrets import TOKENS
from tests.packaging.lint.trees import codes, only


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "model"
    (folder / "deep").mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "deep/weights.bin").write_bytes(b"\0" * 100)
    (tmp_path / "outside.txt").write_text("private")
    return folder


def all_files(root: Path) -> list[Path]:
    return sorted(file for file in root.rglob("*") if not file.is_dir())


def test_ordinary_files_have_no_finding(root: Path) -> None:
    assert lint_sources(root, all_files(root)) == []


def test_a_link_that_stays_inside_is_fine(root: Path) -> None:
    (root / "link.json").symlink_to("config.json")
    assert lint_sources(root, all_files(root)) == []


@pytest.mark.parametrize("target", ["../outside.txt", "/etc/hostname"])
def test_a_link_that_leaves_the_directory_is_named(root: Path, target: str) -> None:
    """The stock archiver follows it and packs what it finds."""
    (root / "link.txt").symlink_to(target)
    finding = only(lint_sources(root, all_files(root)), "M412")
    assert finding.where == "link.txt"
    assert "copy" in finding.remedy


def test_a_file_below_a_link_that_leaves_is_named(root: Path, tmp_path: Path) -> None:
    (root / "out").symlink_to(tmp_path)
    assert only(lint_sources(root, [root / "out/outside.txt"]), "M412").where == "out/outside.txt"


def test_a_root_that_is_itself_a_link_is_fine(root: Path, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(root)
    assert lint_sources(tmp_path / "alias", all_files(tmp_path / "alias")) == []


def test_what_cannot_be_read_is_found(root: Path) -> None:
    (root / "loop").symlink_to("loop")
    (root / "dangling").symlink_to("nothing")
    os.mkfifo(root / "pipe")  # would wait for ever if it were opened
    findings = lint_sources(root, [root / "loop", root / "dangling", root / "pipe", root / "deep", root / "absent"])
    assert [one.where for one in findings if one.code == "M410"] == ["loop", "dangling", "pipe", "deep", "absent"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_rights_is_found(root: Path) -> None:
    (root / "config.json").chmod(0)
    assert only(lint_sources(root, all_files(root)), "M410").where == "config.json"


def test_a_name_that_is_no_utf8_is_found(root: Path) -> None:
    name = os.fsdecode(b"caf\xe9.txt")
    (root / name).write_text("x")
    finding = only(lint_sources(root, all_files(root)), "M401")
    assert finding.where == "caf\\udce9.txt"


def test_secrets_are_found_by_name_and_by_content(root: Path) -> None:
    (root / ".env").write_text("X=1")
    (root / "notes.md").write_text(TOKENS["a Hugging Face token"])
    findings = lint_sources(root, all_files(root))
    assert [(one.code, one.where) for one in findings] == [("M405", ".env"), ("M405", "notes.md")]


def test_names_that_differ_only_in_case_are_found(root: Path) -> None:
    (root / "Config.json").write_text("{}")
    assert codes(lint_sources(root, all_files(root))) == ["M404"]
