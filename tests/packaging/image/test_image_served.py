"""The archives that an image serves are those that are judged, and what cannot be judged is wrong."""

import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from marsmith.image.archive import read_image
from marsmith.image.results import Result
from marsmith.image.served import Served, check_served
from marsmith.image.tree import read_tree
from marsmith.mar.keys import keygen
from marsmith.mar.members import MANIFEST
from marsmith.mar.reader import extract_archive
from marsmith.mar.signing import sign
from marsmith.mar.writer import write_archive
from tests.packaging.forgery import content, members
from tests.packaging.image.images import CONFIG, DIRECTORY, Files, Member, docker_archive, hard_link, link

STORE = "opt/model-store"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    private = tmp_path_factory.mktemp("keys") / "key.pem"
    return private, keygen(private)


def written(tmp_path: Path, name: str) -> bytes:
    manifest = f'{{"model": {{"modelName": "{name}", "handler": "m.py"}}, "marsmith": {{}}}}'.encode()
    write_archive(tmp_path / f"{name}.mar", members(content() | {MANIFEST: manifest}))
    return (tmp_path / f"{name}.mar").read_bytes()


@pytest.fixture
def a(tmp_path: Path) -> bytes:
    return written(tmp_path, "a")


@pytest.fixture
def b(tmp_path: Path) -> bytes:
    return written(tmp_path, "b")


def served(tmp_path: Path, *layers: Files, environ: Mapping[str, str] | None = None, **env: str) -> Served:
    """What is found of an image with these layers, and with `env` in its configuration."""
    config: dict[str, Any] = {**CONFIG, "Env": [f"{name}={value}" for name, value in env.items()]}
    image = read_image(docker_archive(tmp_path / "image.tar", *layers, config=config))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return check_served(image, read_tree(image, lambda _: False), environ or {}, scratch)


def names(found: Served) -> list[str]:
    return [path.name for path in found.archives]


def wrong(found: Served) -> tuple[str, ...]:
    (result,) = (one for one in found.results if one.status == "wrong")
    return result.where or (result.message,)


def notes(found: Served) -> list[Result]:
    return [one for one in found.results if one.status == "note"]


def test_sound_archives_are_as_they_were_built(tmp_path: Path, a: bytes, b: bytes) -> None:
    found = served(tmp_path, {f"{STORE}/b.mar": b, f"{STORE}/a.mar": a, f"{STORE}/notes.txt": b""})
    assert [one.message for one in found.results] == ["2 as they were built: a.mar, b.mar"]


def test_an_image_without_archives_says_nothing(tmp_path: Path) -> None:
    assert served(tmp_path, {f"{STORE}": DIRECTORY, "other/a.mar": b""}) == Served()


def test_the_upper_layer_counts_and_what_it_deletes_is_gone(tmp_path: Path, a: bytes, b: bytes) -> None:
    lower: Files = {f"{STORE}/a.mar": b"old", f"{STORE}/gone.mar": b"x"}
    found = served(tmp_path, lower, {f"{STORE}/a.mar": a, f"{STORE}/.wh.gone.mar": b"", f"{STORE}/b.mar": b})
    assert [one.status for one in found.results] == ["ok"]
    assert found.archives[0].read_bytes() == a


def test_an_archive_of_the_same_name_in_a_folder_is_not_served_and_said_so(tmp_path: Path, a: bytes) -> None:
    found = served(tmp_path, {f"{STORE}/sub/a.mar": b"evil", f"{STORE}/a.mar": a})
    assert [one.message for one in found.results if one.status == "ok"] == ["1 as they were built: a.mar"]
    assert notes(found)[0].where == (f"{STORE}/sub/a.mar",)


@pytest.mark.parametrize(
    ("target", "extra"),
    [
        ("/data/a.mar", {}),
        ("../../data/a.mar", {}),
        ("../../../../../data/a.mar", {}),
        ("/first", {"first": link("second"), "second": link("/data/a.mar")}),
        ("/linked/a.mar", {"linked": link("data")}),
    ],
)
def test_a_link_is_judged_by_what_it_leads_to_in_the_image(
    tmp_path: Path, a: bytes, target: str, extra: dict[str, Member]
) -> None:
    files: Files = {"data/a.mar": a, f"{STORE}/a.mar": link(target), **extra}
    assert [one.status for one in served(tmp_path, files).results] == ["ok"]
    (tmp_path / "scratch").rename(tmp_path / "first")
    changed: Files = {**files, "data/a.mar": a + b"more"}
    assert wrong(served(tmp_path, changed)) == ("a.mar: 4 bytes follow the end of the archive",)


@pytest.mark.parametrize("target", ["/gone.mar", "a.mar", "/etc", "/proc/self/exe", "../../../../../../etc/hostname"])
def test_a_link_to_what_is_no_file_of_the_image_is_wrong(tmp_path: Path, b: bytes, target: str) -> None:
    found = served(tmp_path, {"etc": DIRECTORY, f"{STORE}/a.mar": link(target), f"{STORE}/b.mar": b})
    assert wrong(found) == (f"a.mar: it is a link to {target}, which is not a file in the image",)


