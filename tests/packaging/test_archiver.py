"""`marsmith archive` stands in for torch-model-archiver: the same flags, and no wrong input passes in silence."""

import argparse
import json
import os
import stat
import struct
import tarfile
import tempfile
import tracemalloc
import typing
import zipfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

import marsmith.lint
from marsmith import mar
from marsmith.archiver import Archived, archive
from marsmith.cli.archiver import archive as command
from marsmith.errors import ArchiveError, LintError
from marsmith.lint.findings import RULES, Finding, Rule
from marsmith.signing import keygen, sign
from marsmith.verify import verify

HANDLER = "def handle(data, context):\n    return data\n"
FORMATS = ("default", "zip-store", "tgz", "no-archive")
ENDINGS = {"default": "m.mar", "zip-store": "m.mar", "tgz": "m.tar.gz", "no-archive": "m"}
MIB = 1 << 20


def contents(path: Path) -> dict[str, bytes]:
    """The members of an archive of any format, in its order, without the root directory of a .tar.gz."""
    if path.is_dir():
        return {str(file.relative_to(path)): file.read_bytes() for file in path.rglob("*") if file.is_file()}
    if path.suffix == ".mar":
        with zipfile.ZipFile(path) as zip_file:
            names = zip_file.namelist()
            assert len(names) == len(set(names))
            return {name: zip_file.read(name) for name in names}
    root = path.name.removesuffix(".tar.gz") + "/"
    found = {}
    with tarfile.open(path) as tar:
        for entry in tar:
            reader = tar.extractfile(entry)
            assert reader is not None
            assert entry.name.startswith(root)
            found[entry.name.removeprefix(root)] = reader.read()
    return found


def names(path: Path) -> set[str]:
    """The members that are not the archiver's own."""
    return contents(path).keys() - {mar.MANIFEST, mar.DIGESTS}


def manifest(path: Path) -> dict[str, Any]:
    value = json.loads(contents(path)[mar.MANIFEST])
    assert isinstance(value, dict)
    return value


def write(path: Path, content: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content, encoding="utf-8")
    return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory that holds a handler, and a directory for temporary files that must stay empty."""
    scratch = tmp_path / "tmp"
    scratch.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    directory = tmp_path / "work"
    write(directory / "handler.py", HANDLER)
    monkeypatch.chdir(directory)
    return directory


def pack(**flags: Any) -> Archived:
    return archive(**{"model_name": "m", "handler": "handler.py", "version": "1.0", **flags})


def refused(**flags: Any) -> str:
    """The one sentence of what is refused; nothing was written."""
    before = sorted(Path().rglob("*"))
    with pytest.raises((ArchiveError, LintError)) as caught:
        pack(**flags)
    assert sorted(Path().rglob("*")) == before
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert sentence.endswith(".")
    return sentence


# What right input gives


@pytest.mark.parametrize("archive_format", FORMATS)
def test_every_format_holds_the_same_members(here: Path, archive_format: str) -> None:
    write(here / "net/model.py", "import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n")
    write(here / "net/model.pt", "weights")
    write(here / "requirements.txt", "numpy==2.0\n")
    write(here / "config/model-config.yaml", "minWorkers: 1\nmaxWorkers: 1\n")
    write(here / "extra/labels.json", "{}")
    write(here / "extra/sub/deep/vocab.txt", "a b")
    archived = pack(
        serialized_file="net/model.pt",
        model_file=Path("net/model.py"),
        extra_files="extra",
        requirements_file="requirements.txt",
        config_file="config/model-config.yaml",
        archive_format=archive_format,
        export_path="store",
    )
    assert archived.path == Path("store", ENDINGS[archive_format])
    assert names(archived.path) == {
        *("handler.py", "labels.json", "model-config.yaml", "model.pt", "model.py", "requirements.txt"),
        "sub/deep/vocab.txt",
    }
    assert archived.members == len(contents(archived.path))
    assert (mar.DIGESTS in contents(archived.path)) == (archived.path.suffix == ".mar")
    assert contents(archived.path)["sub/deep/vocab.txt"] == b"a b"
    assert contents(archived.path)[mar.MANIFEST].decode() == json.dumps(
        {
            "createdOn": "01/01/1980 00:00:00",
            "runtime": "python",
            "model": {
                "modelName": "m",
                "serializedFile": "model.pt",
                "handler": "handler.py",
                "modelFile": "model.py",
                "modelVersion": "1.0",
                "requirementsFile": "requirements.txt",
                "configFile": "model-config.yaml",
            },
            "archiverVersion": "0.12.0",
        },
        indent=2,
    )


def test_what_is_not_given_is_not_in_the_manifest_and_an_empty_string_gives_nothing(here: Path) -> None:
    path = pack(serialized_file="", model_file=None, requirements_file="", config_file="", extra_files="").path
    assert manifest(path)["model"] == {"modelName": "m", "handler": "handler.py", "modelVersion": "1.0"}


@pytest.mark.parametrize("archive_format", FORMATS)
def test_the_size_is_that_of_what_was_written(here: Path, archive_format: str) -> None:
    archived = pack(archive_format=archive_format)
    if archived.path.is_dir():
        assert archived.size == sum(map(len, contents(archived.path).values()))
    else:
        assert archived.size == archived.path.stat().st_size


@pytest.mark.parametrize("archive_format", ["default", "zip-store", "tgz"])
def test_two_builds_have_the_same_bytes_whatever_the_clock_the_umask_and_the_modes(
    here: Path, archive_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "cab":
        write(here / "extra" / name, name)
    first = pack(archive_format=archive_format, extra_files="extra", export_path="one").path.read_bytes()
    os.utime(here / "extra/a", (0, 0))
    (here / "extra/b").chmod(0o700)
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    previous = os.umask(0o077)
    try:
        second = pack(archive_format=archive_format, extra_files="extra/c,extra/b,extra/a", export_path="two").path
    finally:
        os.umask(previous)
    assert second.read_bytes() == first


@pytest.mark.parametrize(
    ("archive_format", "deflated"), [("default", {"handler.py", mar.MANIFEST}), ("zip-store", set())]
)
def test_weights_are_stored_in_a_mar_and_with_zip_store_everything_is(
    here: Path, archive_format: str, deflated: set[str]
) -> None:
    """pytorch/serve#2196: deflating weights costs minutes."""
    write(here / "model.pt", "0" * 9999)
    with zipfile.ZipFile(pack(serialized_file="model.pt", archive_format=archive_format).path) as zip_file:
        found = {one.filename for one in zip_file.infolist() if one.compress_type == zipfile.ZIP_DEFLATED}
    assert found == deflated


