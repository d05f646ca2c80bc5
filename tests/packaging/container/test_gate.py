"""The gate of a multi-model endpoint, with a stand-in for the TorchServe behind it."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import requests

from marsmith.builder import Built
from marsmith.container.gate import MAX_LOAD_BYTES, Gate
from marsmith.container.settings import Settings
from marsmith.errors import ContainerError
from marsmith.mar.reader import extract_archive
from tests.packaging.ports import free_ports

TIMEOUT_S = 30
# What a model is called that TorchServe cannot load.
BROKEN = "broken"


class TorchServe(ThreadingHTTPServer):
    """Notes what it is asked, and answers as TorchServe does."""

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", port), Answers)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: TorchServe

    def do_GET(self) -> None:
        chunked = self.headers.get("Transfer-Encoding") == "chunked"
        body = b"".join(self.chunks()) if chunked else self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append((self.command, self.path, dict(self.headers), body))
        query = parse_qs(urlsplit(self.path).query)
        status = 507 if query.get("model_name") == [BROKEN] else 302 if self.path == "/models/away/invoke" else 200
        answer = body or b"{}"
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.send_header("X-Own", "kept")
        if status == 302:
            self.send_header("Location", "http://127.0.0.1:1/")
        self.end_headers()
        self.wfile.write(answer)

    do_POST = do_GET  # noqa: N815 - http.server calls them so
    do_DELETE = do_GET  # noqa: N815

    def chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def log_message(self, *_arguments: object) -> None:
        pass


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(tmp_path, tmp_path / "home", free_ports().first, multi_model=True)


@pytest.fixture
def url(settings: Settings, said: list[str], behind: TorchServe) -> Iterator[str]:
    with Gate(settings, said.append):
        yield f"http://127.0.0.1:{settings.port}"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def behind(settings: Settings) -> Iterator[TorchServe]:
    """Predictions and management on the two ports that the settings name."""
    predictions, management = (TorchServe(settings.ports.first + place) for place in (0, 1))
    management.asked = predictions.asked
    yield predictions
    for server in (predictions, management):
        server.shutdown()
        server.server_close()


@pytest.fixture
def tree(sentiment_archive: Built, tmp_path: Path) -> Path:
    directory = tmp_path / "models/hash/model"
    extract_archive(sentiment_archive.path, directory)
    return directory


def load(url: str, tree: Path, name: str = "a") -> requests.Response:
    return requests.post(f"{url}/models", json={"model_name": name, "url": str(tree)}, timeout=TIMEOUT_S)


def test_torchserve_is_told_of_the_verified_copy_and_of_nothing_else(
    url: str, tree: Path, behind: TorchServe, settings: Settings
) -> None:
    asked = {"model_name": "a", "url": str(tree), "handler": "/tmp/x.py:run", "runtime": "LSP"}
    assert requests.post(f"{url}/models", json=asked, timeout=TIMEOUT_S).status_code == 200
    ((method, path, _headers, body),) = behind.asked
    query = {name: value for name, (value,) in parse_qs(urlsplit(path).query).items()}
    assert (method, body) == ("POST", b"")
    assert query == {"model_name": "a", "url": "a", "initial_workers": "1", "synchronous": "true"}
    assert (settings.store / "a/handlers/base.py").is_file()


def test_it_keeps_the_books(url: str, tree: Path, behind: TorchServe, settings: Settings) -> None:
    assert load(url, tree).status_code == 200
    assert load(url, tree).status_code == 409
    told = {"modelName": "a", "modelUrl": str(tree)}
    assert requests.get(f"{url}/models", timeout=TIMEOUT_S).json() == {"models": [told]}
    assert requests.get(f"{url}/models/a", timeout=TIMEOUT_S).json() == told
    assert requests.get(f"{url}/models/b", timeout=TIMEOUT_S).status_code == 404
    assert requests.delete(f"{url}/models/a", timeout=TIMEOUT_S).status_code == 200
    assert behind.asked[-1][:2] == ("DELETE", "/models/a")
    assert not (settings.store / "a").exists()
    assert requests.delete(f"{url}/models/a", timeout=TIMEOUT_S).status_code == 404
    assert load(url, tree).status_code == 200


def test_a_model_that_cannot_be_loaded_leaves_nothing(
    url: str, tree: Path, behind: TorchServe, settings: Settings
) -> None:
    assert load(url, tree, BROKEN).status_code == 507
    assert behind.asked[-1][:2] == ("DELETE", f"/models/{BROKEN}")
    assert not (settings.store / BROKEN).exists()
    assert requests.get(f"{url}/models", timeout=TIMEOUT_S).json() == {"models": []}


def test_a_changed_model_is_refused_with_the_reason(url: str, tree: Path, behind: TorchServe, said: list[str]) -> None:
    (tree / "sitecustomize.py").write_text("")
    answer = load(url, tree)
    assert (answer.status_code, answer.json()["code"]) == (424, 424)
    assert "sitecustomize.py was added" in answer.json()["message"]
    assert "sitecustomize.py was added" in said[0]
    assert [path for method, path, *_ in behind.asked if method == "POST"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "asked",
    [
        b"not JSON",
        b"[]",
        b'{"model_name": "a"}',
        b'{"model_name": "../a", "url": "/models"}',
        b'{"model_name": ".", "url": "/models"}',
        b'{"model_name": 1, "url": "/models"}',
        b'{"model_name": "a", "url": "models"}',
        b'{"model_name": "a", "url": "http://127.0.0.1/a.mar"}',
        b'{"model_name": "a", "url": "/a\\u0000b"}',
        b"[" * 10_000,
    ],
)
def test_what_cannot_be_loaded_is_400(url: str, behind: TorchServe, asked: bytes) -> None:
    assert requests.post(f"{url}/models", data=asked, timeout=TIMEOUT_S).status_code == 400
    assert behind.asked == []


def test_a_path_without_a_model_is_424_and_a_long_body_413(url: str, tmp_path: Path, behind: TorchServe) -> None:
    assert load(url, tmp_path / "nothing").status_code == 424
    assert requests.post(f"{url}/models", data=b" " * (MAX_LOAD_BYTES + 1), timeout=TIMEOUT_S).status_code == 413
    assert [path for method, path, *_ in behind.asked if method == "POST"] == []


@pytest.mark.slow
@pytest.mark.parametrize("chunked", [True, False])
def test_requests_and_answers_pass_as_they_are(url: str, tree: Path, behind: TorchServe, chunked: bool) -> None:
    load(url, tree)
    body = bytes(range(256)) * 1000
    headers = {"Content-Type": "image/jpeg", "Content-Encoding": "gzip", "X-Amzn-SageMaker-Target-Model": "a.tar.gz"}
    answer = requests.post(
        f"{url}/models/a/invoke?secret=1",
        data=iter([body]) if chunked else body,
        headers={**headers, "Expect": "100-continue"},
        timeout=TIMEOUT_S,
    )
    assert (answer.status_code, answer.headers["X-Own"]) == (200, "kept")
    _method, path, got, sent = behind.asked[-1]
    assert path == "/models/a/invoke"
    assert {name: got[name] for name in headers} == headers
    assert (answer.content, sent) == (body, body)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", "/models/other/invoke", 404),
        ("POST", "/models/a%2F..%2Fa/invoke", 404),
        ("POST", "/predictions/a", 404),
        ("POST", "/invocations", 404),
        ("PUT", "/models/a", 405),
        ("PUT", "/models/a/1.0/set-default", 404),
        ("GET", "/api-description", 404),
        ("POST", "/workflows", 404),
    ],
)
def test_nothing_else_of_torchserve_is_reached(
    url: str, tree: Path, behind: TorchServe, method: str, path: str, status: int
) -> None:
    load(url, tree)
    before = len(behind.asked)
    answer = requests.request(method, f"{url}{path}", timeout=TIMEOUT_S)
    assert (answer.status_code, answer.json()["code"]) == (status, status)
    assert len(behind.asked) == before


@pytest.mark.slow
def test_a_redirect_is_not_followed(url: str, tree: Path, behind: TorchServe) -> None:
    load(url, tree, "away")
    answer = requests.post(f"{url}/models/away/invoke", b"text", timeout=TIMEOUT_S, allow_redirects=False)
    assert answer.status_code == 302


def test_before_torchserve_listens_it_says_when_to_ask_again(settings: Settings, said: list[str]) -> None:
    with Gate(settings, said.append):
        answer = requests.get(f"http://127.0.0.1:{settings.port}/ping", timeout=TIMEOUT_S)
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")


def test_a_port_that_is_taken_is_named(settings: Settings, said: list[str]) -> None:
    with (
        Gate(settings, said.append),
        pytest.raises(ContainerError, match=f"Port {settings.port} cannot be used"),
        Gate(settings, said.append),
    ):
        pass
