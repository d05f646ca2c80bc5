"""An unpacked archive is trusted as an archive is: file for file."""

from pathlib import Path

import pytest

from marsmith.builder import Built
from marsmith.errors import SigningError, VerifyError
from marsmith.mar.keys import keygen
from marsmith.mar.members import DIGESTS
from marsmith.mar.reader import extract_archive
from marsmith.mar.signing import sign
from marsmith.mar.unpacked import verify_unpacked


@pytest.fixture
def tree(sentiment_archive: Built, tmp_path: Path) -> Path:
    directory = tmp_path / "tree"
    extract_archive(sentiment_archive.path, directory)
    return directory


def test_what_was_built_is_sound(tree: Path, tmp_path: Path) -> None:
    verify_unpacked(tree)
    (tmp_path / "link").symlink_to(tree)
    verify_unpacked(tmp_path / "link")


def test_a_signed_one_is_sound_with_its_key_alone(sentiment_archive: Built, tmp_path: Path) -> None:
    archive = tmp_path / "signed.mar"
    archive.write_bytes(sentiment_archive.path.read_bytes())
    right, other = keygen(tmp_path / "right.pem"), keygen(tmp_path / "other.pem")
    sign(archive, tmp_path / "right.pem")
    extract_archive(archive, tmp_path / "signed")
    verify_unpacked(tmp_path / "signed", right)
    verify_unpacked(tmp_path / "signed")
    with pytest.raises(VerifyError, match="not made with the key that you trust"):
        verify_unpacked(tmp_path / "signed", other)


def test_an_unsigned_one_is_refused_where_a_key_is_trusted(tree: Path, tmp_path: Path) -> None:
    public = keygen(tmp_path / "key.pem")
    with pytest.raises(VerifyError, match="it is not signed"):
        verify_unpacked(tree, public)
    with pytest.raises(SigningError):
        verify_unpacked(tree, tmp_path / "no such key")


def test_a_file_of_the_same_size_with_other_content(tree: Path) -> None:
    file = tree / "sentiment.py"
    file.write_bytes(file.read_bytes()[:-1] + b"#")
    with pytest.raises(VerifyError, match=r"the content of sentiment\.py was changed"):
        verify_unpacked(tree)


def test_a_file_that_is_gone(tree: Path) -> None:
    (tree / "model/serving.json").unlink()
    with pytest.raises(VerifyError, match=r"model/serving\.json is missing"):
        verify_unpacked(tree)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("extra.py", "extra.py"),
        ("handlers/__pycache__/base.cpython-311.pyc", "handlers/__pycache__/"),
        ("MAR-INF/more.json", "MAR-INF/more.json"),
    ],
)
def test_a_file_that_was_added(tree: Path, name: str, named: str) -> None:
    (tree / name).parent.mkdir(exist_ok=True)
    (tree / name).write_bytes(b"x")
    with pytest.raises(VerifyError, match=f"{named} was added"):
        verify_unpacked(tree)


def test_a_link_is_not_the_file_that_it_names(tree: Path, tmp_path: Path) -> None:
    file = tree / "sentiment.py"
    file.rename(tmp_path / "elsewhere.py")
    file.symlink_to(tmp_path / "elsewhere.py")
    with pytest.raises(VerifyError, match=r"the content of sentiment\.py was changed"):
        verify_unpacked(tree)


def test_a_linked_directory_is_not_overlooked(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tree / "package").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(VerifyError, match="package was added"):
        verify_unpacked(tree)


def test_digests_that_promise_something_else(tree: Path, tmp_path: Path) -> None:
    """Signed digests may be replaced only together with their signature."""
    digests = tree / DIGESTS
    digests.write_bytes(digests.read_bytes().replace(b"sentiment.py", b"sentiments.p"))
    with pytest.raises(VerifyError, match=r"sentiments\.p is missing"):
        verify_unpacked(tree)


@pytest.mark.parametrize("content", [None, b"", b"[]", b"{", b'{"members": []}'])
def test_a_directory_without_digests_is_no_archive(tree: Path, content: bytes | None) -> None:
    (tree / DIGESTS).unlink()
    if content is not None:
        (tree / DIGESTS).write_bytes(content)
    with pytest.raises(VerifyError, match="is not to be trusted"):
        verify_unpacked(tree)