def test_a_tgz_has_a_root_directory_and_nothing_of_who_packed_it(here: Path) -> None:
    """TorchServe strips the first directory of every entry: pytorch/serve#2405."""
    write(here / "extra/b/x.txt")
    write(here / "extra/姓 名.txt", "n")
    write(here / "extra/a.sh").chmod(0o777)
    path = pack(archive_format="tgz", extra_files="extra").path
    with tarfile.open(path) as tar:
        entries = tar.getmembers()
    assert [entry.name for entry in entries] == [
        *("m/a.sh", "m/b/x.txt", "m/handler.py", "m/姓 名.txt", "m/MAR-INF/MANIFEST.json")
    ]
    for entry in entries:
        assert (entry.mode, entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname) == (0o644, 0, 0, 0, "", "")
        assert entry.isreg()
    magic, _, flags, clock = struct.unpack("<HBBI", path.read_bytes()[:8])
    assert (magic, flags, clock) == (0x8B1F, 0, 0)


@pytest.mark.parametrize("archive_format", ["default", "zip-store"])
def test_a_mar_can_be_verified_and_signed(here: Path, archive_format: str) -> None:
    """pytorch/serve#47: torch-model-archiver writes no digests."""
    path = pack(archive_format=archive_format).path
    report = verify(path)
    assert (report.ok, report.sealed, report.members) == (True, True, 3)
    public = keygen(here / "key.pem")
    sign(path, here / "key.pem")
    assert verify(path, public, require_signature=True).signature == "valid"


@pytest.mark.parametrize("archive_format", FORMATS)
def test_memory_stays_flat(here: Path, archive_format: str) -> None:
    with (here / "model.pt").open("wb") as stream:
        stream.truncate(64 * MIB)
    pack(archive_format=archive_format, export_path="warm")
    tracemalloc.start()
    try:
        pack(serialized_file="model.pt", archive_format=archive_format)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 24 * MIB


# Handlers


@pytest.mark.parametrize(
    ("spelling", "in_manifest"),
    [
        ("code/handler.py", "handler.py"),
        ("code/handler", "handler"),
        ("code/handler:handle", "handler:handle"),
        ("code/handler.py:handle", "handler.py:handle"),  # torch-model-archiver finds no such file
        ("./code/../code/handler.py", "handler.py"),
    ],
)
def test_a_handler_may_be_spelled_in_many_ways(here: Path, spelling: str, in_manifest: str) -> None:
    """pytorch/serve#463, #465, #1313."""
    write(here / "code/handler.py", HANDLER)
    path = pack(handler=spelling).path
    assert names(path) == {"handler.py"}
    assert manifest(path)["model"]["handler"] == in_manifest


def test_a_handler_lies_in_a_directory_whose_name_ends_like_a_module(here: Path) -> None:
    write(here / "my.py/handler.py", HANDLER)
    assert names(pack(handler="my.py/handler").path) == {"handler.py"}


def test_torchserves_own_handlers_are_no_files(here: Path) -> None:
    write(here / "model.pt")
    write(here / "image_classifier.py", "not this one")
    path = pack(handler="image_classifier", serialized_file="model.pt", extra_files=()).path
    assert names(path) == {"model.pt"}
    assert manifest(path)["model"]["handler"] == "image_classifier"


