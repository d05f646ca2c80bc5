"""Archives that a server refuses or cannot load: each is named with the reason, and no server stays."""

import json
import shutil
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from marsmith.builder import Built
from marsmith.errors import ArchiveError, ServerError, VerifyError
from marsmith.mar.keys import keygen
from marsmith.mar.members import DIGESTS
from marsmith.mar.signing import sign
from marsmith.mar.writer import write_archive
from marsmith.torchserve.configuration import Ports
from marsmith.torchserve.server import Server
from tests.packaging.forgery import members, unpacked
from tests.packaging.ports import free_ports
from tests.packaging.web import Answers, serving


def test_two_archives_of_one_model_are_refused(sentiment_archive: Built, tmp_path: Path) -> None:
    other = shutil.copy(sentiment_archive.path, tmp_path / "other.mar")
    with pytest.raises(ArchiveError, match="a model of one name"):
        Server([sentiment_archive.path, Path(other)])


def test_an_archive_that_is_not_sound_is_never_served(food_archive: Built, tmp_path: Path) -> None:
    """pytorch/serve#47, pytorch/serve#2099."""
    cut = tmp_path / "food.mar"
    cut.write_bytes(food_archive.path.read_bytes()[:-1000])
    with pytest.raises(VerifyError, match=r"food\.mar is not to be trusted"):
        Server([cut], free_ports())


def test_what_was_verified_is_what_is_served(food_archive: Built, tmp_path: Path) -> None:
    """Between the check and TorchServe's reading, the file may be written again by whoever can."""
    archive = Path(shutil.copy(food_archive.path, tmp_path / "food.mar"))
    server = Server([archive], free_ports())
    archive.write_bytes(b"something else")
    assert server.archives["food"].read_bytes() == food_archive.path.read_bytes()
    private = server.archives["food"].parent.parent
    assert private.stat().st_mode & 0o077 == 0
    server.stop()
    assert not private.exists()


def test_a_server_that_requires_signatures_refuses_what_has_none(food_archive: Built, tmp_path: Path) -> None:
    archive = Path(shutil.copy(food_archive.path, tmp_path / "food.mar"))
    key = keygen(tmp_path / "key.pem")
    with pytest.raises(VerifyError, match="it is not signed"):
        Server([archive], free_ports(), key=key, require_signature=True)
    sign(archive, tmp_path / "key.pem")
    Server([archive], free_ports(), key=key, require_signature=True).stop()


@pytest.mark.server
def test_an_archive_that_torchserve_refuses_is_named(tmp_path: Path) -> None:
    """pytorch/serve#2099: TorchServe skips what it cannot read and calls itself healthy."""
    archive = tmp_path / "food.mar"
    with zipfile.ZipFile(archive, "w") as zip_file:
        manifest = {"runtime": "cobol", "model": {"modelName": "food", "modelVersion": "1.0", "handler": "food.py"}}
        zip_file.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
    with Server([archive], free_ports()) as running:
        running.start()
        with pytest.raises(ServerError, match=r"TorchServe refused the archive .*food\.mar"):
            running.wait_ready()


@pytest.mark.parametrize("manifest", ["{}", "[]", '{"model": {"modelName": "m"}}', "not json"])
def test_an_archive_without_a_handler_is_refused_before_anything_starts(tmp_path: Path, manifest: str) -> None:
    with zipfile.ZipFile(tmp_path / "m.mar", "w") as zip_file:
        zip_file.writestr("MAR-INF/MANIFEST.json", manifest)
    with pytest.raises(ArchiveError, match=r"m\.mar"):
        Server([tmp_path / "m.mar"])


@pytest.mark.server
def test_a_missing_dependency_is_named_not_masked(tmp_path: Path) -> None:
    """pytorch/serve#1010, pytorch/serve#849: TorchServe reports a module of its own instead."""
    with zipfile.ZipFile(tmp_path / "m.mar", "w") as zip_file:
        manifest = {"runtime": "python", "model": {"modelName": "m", "modelVersion": "1.0", "handler": "mine.py"}}
        zip_file.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        zip_file.writestr("mine.py", "import a_module_that_nobody_has\n")
    with Server([tmp_path / "m.mar"], free_ports()) as running:
        running.start()
        with pytest.raises(ServerError, match="No module named 'a_module_that_nobody_has'"):
            running.wait_ready()


@pytest.mark.server
def test_a_worker_that_cannot_load_says_why_and_no_server_stays(sentiment_archive: Built, tmp_path: Path) -> None:
    broken = tmp_path / "broken.mar"
    files = dict(unpacked(sentiment_archive.path.read_bytes()))
    del files["model/model.weights"], files[DIGESTS]
    write_archive(broken, members(files))
    ports = free_ports()
    with Server([broken], ports) as running:
        running.start()
        with pytest.raises(ServerError, match=r"could not load its model: Model failed to load: .*model\.weights"):
            running.wait_ready()
    ports.check_free()


@pytest.mark.server
def test_a_model_that_is_not_ready_in_time_is_named_and_no_server_stays(tmp_path: Path) -> None:
    """pytorch/serve#2434, pytorch/serve#3047: a server that answers /ping is not one that is ready."""
    with zipfile.ZipFile(tmp_path / "slow.mar", "w") as zip_file:
        manifest = {"runtime": "python", "model": {"modelName": "slow", "modelVersion": "1.0", "handler": "slow.py"}}
        zip_file.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        zip_file.writestr("slow.py", "import time\n\ndef handle(data, context):\n    time.sleep(600)\n")
    ports = free_ports()
    with Server([tmp_path / "slow.mar"], ports) as running:
        running.start()
        with pytest.raises(ServerError, match=r"^slow not READY within 12 s"):
            running.wait_ready(12)
    ports.check_free()


class Describing(Answers):
    """Describes a model of two workers, one of which starts again."""

    def do_GET(self) -> None:  # noqa: N802 - the base class's name
        self.send_response(200)
        self.end_headers()
        workers = [{"pid": -1, "status": "UNLOADED"}, {"pid": 4711, "status": "READY"}]
        queue = {"remainingCapacity": 100, "pendingRequests": 0}
        model = {"modelName": "tiny", "minWorkers": 2, "workers": workers, "jobQueueStatus": queue}
        self.wfile.write(json.dumps([model]).encode())


def test_a_worker_that_starts_again_has_no_process() -> None:
    with serving(Describing) as url, Server([], Ports((urlsplit(url).port or 0) - 1)) as server:
        assert server.worker_pids("tiny") == [4711]
