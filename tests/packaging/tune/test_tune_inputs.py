"""What the model is asked: golden requests, the lines of a file, or the images of a directory."""

from pathlib import Path

import pytest
from PIL import Image

from marsmith.errors import TuneError
from marsmith.recipe.recipe import Recipe
from marsmith.rest.client import Client
from marsmith.tune.inputs import Inputs, inputs
from tests.packaging.web import Answers, serving
from tests.tiny import write_recipe


def recipe(directory: Path, task: str = "sentiment", **keys: object) -> Recipe:
    return Recipe.load(write_recipe(directory, task=task, **keys))


def test_golden_requests_by_default(tmp_path: Path) -> None:
    found = inputs(recipe(tmp_path, samples=[{"text": "good"}, {"text": "bad"}]))
    assert found.bodies == [(b'{"text": "good"}', "application/json"), (b'{"text": "bad"}', "application/json")]
    assert found.what == "2 golden requests"
    assert found.names == ["Golden request 1 (text 1)", "Golden request 2 (text 2)"]
    assert inputs(recipe(tmp_path)).what == "3 golden requests"


def test_a_text_file_gives_a_request_for_each_line_that_is_not_blank(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_text("good\n\n  \nso-so\u2028 bad\n", encoding="utf-8")
    found = inputs(recipe(tmp_path), file)
    assert [body for body, _ in found.bodies] == [b'{"text": "good"}', b'{"text": "so-so\\u2028 bad"}']
    assert found.names == [f"Line 1 of {file}", f"Line 4 of {file}"]
    assert found.what == f"2 texts of {file}"


def test_a_directory_gives_its_images_and_nothing_else(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    (photos / "more").mkdir(parents=True)
    for name in ("b.png", "a.jpg"):
        Image.new("RGB", (4, 4)).save(photos / name)
    (photos / "notes.txt").write_text("lunch")
    found = inputs(recipe(tmp_path, task="food"), photos)
    assert [kind for _, kind in found.bodies] == ["image/jpeg", "image/png"]
    assert found.bodies[0][0] == (photos / "a.jpg").read_bytes()


@pytest.mark.parametrize(
    ("task", "name", "says"),
    [
        ("sentiment", "nowhere", "nowhere cannot be read as text: No such file"),
        ("sentiment", "empty.txt", "Nothing can be asked: 0 texts of"),
        ("sentiment", "photos", "reads texts: name a text file with --inputs"),
        ("food", "empty.txt", "reads images: name a directory of them with --inputs"),
        ("food", "photos", "Nothing can be asked: 0 images of"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(tmp_path: Path, task: str, name: str, says: str) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(TuneError, match=says):
        inputs(recipe(tmp_path, task=task), tmp_path / name)


class Picky(Answers):
    """Refuses what is longer than a word."""

    def answer(self) -> None:
        long = b" " in self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(413 if long else 200)
        self.end_headers()
        self.wfile.write(b'{"error": {"message": "The text is too long."}}' if long else b"{}")


def test_an_input_that_is_refused_is_named_with_the_reason_and_never_its_text() -> None:
    good = (b"good", "text/plain")
    with serving(Picky) as url:
        Inputs([good, good], ["Line 1", "Line 2"], "").check(Client(url), "tiny", at_once=2)
        bad = Inputs([good, (b"a secret", "text/plain"), good], ["Line 1", "Line 2", "Line 3"], "")
        with pytest.raises(TuneError, match=r"^Line 2 is answered 413 \(The text is too long\), and only") as raised:
            bad.check(Client(url), "tiny", at_once=2)
    assert "secret" not in str(raised.value)