@pytest.mark.parametrize(("handler", "members"), [("lib/libm:Handler", {"libm.so"}), ("TorchScriptHandler", set())])
def test_the_cpp_runtime_takes_shared_objects(here: Path, handler: str, members: set[str]) -> None:
    write(here / "lib/libm.so", "\x7fELF")
    write(here / "model.pt")
    path = pack(handler=handler, runtime="LSP", serialized_file="model.pt").path
    assert names(path) == members | {"model.pt"}
    assert manifest(path)["runtime"] == "LSP"
    assert manifest(path)["model"]["handler"] == handler.removeprefix("lib/")


def test_a_worker_loads_a_function_of_a_file_with_its_ending(here: Path) -> None:
    """torch-model-archiver refuses FILE.py:FUNCTION, and TorchServe's model loader takes it."""
    from marsmith.worker import Worker, WorkerRequest

    write(here / "shout.py", "def shout(data, context):\n    return [row['body'].upper() for row in data or []]\n")
    with Worker(pack(handler="shout.py:shout").path) as worker:
        (answer,) = worker.predict([WorkerRequest.raw(b"hello", "text/plain")])
    assert (answer.status, answer.body) == (200, b"HELLO")


def test_a_stock_handler_that_reads_its_configuration_needs_no_network(here: Path) -> None:
    write(here / "model-config.yaml", "minWorkers: 1\nmaxWorkers: 1\nhandler:\n  model_path: model\n")
    assert names(pack(handler="vllm_handler", config_file="model-config.yaml").path) == {"model-config.yaml"}


# Extra files


@pytest.mark.parametrize(
    ("extra_files", "members"),
    [
        ("extra/a.txt", {"a.txt"}),
        ("extra/a.txt,other/b.txt", {"a.txt", "b.txt"}),
        (" extra/a.txt , other/b.txt,", {"a.txt", "b.txt"}),  # torch-model-archiver finds no file ' other/b.txt'
        ("extra", {"a.txt", "b.bin", "sub/c.txt"}),
        ("extra/", {"a.txt", "b.bin", "sub/c.txt"}),
        ("ext*", {"a.txt", "b.bin", "sub/c.txt"}),
        ("extra/*.txt", {"a.txt"}),
        ("extra/*", {"a.txt", "b.bin", "c.txt"}),
        ("extra/[ab].???", {"a.txt", "b.bin"}),
        (["extra/a.txt", "other/x, y.txt"], {"a.txt", "x, y.txt"}),
        ([Path("extra/*.bin"), Path("other")], {"b.bin", "b.txt", "x, y.txt"}),
    ],
)
def test_extra_files_are_files_directories_and_globs(
    here: Path, extra_files: str | Sequence[str | Path], members: set[str]
) -> None:
    for name in ("extra/a.txt", "extra/b.bin", "extra/sub/c.txt", "other/b.txt", "other/x, y.txt"):
        write(here / name, name)
    assert names(pack(extra_files=extra_files).path) == {"handler.py", *members}


def test_caches_hidden_directories_and_archives_are_dropped_and_dot_files_are_kept(here: Path) -> None:
    for name in (".git/config", "__pycache__/a.pyc", "__MACOSX/x", "sub/.cache/x", "sub/__pycache__/y"):
        write(here / "extra" / name)
    for name in ("loose.pyc", ".DS_Store", "sub/.DS_Store", "old.mar", ".flags", "sub/.keep", "pycache"):
        write(here / "extra" / name)
    members = {"handler.py", ".flags", "sub/.keep", "pycache"}
    assert names(pack(extra_files="extra").path) == members
    assert names(pack(extra_files="extra/*", export_path="globbed").path) == {"handler.py", ".keep", "pycache"}


@pytest.mark.parametrize("name", ["extra/loose.pyc", "extra/__pycache__", "extra/.hidden"])
def test_what_is_named_is_packed_whatever_its_kind(here: Path, name: str) -> None:
    for file in ("loose.pyc", "__pycache__/loose.pyc2", ".hidden/loose.txt"):
        write(here / "extra" / file)
    assert any(member.startswith("loose.") for member in names(pack(extra_files=name).path))


@pytest.mark.parametrize("archive_format", FORMATS)
def test_an_archive_is_never_packed_into_the_next(here: Path, archive_format: str) -> None:
    for _ in range(2):
        path = pack(extra_files=".", archive_format=archive_format, force=True).path
        assert names(path) == {"handler.py"}
    for _ in range(2):
        path = pack(extra_files="*", archive_format=archive_format, force=True).path
        assert names(path) == {"handler.py"}


def test_a_file_with_brackets_in_its_name_is_packed(here: Path) -> None:
    """torch-model-archiver takes it for a glob that matches nothing, and says so in a log line only."""
    write(here / "part[1].bin")
    assert names(pack(extra_files="part[1].bin").path) == {"handler.py", "part[1].bin"}
    write(here / "part1.bin")
    sentence = refused(extra_files="part[1].bin", force=True)
    assert "part[1].bin is a file and also a pattern that matches part1.bin" in sentence


