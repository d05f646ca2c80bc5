"""Many inputs, one line each: nothing is lost when one of them fails."""

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from marsmith.cli.predicting import predict_to
from marsmith.errors import ClientError
from marsmith.ground.files import atomic
from marsmith.rest.client import NOT_SENT, Client
from tests.packaging.web import Answers, serving


class Echo(Answers):
    """Answers with the text turned round as the label, and drops the connection on the text "drop"."""

    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        text = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["text"]
        if text == "drop":
            self.close_connection = True
            return
        body = json.dumps({"label": text[::-1], "score": 1.0}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture
def url() -> Iterator[str]:
    with serving(Echo) as address:
        yield address


def predict(texts: Path, output: Path | None, url: str) -> tuple[int, str]:
    out = Console(file=io.StringIO(), width=200)
    failed = predict_to("m", [], texts, output, url, {}, as_json=False, out=out, err=Console(file=io.StringIO()))
    assert isinstance(out.file, io.StringIO)
    return failed, out.file.getvalue()


def test_a_line_ends_with_a_newline_and_nothing_else(tmp_path: Path, url: str) -> None:
    """U+2028 and its like occur in tweets."""
    texts, output = tmp_path / "texts.txt", tmp_path / "out.jsonl"
    texts.write_bytes("\ufeffone\u2028still one\r\ntwo\x0b\x85\n\nfour".encode())
    assert predict(texts, output, url)[0] == 0
    lines = [json.loads(line) for line in output.read_text(encoding="utf-8").split("\n") if line]
    assert [(line["line"], line["result"]["label"][::-1]) for line in lines] == [
        (1, "one\u2028still one"),
        (2, "two\x0b\x85"),
        (3, ""),
        (4, "four"),
    ]


def test_a_dropped_connection_fails_its_own_line_only(tmp_path: Path, url: str) -> None:
    client = Client(url)
    assert client.predict("m", "first").ok
    answers = list(client.predict_many("m", ["a", "drop", "b"]))
    assert [answer.status for answer in answers] == [200, NOT_SENT, 200]
    assert "connection" in answers[1].message


def test_a_proxy_of_the_environment_does_not_stand_between(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert Client(url).predict("m", "x").ok


def test_the_table_names_lines_and_never_texts(tmp_path: Path, url: str) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("private\n")
    table = predict(texts, None, url)[1]
    assert "etavirp" in table
    assert "private" not in table


def test_an_output_that_cannot_be_written_is_one_sentence(tmp_path: Path, url: str) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("x\n")
    for output in (tmp_path, tmp_path / "missing/out.jsonl"):
        with pytest.raises(ClientError, match="cannot be written"):
            predict(texts, output, url)


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")

    def fail_half_way() -> None:
        with atomic(path) as stream:
            stream.write(b"new")
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_no_regular_file_is_written_to_and_stays(tmp_path: Path) -> None:
    with atomic(Path("/dev/null")) as stream:
        stream.write(b"gone")
    assert Path("/dev/null").is_char_device()