@pytest.mark.parametrize(
    ("member", "says"),
    [
        (DIRECTORY, "it is a directory"),
        (Member(type=tarfile.CHRTYPE), "it is a device or the like"),
        (Member(type=tarfile.FIFOTYPE), "it is a device or the like"),
        (hard_link("gone"), "it is a device or the like"),
        (Member(b"no zip"), "the end of the archive is missing"),
        (Member(b""), "the end of the archive is missing"),
    ],
)
def test_what_cannot_be_judged_is_wrong(tmp_path: Path, b: bytes, member: Member, says: str) -> None:
    assert wrong(served(tmp_path, {f"{STORE}/a.mar": member, f"{STORE}/b.mar": b})) == (f"a.mar: {says}",)


def test_a_hard_link_is_the_file_that_it_names(tmp_path: Path, a: bytes) -> None:
    found = served(tmp_path, {"data/x": a}, {f"{STORE}/a.mar": hard_link("data/x")}, {"data/.wh.x": b""})
    assert [one.status for one in found.results] == ["ok"]
    assert found.archives[0].read_bytes() == a


def test_the_store_may_be_a_link_and_be_named_by_the_environment(tmp_path: Path, a: bytes) -> None:
    files: Files = {"data/a.mar": a + b"x", "srv/models": link("../data"), f"{STORE}/b.mar": b"never served"}
    assert wrong(served(tmp_path, files, MODEL_STORE="/srv/models")) == (
        "a.mar: 1 bytes follow the end of the archive",
    )


def test_the_environment_of_the_run_counts_over_the_images(tmp_path: Path, a: bytes) -> None:
    files: Files = {"data/a.mar": a, f"{STORE}/b.mar": b"never served"}
    assert names(served(tmp_path, files, environ={"MODEL_STORE": "/data"}, MODEL_STORE="/nowhere")) == ["a.mar"]


def test_a_store_that_is_a_link_without_end_is_wrong(tmp_path: Path) -> None:
    assert "without end" in wrong(served(tmp_path, {STORE: link("model-store")}))[0]


def test_a_link_in_the_place_of_the_store_takes_what_a_later_layer_puts_there(tmp_path: Path, a: bytes) -> None:
    found = served(tmp_path, {"data": DIRECTORY, STORE: link("/data")}, {f"{STORE}/a.mar": a + b"x"})
    assert wrong(found) == ("a.mar: 1 bytes follow the end of the archive",)


def test_archives_where_sagemaker_puts_them_come_first(tmp_path: Path, a: bytes) -> None:
    assert names(served(tmp_path, {"opt/ml/model/a.mar": a, f"{STORE}/b.mar": b"never served"})) == ["a.mar"]


def test_two_archives_of_the_same_model_are_wrong(tmp_path: Path, a: bytes) -> None:
    found = served(tmp_path, {f"{STORE}/a.mar": a, f"{STORE}/c.mar": a})
    assert wrong(found) == ("c.mar: it holds the same model as a.mar",)


def unpacked(tmp_path: Path, archive: bytes) -> dict[str, bytes | Member]:
    (tmp_path / "u.mar").write_bytes(archive)
    extract_archive(tmp_path / "u.mar", tmp_path / "u")
    files = (path for path in (tmp_path / "u").rglob("*") if path.is_file())
    return {f"opt/ml/model/{path.relative_to(tmp_path / 'u')}": path.read_bytes() for path in files}


def test_an_unpacked_model_is_judged_file_by_file(tmp_path: Path, a: bytes) -> None:
    files = unpacked(tmp_path, a)
    (result,) = served(tmp_path, files).results
    assert (result.status, result.message) == ("ok", "the model unpacked in /opt/ml/model is as it was built")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"m.py": b"evil"}, "the content of m.py was changed"),
        ({"more.py": b"evil"}, "more.py was added"),
        ({"m.py": link("/data/m.py")}, "has links or devices"),
        ({"pipe": Member(type=tarfile.FIFOTYPE)}, "has links or devices"),
        ({"sub": link("/")}, "has links or devices"),
    ],
)
def test_an_unpacked_model_that_was_changed_is_wrong(
    tmp_path: Path, a: bytes, changes: dict[str, bytes | Member], says: str
) -> None:
    files = unpacked(tmp_path, a) | {f"opt/ml/model/{name}": member for name, member in changes.items()}
    (result,) = served(tmp_path, files).results
    assert result.status == "wrong"
    assert says in result.message


def test_signatures_are_judged_with_the_key_of_the_image(tmp_path: Path, a: bytes, keys: tuple[Path, Path]) -> None:
    (tmp_path / "s.mar").write_bytes(a)
    sign(tmp_path / "s.mar", keys[0])
    signed = (tmp_path / "s.mar").read_bytes()
    key = keys[1].read_bytes()
    good = served(tmp_path, {"etc/key.pub": key, f"{STORE}/a.mar": signed}, SIGNATURE_KEY="/etc/key.pub")
    assert [one.status for one in good.results] == ["ok"]
    (tmp_path / "scratch").rename(tmp_path / "first")
    bad = served(tmp_path, {"etc/key.pub": key, f"{STORE}/a.mar": a}, SIGNATURE_KEY="/etc/key.pub")
    assert wrong(bad) == ("a.mar: it is not signed",)


def test_a_key_that_is_mounted_later_is_said_not_to_be_judged(tmp_path: Path, a: bytes) -> None:
    found = served(tmp_path, {f"{STORE}/a.mar": a}, SIGNATURE_KEY="/run/key.pub")
    assert "signatures are not judged" in notes(found)[0].message


def test_of_models_that_are_named_later_nothing_is_judged(tmp_path: Path) -> None:
    assert "named while it serves" in notes(served(tmp_path, {}, SAGEMAKER_MULTI_MODEL="true"))[0].message