# One member, two sources


def test_two_directories_with_one_file_are_refused(here: Path) -> None:
    """pytorch/serve#1227, #815, #1689, #566: the second one used to win."""
    write(here / "a/config.json", "{}")
    write(here / "b/config.json", "[]")
    sentence = refused(extra_files="a,b")
    assert "a/config.json and b/config.json both want to be config.json" in sentence
    write(here / "both/a/config.json", "{}")
    write(here / "both/b/config.json", "[]")
    assert names(pack(extra_files="both").path) == {"handler.py", "a/config.json", "b/config.json"}


@pytest.mark.parametrize(
    ("flag", "name"),
    [
        ("handler", "handler.py"),
        ("serialized_file", "model.pt"),
        ("model_file", "model.py"),
        ("requirements_file", "requirements.txt"),
        ("config_file", "model-config.yaml"),
    ],
)
def test_an_extra_file_named_like_another_input_is_refused(here: Path, flag: str, name: str) -> None:
    """pytorch/serve#1227: the archive held the other file's class."""
    write(here / "mine" / name, HANDLER)
    write(here / "extra" / name, HANDLER)
    sentence = refused(**{flag: f"mine/{name}", "extra_files": "extra"})
    assert f"mine/{name} and extra/{name} both want to be {name}" in sentence


def test_two_named_files_of_one_name_are_refused(here: Path) -> None:
    write(here / "a/x.py")
    write(here / "b/x.py")
    assert "b/x.py and a/x.py both want to be x.py" in refused(serialized_file="b/x.py", model_file="a/x.py")


def test_one_file_may_be_named_twice(here: Path) -> None:
    write(here / "requirements.txt", "numpy==2.0\n")
    (here / "also").symlink_to(here)
    path = pack(requirements_file="requirements.txt", extra_files="requirements.txt,handler.py,also/handler.py").path
    assert names(path) == {"handler.py", "requirements.txt"}


def test_directories_of_one_name_are_merged_when_no_file_collides(here: Path) -> None:
    """torch-model-archiver ends with a FileExistsError and leaves its copies behind."""
    write(here / "a/sub/x.txt")
    write(here / "b/sub/y.txt")
    assert names(pack(extra_files="a,b").path) == {"handler.py", "sub/x.txt", "sub/y.txt"}
    write(here / "b/sub/x.txt")
    assert "a/sub/x.txt and b/sub/x.txt both want to be sub/x.txt" in refused(extra_files="a,b", export_path="store")


@pytest.mark.parametrize("extra_files", ["a,b", "b,a"])
def test_a_name_cannot_be_a_file_and_a_directory(here: Path, extra_files: str) -> None:
    write(here / "a/sub")
    write(here / "b/sub/x.txt")
    sentence = refused(extra_files=extra_files)
    assert "a/sub" in sentence
    assert "b/sub/x.txt" in sentence


@pytest.mark.parametrize("name", ["MAR-INF/MANIFEST.json", "MAR-INF/digests.json", "MAR-INF/signature.json", "MAR-INF"])
@pytest.mark.parametrize("archive_format", FORMATS)
def test_the_archivers_own_records_cannot_be_brought(here: Path, archive_format: str, name: str) -> None:
    """torch-model-archiver writes a zip file with two manifests."""
    write(here / "extra" / name, "{}")
    sentence = refused(extra_files="extra", archive_format=archive_format)
    assert f"extra/{name}" in sentence


# What lint sees before anything is written

CLASSIFIER = (
    "from ts.torch_handler.image_classifier import ImageClassifier\n\n\nclass Mine(ImageClassifier):\n    pass\n"
)
TWO_CLASSES = "class One:\n    pass\n\n\nclass Two:\n    pass\n"


