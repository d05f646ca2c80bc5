"""`marsmith explain` beside answers of any form, and how an input is sent."""

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from marsmith.cli import explaining as explaining
from marsmith.errors import ClientError
from marsmith.rest.client import Client
from tests.packaging.web import Answers, serving


def png(side: int = 8) -> bytes:
    stream = BytesIO()
    Image.new("RGB", (side, 1), "red").save(stream, "PNG")
    return stream.getvalue()


PICTURE = png()
OVERLAY = "data:image/png;base64," + base64.b64encode(PICTURE).decode()
TOKEN = {"text": "good", "attributions": {"no": -0.25, "yes": 0.75}}
OF_TEXT = {"logits": {"no": -1, "yes": 1.5}, "baseline_logits": {"no": 0.1, "yes": 0.2}, "tokens": [TOKEN]}
OF_IMAGE: dict[str, Any] = {
    "label": "pie",
    "logit": 2.5,
    "baseline_logit": 0.5,
    "attributions": [[0.5, 1.5]],
    "overlay": OVERLAY,
}
# A script that begins as a PNG, another format, a picture that is cut, damaged, followed by something, or too large.
NO_PNG = [
    b"",
    PICTURE[:8] + b"<script>",
    b"GIF89a",
    PICTURE[:-5],
    PICTURE.replace(b"IDAT", b"IDAX"),
    PICTURE + b"#!/bin/sh",
    png(4097),
]


def overlaid(picture: bytes) -> dict[str, Any]:
    return {**OF_IMAGE, "overlay": explaining.PNG + base64.b64encode(picture).decode()}


class Mirror(Answers):
    """Answers /explanations with the text that it gets, and /predictions with the Content-Type."""

    def answer(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        explain = self.path.startswith("/explanations")
        body = json.loads(content)["text"] if explain else json.dumps(self.headers["Content-Type"])
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body.encode())


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Mirror) as address:
        yield address


def explain(url: str, directory: Path, answer: object, *options: str) -> subprocess.CompletedProcess[str]:
    """What the command makes of a server's `answer`; a str is one that is no JSON."""
    source = directory / "source.txt"
    source.write_text(answer if isinstance(answer, str) else json.dumps(answer))
    line = [sys.executable, "-m", "marsmith", "explain", "m", str(source), "--url", url, *options]
    return subprocess.run(line, capture_output=True, text=True)


@pytest.mark.parametrize(
    ("explanation", "words"),
    [(OF_TEXT, ["good", "-0.25", "+0.75", "+1.50", "+0.20"]), (OF_IMAGE, ["pie: +2.50", "+0.50 without", "+1.50"])],
)
def test_an_explanation_of_marsmiths_is_a_table(
    url: str, tmp_path: Path, explanation: dict[str, Any], words: list[str]
) -> None:
    shown = explain(url, tmp_path, {"prediction": {}, "explanation": {"method": "any", "runs": 2, **explanation}})
    assert (shown.returncode, shown.stderr) == (0, "")
    assert all(word in " ".join(shown.stdout.split()) for word in words)


OWN: list[Any] = [
    {"explanation": {"why": "because"}},
    {"explanation": None},
    ["a list"],
    17,
    "no JSON at all",
    {"explanation": {**OF_TEXT, "tokens": [{"text": "good", "attributions": {"yes": 0.75}}]}},
    {"explanation": {**OF_TEXT, "baseline_logits": {}}},
    {"explanation": {**OF_IMAGE, "attributions": []}},
    {"explanation": {**OF_IMAGE, "attributions": [["high"]]}},
    {"explanation": {**OF_IMAGE, "attributions": [[0.5] * 101]}},
    {"explanation": {**OF_IMAGE, "logit": "nan"}},
    {"explanation": {**OF_TEXT, "logits": {str(one): 0.5 for one in range(101)}}},
    {"explanation": {**OF_IMAGE, "overlay": "https://example.org/why.png"}},
]


@pytest.mark.parametrize("answer", OWN, ids=repr)
def test_any_other_is_handed_on_as_it_is_and_not_parsed(url: str, tmp_path: Path, answer: object) -> None:
    source = tmp_path / "source.txt"
    source.write_text(answer if isinstance(answer, str) else json.dumps(answer))
    assert explaining.explain("m", source, url, {}) == answer
    with pytest.raises(ClientError, match="m explains its answers in a form of its own"):
        explaining.parse("m", answer)


def test_the_remedy_of_the_command_is_true(url: str, tmp_path: Path) -> None:
    for options in ([], ["-o", str(tmp_path / "why.png")], ["--json", "-o", str(tmp_path / "why.png")]):
        shown = explain(url, tmp_path, OWN[0], *options)
        assert (shown.returncode, shown.stdout) == (1, "")
        assert shown.stderr.startswith("error: m explains its answers in a form of its own")
        assert shown.stderr.endswith("ask with --json and without --output.\n")
        assert len(shown.stderr.splitlines()) == 1
    shown = explain(url, tmp_path, OWN[0], "--json")
    assert (shown.returncode, shown.stderr, json.loads(shown.stdout)) == (0, "", OWN[0])
    assert not list(tmp_path.glob("*.png"))


def test_an_overlay_is_written_where_there_is_one(url: str, tmp_path: Path) -> None:
    out = tmp_path / "why.png"
    answer = {"explanation": OF_IMAGE}
    shown = explain(url, tmp_path, answer, "--json", "-o", str(out))
    assert (json.loads(shown.stdout), out.read_bytes()) == (answer, PICTURE)
    out.unlink()
    for explanation, says in [
        (OF_TEXT, "An explanation of a text is no picture"),
        ({**OF_IMAGE, "overlay": OVERLAY + "#"}, "is no base64"),
        *((overlaid(picture), "is not a whole PNG of up to 4096 x 4096 pixels") for picture in NO_PNG),
    ]:
        with pytest.raises(ClientError, match=says):
            explaining.save_overlay(explaining.parse("m", {"explanation": explanation}), out)
        assert not out.exists()


@pytest.mark.parametrize("name", ["JPEG", "PNG", "GIF", "WEBP", "AVIF", "TIFF", "BMP"])
def test_an_image_is_sent_as_what_it_is(url: str, name: str) -> None:
    """A model of texts then says that it reads none, where it would blame the encoding of other bytes."""
    stream = BytesIO()
    Image.new("RGB", (8, 8)).save(stream, name)
    assert Client(url).predict("m", stream.getvalue()).body == f"image/{name.lower()}"


@pytest.mark.parametrize("data", [b"", b"BMW f\xe4hrt auf der Stra\xdfe", b"RIFF\x24\0\0\0WAVEfmt ", b"\xff\xfea\0"])
def test_bytes_of_another_kind_are_not_called_an_image(url: str, data: bytes) -> None:
    assert Client(url).predict("m", data).body == "application/octet-stream"
