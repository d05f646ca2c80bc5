"""`marsmith archive` beside torch-model-archiver itself, on generated inputs.

Where both take a case, they must agree on every member's name and bytes and on the manifest.
"""

import contextlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from model_archiver.model_archiver_config import ModelArchiverConfig
from model_archiver.model_packaging import generate_model_archive

from marsmith.archiver import archive
from marsmith.errors import MarsmithError
from marsmith.mar.formats import ENDINGS
from marsmith.mar.members import MANIFEST
from tests.packaging.archiver.cases import (
    CASES,
    INPUTS,
    LINKS,
    RECORDS,
    SINGLE,
    Case,
    kept,
)
from tests.packaging.archiver.packing import HANDLER, contents


@contextlib.contextmanager
def laid_out(case: Case) -> Iterator[Path]:
    """A working directory with the case's files; temporary files go to a directory of its own."""
    with tempfile.TemporaryDirectory() as base, pytest.MonkeyPatch.context() as patch:
        work = Path(base, "work")
        for path, content in [*INPUTS.values(), SINGLE, ("inputs/handler.py", HANDLER.encode())]:
            put(work / path, content)
        put(work / "inputs/my-handler.py", HANDLER.encode())
        for name, tree in zip(("one", "two", "three"), case.trees, strict=True):
            (work / name).mkdir()
            for path, content in tree.items():
                put(work / name / path, content)
        if case.link:
            lay_link(work / "one", case.link)
        Path(base, "tmp").mkdir()
        patch.setattr(tempfile, "tempdir", str(Path(base, "tmp")))
        with contextlib.chdir(work):
            yield work


def lay_link(directory: Path, kind: str) -> None:
    path, target, tree = LINKS[kind]
    link = directory / path
    for name, content in tree.items():
        if name.startswith("real/"):
            put(directory / name, content)
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)


def put(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def output(case: Case, whose: str) -> Path:
    """Where one of the two writes; what must not be there is not, and what must be is."""
    store = Path("made", whose, case.export)
    path = store / f"{case.name}{ENDINGS[case.archive_format]}"
    if case.export == "store":
        store.mkdir(parents=True)
        if case.exists and case.archive_format == "no-archive":
            put(path / MANIFEST, b"{}")
            put(path / "stale.txt", b"of the build before")
        elif case.exists:
            put(path, b"of the build before")
    return path


def ours(case: Case) -> dict[str, bytes] | None:
    path = output(case, "ours")
    before = snapshot()
    try:
        archived = archive(export_path=path.parent, **case.flags())
    except MarsmithError:
        assert snapshot() == before
        return None
    assert archived.path == path
    assert archived.members == len(contents(path))
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert list(path.parent.iterdir()) == [path]
    return contents(path)


def snapshot() -> list[Path]:
    return sorted([*Path().rglob("*"), *Path(tempfile.gettempdir()).rglob("*")])


def theirs(case: Case) -> dict[str, bytes] | None:
    path = output(case, "theirs")
    try:
        generate_model_archive(ModelArchiverConfig(export_path=str(path.parent), **case.flags()))
    except Exception:  # it raises whatever it meets
        return None
    finally:
        shutil.rmtree(tempfile.gettempdir())
    return contents(path)


def manifest(members: Mapping[str, bytes]) -> dict[str, Any]:
    value = json.loads(members[MANIFEST])
    assert isinstance(value, dict)
    return value | {"createdOn": None}


@pytest.mark.slow
@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CASES)
@example(
    Case(inputs=frozenset(INPUTS), pieces=("one", "t*"), trees=({"a.txt": b"a"}, {"sub/b": b"b"}, {"ü.bin": b"c"}))
)
@example(Case(pieces=("one", "two"), trees=({"sub/a": b"a"}, {"sub/b": b"b"}, {})))
@example(Case(pieces=("one", "two"), trees=({"sub": b"a"}, {"sub/b": b"b"}, {})))
@example(Case(pieces=("one", "two"), trees=({"a.txt": b"a"}, {"a.txt": b"a"}, {})))
@example(Case(pieces=("one",), trees=({"MAR-INF/MANIFEST.json": b"{}"}, {}, {})))
@example(Case(pieces=("one",), trees=({"handler.py": b""}, {}, {})))
@example(Case(pieces=("single.txt", "one"), separator=", "))
@example(Case(handler="inputs/handler.py:handle"))
@example(Case(export="missing"))
@example(Case(archive_format="no-archive", exists=True, force=True))
@example(Case(handler="image_classifier"))
@example(Case(handler="image_classifier", inputs=frozenset({"serialized_file"})))
def test_both_agree_but_for_what_is_documented(case: Case) -> None:
    with laid_out(case):
        mine = ours(case)
        others = theirs(case) if mine else None
    faults = case.faults()
    assert (mine is None) == bool(faults), faults
    if mine is None:
        return
    assert {name: data for name, data in mine.items() if name not in RECORDS} == case.members()
    only_ours = case.only_ours()
    assert (others is None) == bool(only_ours), only_ours
    if others is None:
        return
    agreed = {name: data for name, data in others.items() if kept(name) and name not in RECORDS | {"stale.txt"}}
    assert agreed == case.members()
    assert list(manifest(mine)) == list(manifest(others))
    assert list(manifest(mine)["model"].items()) == list(manifest(others)["model"].items())
    assert manifest(mine) == manifest(others)