@pytest.mark.parametrize(
    ("files", "flags", "says"),
    [
        ({"broken.py": "def handle(:\n"}, {"handler": "broken.py"}, "broken.py"),
        ({"torch.py": HANDLER}, {"handler": "torch.py"}, "torch.py"),
        ({"extra/json.py": ""}, {"extra_files": "extra"}, "json.py"),
        ({"a.b.py": HANDLER}, {"handler": "a.b.py"}, "a.b"),
        ({"two.py": TWO_CLASSES}, {"handler": "two.py"}, "One, Two"),  # pytorch/serve#1260
        ({"absent.py": f"import no_such_module\n\n\n{HANDLER}"}, {"handler": "absent.py"}, "no_such_module"),  # #1010
        ({}, {"handler": "handler.py:predict"}, "predict"),  # pytorch/serve#463
        ({}, {"model_name": "a..b"}, "a..b"),
        ({}, {"version": "../x y"}, "../x y"),
        ({}, {"version": ""}, "version"),
        ({"c.yaml": "a: [1"}, {"config_file": "c.yaml"}, "c.yaml"),
        ({"c.yaml": "minWorkers: 2\nmaxWorkers: 1\n"}, {"config_file": "c.yaml"}, "maxWorkers"),  # pytorch/serve#2038
        ({"model-config.yaml": "batchSize: 4\n"}, {"extra_files": "model-config.yaml"}, "model-config.yaml"),
        ({"r.txt": "numpy ==\n"}, {"requirements_file": "r.txt"}, "r.txt:1"),  # pytorch/serve#751
        ({"r.txt": "torch==2.4.0\n"}, {"requirements_file": "r.txt"}, "torch"),  # pytorch/serve#2238
        ({}, {"handler": "image_classifier"}, "serialized"),
        ({"model.bin": "w"}, {"handler": "image_classifier", "serialized_file": "model.bin"}, "model.bin"),
        ({"model.pth": "w"}, {"handler": "image_classifier", "serialized_file": "model.pth"}, "model.pth"),
        (
            {"model.safetensors": "w"},
            {"handler": "base_handler", "serialized_file": "model.safetensors"},
            ".safetensors",
        ),
        ({"mine.py": CLASSIFIER, "m.bin": "w"}, {"handler": "mine.py", "serialized_file": "m.bin"}, "m.bin"),
        ({"extra/.env": "KEY=1\n"}, {"extra_files": "extra"}, ".env"),
    ],
)
@pytest.mark.parametrize("archive_format", ["default", "no-archive"])
def test_what_would_not_serve_is_refused(
    here: Path, files: dict[str, str], flags: dict[str, Any], says: str, archive_format: str
) -> None:
    """torch-model-archiver packs every one of them without a word."""
    for name, content in files.items():
        write(here / name, content)
    sentence = refused(archive_format=archive_format, export_path="store", **flags)
    assert "would not serve as it should" in sentence
    assert says in sentence


@pytest.mark.parametrize(
    ("files", "flags"),
    [
        ({"my-handler.py": HANDLER}, {"handler": "my-handler.py"}),
        ({"mine.py": CLASSIFIER, "model.pt": "w"}, {"handler": "mine.py", "serialized_file": "model.pt"}),
        ({"model.onnx": "w"}, {"handler": "image_classifier", "serialized_file": "model.onnx"}),
        ({}, {"version": "v1-rc_2"}),
        ({}, {"model_name": "a.b_c-d"}),
    ],
)
def test_what_serves_is_packed(here: Path, files: dict[str, str], flags: dict[str, Any]) -> None:
    for name, content in files.items():
        write(here / name, content)
    assert names(pack(**flags).path) == ({*files} or {"handler.py"})


def test_what_may_be_meant_is_a_warning(here: Path) -> None:
    (warning,) = pack().warnings
    assert warning.where == "model-config.yaml"


# Links


def test_a_link_that_leaves_its_directory_is_refused(here: Path) -> None:
    """torch-model-archiver packs the content of whatever it leads to."""
    write(here / "secret")
    write(here / "secrets/key")
    write(here / "extra/a.txt")
    for target in ("secret", "secrets", "extra/../secret", "extra-not"):
        link = here / "extra/sub/link"
        link.parent.mkdir(exist_ok=True)
        write(here / "extra-not", "a name that begins like the directory's")
        link.symlink_to(here / target)
        sentence = refused(extra_files="extra")
        assert "extra/sub/link leaves" in sentence
        assert str((here / target).resolve()) in sentence
        link.unlink()


def test_a_link_that_a_glob_finds_may_not_leave_its_directory(here: Path) -> None:
    write(here / "secret")
    (here / "extra").mkdir()
    (here / "extra/a.txt").symlink_to("../secret")
    assert "extra/a.txt leaves" in refused(extra_files="extra/*.txt")


def test_a_link_to_a_file_that_is_named_is_followed(here: Path) -> None:
    """Checkpoints in a hub's cache are links to blobs: who names one means it."""
    write(here / "blobs/8f3a", "weights")
    write(here / "blobs/0001/x.txt", "in a directory")
    (here / "snapshot").mkdir()
    (here / "snapshot/model.pt").symlink_to("../blobs/8f3a")
    (here / "snapshot/extra").symlink_to("../blobs/0001")
    path = pack(serialized_file="snapshot/model.pt", extra_files="snapshot/extra").path
    assert names(path) == {"handler.py", "model.pt", "x.txt"}
    assert contents(path)["model.pt"] == b"weights"
    path = pack(extra_files="snapshot/model.pt", export_path="again").path
    assert contents(path)["model.pt"] == b"weights"


@pytest.mark.parametrize("archive_format", FORMATS)
def test_links_within_a_directory_are_followed(here: Path, archive_format: str) -> None:
    write(here / "extra/real/x.txt", "x")
    (here / "extra/file").symlink_to("real/x.txt")
    (here / "extra/again").symlink_to("real")
    (here / "extra/real/up.txt").symlink_to("../file")
    path = pack(extra_files="extra", archive_format=archive_format).path
    found = contents(path)
    assert names(path) == {"handler.py", "file", *(f"{d}/{f}" for d in ("real", "again") for f in ("x.txt", "up.txt"))}
    assert {found[name] for name in found if name.endswith((".txt", "file"))} == {b"x"}
    if path.is_dir():
        assert not any(file.is_symlink() for file in path.rglob("*"))


