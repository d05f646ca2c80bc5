"""Right input gives what torch-model-archiver gives, in every format: safe and reproducible."""

import json
import os
import struct
import tarfile
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from marsmith.mar.keys import keygen
from marsmith.mar.members import DIGESTS, MANIFEST
from marsmith.mar.signing import sign
from marsmith.mar.verify import verify
from tests.packaging.archiver.packing import ENDINGS, FORMATS, MIB, contents, manifest, names, pack, write


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
    assert (DIGESTS in contents(archived.path)) == (archived.path.suffix == ".mar")
    assert contents(archived.path)["sub/deep/vocab.txt"] == b"a b"
    assert contents(archived.path)[MANIFEST].decode() == json.dumps(
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


@pytest.mark.parametrize(("archive_format", "deflated"), [("default", {"handler.py", MANIFEST}), ("zip-store", set())])
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
