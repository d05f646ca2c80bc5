"""A server that means harm, or is none: nothing raw reaches the terminal, nothing is read or waited for without end."""

import gzip
import json
import socket
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from marsmith.cli import main
from marsmith.cli.console import err, out
from marsmith.ground.untrusted import json_line
from marsmith.rest import exchange
from marsmith.rest.client import NOT_SENT, Client

# What moves a cursor, sets a title, writes from right to left, begins a line, or is rich's markup or a link.
WEAPONS = (
    "\x1b[2J\x1b]0;title\x07\x9b31m\u202e\u2066\r\n\x08\x7f\u2028[red][link=https://example.org]x[/link][/red]:pizza:"
)
SHOWN = ["[red]", "[link=https://example.org]x", ":pizza:"]
RAW = [one for one in WEAPONS if not one.isprintable()]


def response(body: bytes, status: str = "200 OK", *headers: str, length: int | None = None) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Length: {len(body) if length is None else length}", "Connection: close"]
    return "\r\n".join([*head, *headers, "", ""]).encode() + body


def value(body: Any, status: str = "200 OK") -> bytes:
    return response(json.dumps(body).encode(), status)


@contextmanager
def answering(*parts: bytes, pause_s: float = 0) -> Iterator[str]:
    """The URL of a server that answers whatever comes with these bytes."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            request = b""
            while b"\r\n\r\n" not in request and (more := self.request.recv(65536)):
                request += more
            try:
                for part in parts:
                    self.request.sendall(part)
                    time.sleep(pause_s)
                self.request.shutdown(socket.SHUT_WR)
                while self.request.recv(65536):
                    pass
            except OSError:
                pass

    class Server(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Server(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def marsmith(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["marsmith", *arguments])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal on which nothing is cut. Its width may be fixed when the module is imported, by COLUMNS."""
    for console in (out, err):
        monkeypatch.setattr(console, "_width", 5000)


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    file = tmp_path / "texts.txt"
    file.write_text("one\n")
    return file


DISH = {"label": WEAPONS, "score": 0.5, "nutrition": {"per_100g": {"energy_kcal": 10**400}}}
ANSWERS: dict[str, bytes] = {
    "a label": value({"label": WEAPONS, "score": 0.5}),
    "a label of any length": value({"label": WEAPONS + "x" * 1_000_000, "score": 0.5}),
    "another value": value({WEAPONS: [WEAPONS]}),
    "a text": response(WEAPONS.encode()),
    "bytes that are no text": response(b"\xff\xfe\x9b\x1b[2J"),
    "a dish": value({"dishes": [DISH]}),
    "no dish": value({"dishes": [[1]]}),
    "an error": value({"error": {"message": WEAPONS, "type": WEAPONS}}, "422 Unprocessable"),
    "an error of another form": value({"error": [WEAPONS]}, "500 Oh"),
    "an error that is no JSON": response(WEAPONS.encode(), "500 \x1b[2J\x9b"),
    "an error that is a number": value(17, "404 Not Found"),
    "nan": response(b'{"label": "x", "score": NaN}'),
    "infinity": response(b'{"label": "x", "score": 1e999}'),
    "a number without end": response(b'{"label": "x", "score": ' + b"9" * 5000 + b"}"),
    "half a surrogate pair": response(b'{"label": "\\ud83d", "score": 0.5}'),
    "brackets without end": response(b"[" * 100_000),
    "brackets that end": response(b"[" * 500 + b"]" * 500),
    "nothing": response(b""),
    "no content": response(b"", "204 No Content"),
    "a huge value": value({"label": 0.5, "score": 1e308}),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_nothing_raw_of_an_answer_reaches_the_terminal(
    name: str, texts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wide(monkeypatch)
    with answering(ANSWERS[name]) as url:
        for command in (["predict", "m", "--file", str(texts)], ["explain", "m", str(texts)]):
            for options in ([], ["--json"]):
                marsmith(monkeypatch, *command, *options, "--url", url)
                printed = capsys.readouterr()
                shown = printed.out + printed.err
                assert [one for one in shown.replace("\n", "") if not one.isprintable()] == []
                assert len(shown.splitlines()) < 12
                assert "Traceback" not in shown
                if options and printed.out:
                    json.loads(printed.out)


def test_an_answer_is_shown_as_it_is_where_it_can_be(
    texts: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wide(monkeypatch)
    with answering(ANSWERS["a label"]) as url:
        marsmith(monkeypatch, "predict", "m", "--file", str(texts), "--url", url)
        table = capsys.readouterr().out
        assert [one for one in SHOWN if one not in table] == []
        marsmith(monkeypatch, "predict", "m", "--file", str(texts), "--url", url, "--json")
        assert json.loads(capsys.readouterr().out)["result"]["label"] == WEAPONS


def test_json_of_any_value_means_the_same_and_can_be_printed() -> None:
    for text in (WEAPONS, "\ud83d", "\U000e0001", "\u00a0", "caf\u00e9"):
        for encoding in ("utf-8", "ascii", "latin-1"):
            line = json_line({text: text}, encoding)
            assert json.loads(line) == {text: text}
            assert line.isprintable()
            line.encode(encoding)


BROKEN: dict[str, tuple[list[bytes], str]] = {
    "a redirect": ([response(b"", "307 Temporary", "Location: http://127.0.0.1:9/")], "which is not followed"),
    "a redirect elsewhere": ([response(b"", "302 Found", f"Location: {'x' * 50}")], "which is not followed"),
    "too long": ([response(b"x" * 2000)], "more than 1,000 bytes"),
    "too long, without a length": ([b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000], "more than 1,000 bytes"),
    "a bomb": (
        [response(gzip.compress(b"\0" * 10_000_000), "200 OK", "Content-Encoding: gzip")],
        "compressed, which was not asked for",
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_an_answer_past_the_bounds_is_the_fault_of_its_request(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "MAX_ANSWER_BYTES", 1000)
    monkeypatch.setattr("marsmith.rest.advice.MAX_ANSWER_BYTES", 1000)
    parts, said = BROKEN[name]
    with answering(*parts) as url:
        answer = Client(url).predict("m", "x")
    assert not answer.ok
    assert said in answer.message


@pytest.mark.parametrize(
    "parts",
    [
        [response(b"", length=100), *[b"x"] * 100],
        [b"HTTP/1.1 200 OK\r\nX: ", *[b"x"] * 100],
        [b"H", *[b""] * 100],
    ],
    ids=["the body", "a header", "the status"],
)
def test_an_answer_that_drips_is_given_up(parts: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Each byte comes well before a time-out of the socket."""
    monkeypatch.setattr(exchange, "TIMEOUT_S", 0.5)
    with answering(value("first")) as url:
        client = Client(url)
        assert client.predict("m", "x").ok
    with answering(*parts, pause_s=0.1) as url:
        client._exchanger()._url = url
        answer = client.predict("m", "x")
    assert (answer.status, "no whole answer" in answer.message) == (NOT_SENT, True)