@pytest.mark.parametrize(
    ("links", "says"),
    [
        ({"a/self": "."}, "leads back to"),
        ({"a/up": ".."}, "leads back to"),
        ({"a/b": "../c", "c/a": "../a"}, "leads back to"),
        ({"a/x": "x"}, "leads nowhere"),
        ({"a/x": "y", "a/y": "x"}, "leads nowhere"),
        ({"a/x": "missing"}, "leads nowhere"),
        ({"x": "missing"}, "leads nowhere"),
    ],
)
def test_links_that_go_round_or_nowhere_are_refused(here: Path, links: dict[str, str], says: str) -> None:
    for name, target in links.items():
        link = here / "extra" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target)
    sentence = refused(extra_files="extra")
    assert says in sentence
    assert any(f"extra/{name}" in sentence for name in links)


# Inputs that are not there, or not files


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"handler": "nowhere.py"}, "There is no handler nowhere.py"),
        ({"handler": "nowhere"}, "There is no handler nowhere.py"),
        ({"handler": "nowhere.py:handle"}, "There is no handler nowhere.py"),
        ({"handler": ""}, "There is no handler .py"),
        ({"handler": "lib.so", "runtime": "LSP"}, "There is no handler lib.so.so"),
        ({"serialized_file": "nowhere.pt"}, "There is no serialized file nowhere.pt"),
        ({"model_file": Path("nowhere.py")}, "There is no model file nowhere.py"),
        ({"requirements_file": "nowhere.txt"}, "There is no requirements file nowhere.txt"),
        ({"config_file": "nowhere.yaml"}, "There is no config file nowhere.yaml"),
        ({"extra_files": "handler.py,nowhere"}, "There is no extra file nowhere"),
        ({"extra_files": "*.txt"}, "The pattern *.txt matches no file"),
        ({"extra_files": "*.pyc"}, "never packed, like cached.pyc"),
        ({"extra_files": [""]}, "no extra file"),
        ({"extra_files": "pipe"}, "pipe is neither a file nor a directory"),
        ({"extra_files": "directory"}, "directory/pipe is neither a file nor a directory"),
        ({"serialized_file": "directory"}, "The serialized file directory is a directory"),
        ({"model_name": "../m"}, "The model name '../m' cannot be"),
        ({"model_name": ""}, "The model name '' cannot be"),
        ({"model_name": "m\n"}, "The model name 'm\\n' cannot be"),
        ({"model_name": "a/b"}, "The model name 'a/b' cannot be"),
        ({"runtime": "java"}, "There is no runtime 'java'"),
        ({"archive_format": "rar"}, "There is no archive format 'rar'"),
    ],
)
def test_a_mistake_is_one_sentence_and_nothing_is_written(here: Path, flags: dict[str, Any], says: str) -> None:
    """pytorch/serve#1012: a failure leaves nothing behind."""
    write(here / "cached.pyc")
    (here / "directory").mkdir()
    os.mkfifo(here / "pipe")
    os.mkfifo(here / "directory/pipe")
    assert says in refused(**{"export_path": "store", **flags})


@pytest.mark.parametrize("archive_format", FORMATS)
def test_a_file_name_that_is_not_utf8_is_refused(here: Path, archive_format: str) -> None:
    (here / "extra").mkdir()
    Path(os.fsdecode(os.fsencode(here) + b"/extra/na\xefve.txt")).write_text("")
    assert "extra/na\\udcefve.txt' is not UTF-8" in refused(extra_files="extra", archive_format=archive_format)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
@pytest.mark.parametrize("archive_format", FORMATS)
def test_what_the_user_may_not_read_or_write_is_one_sentence(here: Path, archive_format: str) -> None:
    write(here / "model.pt").chmod(0)
    assert "model.pt cannot be read" in refused(serialized_file="model.pt", archive_format=archive_format)
    (here / "store").mkdir(mode=0o500)
    sentence = refused(export_path="store", archive_format=archive_format)
    assert f"store/{ENDINGS[archive_format]} cannot be written: Permission denied" in sentence


def test_a_directory_that_cannot_be_listed_is_one_sentence(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "extra").mkdir()

    def denied(directory: Path) -> None:
        raise PermissionError(13, "Permission denied", str(directory))

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", denied)
        with pytest.raises(ArchiveError, match=r"^extra cannot be read: Permission denied\.$"):
            pack(extra_files="extra")


@pytest.mark.parametrize("archive_format", FORMATS)
def test_an_export_path_that_cannot_be_written_is_one_sentence(here: Path, archive_format: str) -> None:
    assert f"/proc/store/{ENDINGS[archive_format]} cannot be written" in refused(
        export_path="/proc/store", archive_format=archive_format
    )
    assert "cannot be written" in refused(export_path="handler.py", archive_format=archive_format)


