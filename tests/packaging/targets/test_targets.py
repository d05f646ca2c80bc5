"""One build for several homes: the same tree in each, the same bytes each time, and what cannot be is said at once."""

import hashlib
import json
import zipfile
from pathlib import Path, PurePosixPath

import pytest
from typer.testing import CliRunner

from marsmith.builder import Built, build
from marsmith.cli import app
from marsmith.container.plan import admit_models
from marsmith.container.settings import Settings
from marsmith.errors import ArchiveError, TargetError, VerifyError
from marsmith.mar.members import DIGESTS, MANIFEST, REQUIREMENTS
from marsmith.mar.reader import read_json
from marsmith.mar.unpacked import verify_unpacked
from marsmith.recipe.recipe import Recipe
from marsmith.targets import djl
from marsmith.targets.tarball import write_tar_gz
from tests.packaging.targets.files import TARGETS, artefact
from tests.tiny import write_recipe


def test_the_tree_for_sagemaker_is_sound_and_binds_its_code_too(homes: Built, sagemaker_tree: Path) -> None:
    verify_unpacked(sagemaker_tree)
    digests = json.loads((sagemaker_tree / DIGESTS).read_bytes())["members"]
    with zipfile.ZipFile(homes.path) as archive:
        shared = set(archive.namelist()) - {DIGESTS, MANIFEST}
        assert set(digests) - shared == {MANIFEST, "code/inference.py", "code/requirements.txt"}
        for name in shared:
            assert (sagemaker_tree / name).read_bytes() == archive.read(name)
        assert (sagemaker_tree / "code/requirements.txt").read_bytes() == archive.read(REQUIREMENTS)
    with (sagemaker_tree / "code/inference.py").open("a") as file:
        file.write("\n")
    with pytest.raises(VerifyError, match=r"code/inference\.py was changed"):
        verify_unpacked(sagemaker_tree)


def test_the_manifest_for_sagemaker_leaves_torchserve_to_the_toolkit(sagemaker_tree: Path) -> None:
    """A handler or configuration there would win against the toolkit's, and only version 1.0 hears SAGEMAKER_TS_*."""
    manifest = json.loads((sagemaker_tree / MANIFEST).read_bytes())
    assert manifest["model"] == {"modelName": "sentiment", "modelVersion": "1.0", "requirementsFile": REQUIREMENTS}
    assert manifest["marsmith"]["handler"] == "sentiment.py"


def test_the_directory_for_djl_holds_the_archive_as_it_is_unpacked(homes: Built, djl_tree: Path) -> None:
    assert sorted(path.name for path in djl_tree.iterdir()) == [
        "archive",
        "model.py",
        "requirements.txt",
        "serving.properties",
    ]
    with zipfile.ZipFile(homes.path) as archive:
        for name in archive.namelist():
            assert (djl_tree / "archive" / name).read_bytes() == archive.read(name)
    verify_unpacked(djl_tree / "archive")
    lines = (djl_tree / "serving.properties").read_text().splitlines()
    properties = dict(line.split("=", 1) for line in lines)
    assert properties["engine"] == "Python"
    assert (properties["minWorkers"], properties["maxWorkers"]) == ("1", "1")
    assert (properties["batch_size"], properties["max_batch_delay"]) == ("16", "1")
    assert properties["option.env"] == "MARSMITH_WORKERS=1"


def test_two_builds_have_the_same_bytes_and_the_archive_those_of_a_build_for_it_alone(
    homes: Built, sentiment_archive: Built, sentiment_recipe: Path, tmp_path: Path
) -> None:
    again = build(sentiment_recipe, tmp_path / "again", targets=TARGETS[1:])
    assert not list((tmp_path / "again").glob("*.mar"))
    assert homes.path.read_bytes() == sentiment_archive.path.read_bytes()
    assert [one.path.name for one in homes.artefacts[1:]] == [one.path.name for one in again.artefacts]
    for one, other in zip(homes.artefacts[1:], again.artefacts, strict=True):
        assert one.size == one.path.stat().st_size
        assert one.path.read_bytes() == other.path.read_bytes()


def test_the_image_serves_a_tree_that_sagemaker_unpacked(homes: Built, sagemaker_tree: Path, tmp_path: Path) -> None:
    """As it would the archive: by the handler and the configuration that the tree's manifest keeps apart."""
    settings = Settings(sagemaker_tree, home=tmp_path / "home")
    assert admit_models(settings) == {"sentiment": sagemaker_tree}
    tree = settings.store / "sentiment"
    packed = read_json(homes.path, MANIFEST)["model"]
    model = read_json(tree, MANIFEST)["model"]
    assert (model["handler"], model["configFile"]) == ("sentiment.py", "model-config.yaml")
    assert model["modelVersion"] == packed["modelVersion"]
    (sagemaker_tree / "code/more.py").touch()
    with pytest.raises(VerifyError, match=r"code/more\.py was added"):
        admit_models(settings)


def test_json_lists_every_file(homes: Built, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marsmith.builder.build", lambda *_: homes)
    targets = [word for target in TARGETS for word in ("--target", target)]
    result = CliRunner().invoke(app, ["build", "recipe.toml", *targets, "--json"])
    assert result.exit_code == 0
    said = json.loads(result.stdout)
    assert said["path"] == str(homes.path)
    assert [(one["target"], Path(one["path"]).name.partition(".")[2]) for one in said["artefacts"]] == [
        ("mar", "mar"),
        ("sagemaker", "sagemaker.tar.gz"),
        ("djl", "djl.tar.gz"),
        ("oci", "modelpack.tar"),
        ("oci", "modelcar.tar"),
    ]
    for one in said["artefacts"]:
        content = Path(one["path"]).read_bytes()
        assert (one["size"], one["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())


def test_gzip_says_neither_when_nor_what(homes: Built) -> None:
    content = artefact(homes, ".sagemaker.tar.gz").read_bytes()
    magic, flags, time = content[:3], content[3], content[4:8]
    assert (magic, flags, time) == (b"\x1f\x8b\x08", 0, b"\0\0\0\0")


def test_an_unknown_target_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="There is no target 'triton': take mar, sagemaker, djl or oci"):
        build(tmp_path, tmp_path, targets=["mar", "triton"])


def test_a_handler_that_needs_torchserve_is_refused_for_djl(tmp_path: Path) -> None:
    (tmp_path / "rating.py").write_text("from ts.torch_handler.base_handler import BaseHandler\n")
    recipe = write_recipe(tmp_path, task="custom", handler="rating.py", checkpoint=...)
    with pytest.raises(TargetError, match=r"rating\.py imports TorchServe .ts., which DJL Serving does not have"):
        build(recipe, tmp_path / "out", targets=["djl"])
    assert not (tmp_path / "out").exists()


def test_a_network_in_pytorch_is_refused_for_djl(sentiment_recipe: Path) -> None:
    with pytest.raises(TargetError, match="runs in PyTorch"):
        djl.check(Recipe.load(sentiment_recipe), "PyTorch")


def test_a_failure_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="cannot be read"):
        write_tar_gz(tmp_path / "x.tar.gz", {PurePosixPath("a"): b"a", PurePosixPath("b"): tmp_path / "missing"})
    assert list(tmp_path.iterdir()) == []