# What was there before


@pytest.mark.parametrize("archive_format", FORMATS)
def test_an_export_directory_is_made_when_missing(here: Path, archive_format: str) -> None:
    """torch-model-archiver wants it to be there."""
    assert pack(export_path="new/store", archive_format=archive_format).path.exists()


@pytest.mark.parametrize("archive_format", FORMATS)
def test_an_archive_that_exists_is_replaced_with_force_only(here: Path, archive_format: str) -> None:
    path = pack(archive_format=archive_format).path
    write(here / "handler.py", HANDLER + "# new\n")
    sentence = refused(archive_format=archive_format)
    assert f"{path} exists already" in sentence
    assert "--force" in sentence
    assert contents(path)["handler.py"] == HANDLER.encode()
    assert pack(archive_format=archive_format, force=True).path == path
    assert contents(path)["handler.py"].endswith(b"# new\n")
    assert list(Path(tempfile.gettempdir()).iterdir()) == []
    assert {file.name for file in here.iterdir()} == {"handler.py", path.name}


def test_force_replaces_a_model_directory_whole(here: Path) -> None:
    """torch-model-archiver leaves the files of the build before."""
    write(here / "extra/stale.json")
    pack(archive_format="no-archive", extra_files="extra")
    path = pack(archive_format="no-archive", force=True).path
    assert names(path) == {"handler.py"}
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((here / "extra").stat().st_mode)


def test_force_never_replaces_what_is_no_model_directory(here: Path) -> None:
    write(here / "m/thesis.tex", "years of work")
    assert "m is no model directory" in refused(archive_format="no-archive", force=True)
    (here / "m").rename(here / "elsewhere")
    write(here / "elsewhere" / mar.MANIFEST, "{}")
    (here / "m").symlink_to("elsewhere")
    assert "m is no model directory" in refused(archive_format="no-archive", force=True)
    (here / "m").unlink()
    write(here / "m", "a file")
    assert "m is no model directory" in refused(archive_format="no-archive", force=True)
    (here / "m").unlink()
    (here / "m").mkdir()
    assert names(pack(archive_format="no-archive", force=True).path) == {"handler.py"}


@pytest.mark.parametrize("force", [True, False])
def test_a_directory_that_appears_meanwhile_is_not_replaced(
    here: Path, force: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def meanwhile(tree: object) -> list[Finding]:
        write(here / "m/thesis.tex", "years of work")
        return []

    monkeypatch.setattr(marsmith.lint, "lint", meanwhile)
    with pytest.raises(ArchiveError, match="m is no model directory" if force else "m exists already"):
        pack(archive_format="no-archive", force=force)
    assert {str(file.relative_to(here)) for file in here.rglob("*")} == {"handler.py", "m", "m/thesis.tex"}


@pytest.mark.parametrize("archive_format", ["default", "tgz"])
def test_force_never_replaces_a_directory_by_a_file(here: Path, archive_format: str) -> None:
    (here / ENDINGS[archive_format]).mkdir()
    assert "cannot be written: Is a directory" in refused(archive_format=archive_format, force=True)


@pytest.mark.parametrize("archive_format", FORMATS)
def test_a_failure_while_writing_leaves_the_old_archive_and_nothing_else(
    here: Path, archive_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pytorch/serve#2099: a crash used to leave a truncated archive at the final name."""
    path = pack(archive_format=archive_format).path
    before = contents(path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    sentence = refused(archive_format=archive_format, force=True)
    assert "cannot be written: No space left on device" in sentence
    assert contents(path) == before


def test_a_swap_that_fails_puts_the_old_directory_back(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack(archive_format="no-archive").path
    rename = Path.rename

    def fails(self: Path, target: Path) -> Path:
        if self.name == "new":
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fails)
    with pytest.raises(KeyboardInterrupt):
        pack(archive_format="no-archive", force=True)
    assert names(path) == {"handler.py"}
    assert {file.name for file in here.iterdir()} == {"handler.py", "m"}


@pytest.mark.parametrize("archive_format", FORMATS)
def test_a_temporary_directory_of_the_models_name_survives(here: Path, archive_format: str) -> None:
    """pytorch/serve#1532: torch-model-archiver removes it without asking."""
    precious = write(Path(tempfile.gettempdir()) / "m/precious.txt", "mine")
    pack(archive_format=archive_format)
    assert precious.read_text() == "mine"
    assert list(precious.parent.iterdir()) == [precious]
    assert list(precious.parent.parent.iterdir()) == [precious.parent]


@pytest.mark.parametrize("archive_format", FORMATS)
def test_builds_of_one_name_at_one_time_do_not_disturb_each_other(here: Path, archive_format: str) -> None:
    """pytorch/serve#1532: they used to share one directory."""
    write(here / "model.pt", "0123456789" * 100_000)

    def build(_: int) -> Archived:
        return pack(serialized_file="model.pt", archive_format=archive_format, force=True)

    with ThreadPoolExecutor(4) as pool:
        (path, *others) = {archived.path for archived in pool.map(build, range(12))}
    assert others == []
    assert names(path) == {"handler.py", "model.pt"}
    assert contents(path)["model.pt"] == (here / "model.pt").read_bytes()
    assert {file.name for file in here.iterdir()} == {"handler.py", "model.pt", path.name}


def test_a_truncated_source_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What shrinks while it is packed is not whole: no archive of it gets a name."""
    write(here / "model.pt", "0" * 99)
    monkeypatch.setattr(os, "fstat", lambda handle: os.stat_result((stat.S_IFREG, 0, 0, 1, 0, 0, 100, 0, 0, 0)))
    assert "cannot be written" in refused(serialized_file="model.pt", archive_format="tgz")


# The command line


APP = typer.Typer(add_completion=False)
APP.command()(command)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(APP, [*arguments, "--model-name", "m", "--handler", "handler.py"])


def test_the_command_takes_every_flag_of_torch_model_archiver(monkeypatch: pytest.MonkeyPatch) -> None:
    from model_archiver.arg_parser import ArgParser

    class Captured(Exception):
        pass

    theirs: dict[str, argparse.Action] = {}

    def capture(parser: argparse.ArgumentParser) -> None:
        theirs.update({spelling: action for action in parser._actions for spelling in action.option_strings})
        raise Captured

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", capture)
    with pytest.raises(Captured):
        ArgParser.export_model_args_parser()
    ours: dict[str, Any] = {one: option for option in typer.main.get_command(APP).params for one in option.opts}
    assert set(ours) - {"--json"} == set(theirs) - {"-h", "--help"}
    hints = typing.get_type_hints(command)
    for spelling in set(ours) - {"--json"}:
        assert ours[spelling].required == theirs[spelling].required
        choices = {one for one in typing.get_args(hints[theirs[spelling].dest]) if isinstance(one, str)}
        assert choices == set(theirs[spelling].choices or ())
        if spelling != "--export-path":
            assert (ours[spelling].default or None) == (theirs[spelling].default or None)
    assert ours["--export-path"].default == "."
    assert Path(theirs["--export-path"].default).is_absolute()


def test_every_flag_reaches_the_archive(here: Path) -> None:
    write(here / "model.pt")
    write(here / "model.py")
    write(here / "extra/a.txt")
    write(here / "requirements.txt", "numpy==2.0\n")
    write(here / "model-config.yaml", "minWorkers: 1\nmaxWorkers: 1\n")
    arguments = [
        "--serialized-file",
        "model.pt",
        "--model-file=model.py",
        "--extra-files",
        "extra",
        "--runtime=python3",
    ]
    arguments += ["--export-path", "store", "--archive-format", "tgz", "-v", "2.0", "-r", "requirements.txt"]
    result = run(*arguments, "-c", "model-config.yaml", "-f", "--json")
    assert result.exit_code == 0, result.output
    path = Path("store/m.tar.gz")
    printed = json.loads(result.stdout)
    assert printed == {"path": str(path), "size": path.stat().st_size, "members": 7, "warnings": printed["warnings"]}
    found = manifest(path)
    assert found["runtime"] == "python3"
    assert found["model"] == {
        "modelName": "m",
        "serializedFile": "model.pt",
        "handler": "handler.py",
        "modelFile": "model.py",
        "modelVersion": "2.0",
        "requirementsFile": "requirements.txt",
        "configFile": "model-config.yaml",
    }
    assert "a.txt" in names(path)


def test_the_command_says_what_it_wrote_and_warns_on_standard_error(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RULES, "T000", Rule("warning", "a test's"))
    finding = Finding("T000", "handler.py", "It hums [softly].", "Oil it.")
    monkeypatch.setattr(marsmith.lint, "lint", lambda tree: [finding])
    result = run("--version", "1.0")
    assert result.exit_code == 0
    assert result.stdout == f"wrote m.mar ({Path('m.mar').stat().st_size} B, 3 members)\n"
    assert result.stderr == "warning: T000 handler.py: It hums [softly]. Oil it.\n"


def test_an_error_of_lint_is_refused_and_nothing_is_written(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RULES, "T001", Rule("error", "a test's"))
    finding = Finding("T001", "handler.py", "It is broken.", "Repair it.")
    monkeypatch.setattr(marsmith.lint, "lint", lambda tree: [finding])
    with pytest.raises(
        LintError, match=r"m\.mar would not serve as it should: T001 handler\.py: It is broken\. Repair"
    ):
        pack()
    assert [file.name for file in here.iterdir()] == ["handler.py"]


def test_the_command_refuses_with_a_marsmith_error(here: Path) -> None:
    result = run("--version", "1.0", "--extra-files", "nowhere")
    assert isinstance(result.exception, ArchiveError)
    assert result.stdout == ""
