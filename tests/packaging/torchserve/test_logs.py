"""What TorchServe and its workers write of requests: never a word of a user's, wherever in a request it stands."""

import re
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import requests

from marsmith.torchserve.server import Server

SECRET = "private4711"
TIMEOUT_S = 60
# Longer than any of these requests takes on a busy machine.
PATIENCE_S = 5
AT_ONCE = 16
BOUNDARY = "b0undary"


def http(line: str, *headers: str, body: str | bytes = "") -> bytes:
    """A request as it goes over the wire, right or wrong."""
    content = body.encode() if isinstance(body, str) else body
    head = [line, "Host: localhost", "Connection: close", *headers]
    if not any(one.lower().startswith(("content-length", "transfer-encoding")) for one in headers):
        head.append(f"Content-Length: {len(content)}")
    return "\r\n".join(head).encode("utf-8") + b"\r\n\r\n" + content


def form(disposition: str, *headers: str, content: str = SECRET, boundary: str = BOUNDARY) -> bytes:
    part = "\r\n".join([f"--{boundary}", f"Content-Disposition: {disposition}", *headers, "", content])
    return f"{part}\r\n--{boundary}--\r\n".encode()


PREDICT = "POST /predictions/sentiment HTTP/1.1"
URLENCODED = "Content-Type: application/x-www-form-urlencoded"
MULTIPART = f"Content-Type: multipart/form-data; boundary={BOUNDARY}"
JSON = "Content-Type: application/json"
# What has the secret in it, in every place of a request that TorchServe or a worker reads.
PREDICTIONS = [
    http(PREDICT, URLENCODED, body=f"text=100% sure {SECRET}"),
    http(PREDICT, URLENCODED, body=f"text=%{SECRET}"),
    http(PREDICT, URLENCODED, body=f"%zz{SECRET}=x"),
    http(PREDICT, URLENCODED, body=f"text=%ff%fe{SECRET}"),
    http(PREDICT, URLENCODED, body=f"text=%e2%28{SECRET}%a1\n\tat {SECRET}"),
    http(PREDICT, f"{URLENCODED}; charset={SECRET}", body="text=x"),
    http(PREDICT, URLENCODED, body=f"{SECRET}=1&{SECRET}"),
    http(PREDICT, MULTIPART, body=form(f'form-data; name="text"; filename="{SECRET}.txt"')),
    http(PREDICT, MULTIPART, body=form('form-data; name="text"', f"Content-Type: text/plain; charset={SECRET}")),
    http(PREDICT, MULTIPART, body=form(f'form-data; name="{SECRET}"', f"Content-Type: {SECRET}")),
    http(PREDICT, MULTIPART, body=form(f"form-data; name=text; filename*=utf-8''%zz{SECRET}")),
    http(PREDICT, MULTIPART, body=form(f"form-data; name=text; filename*={SECRET}''x")),
    http(PREDICT, MULTIPART, body=form(f"form-data; {SECRET}")),
    http(PREDICT, MULTIPART, body=form(f"{SECRET}")),
    http(PREDICT, MULTIPART, body=form('form-data; name="text"', f"Content-Transfer-Encoding: {SECRET}")),
    http(PREDICT, MULTIPART, body=form('form-data; name="text"', f"Content-Length: {SECRET}")),
    http(PREDICT, MULTIPART, body=f"--{SECRET}\r\n{SECRET}"),
    http(PREDICT, MULTIPART, body=f"--{BOUNDARY}\r\nContent-Type: multipart/mixed; {SECRET}\r\n\r\n{SECRET}"),
    http(PREDICT, f"Content-Type: multipart/form-data; boundary={SECRET}", body=SECRET),
    http(PREDICT, f"Content-Type: multipart/form-data; {SECRET}", body=SECRET),
    http(PREDICT, f"Content-Type: multipart/form-data; boundary={BOUNDARY}; charset={SECRET}", body=form("form-data")),
    http(PREDICT, JSON, body=f'{{"text": "{SECRET}"'),
    http(PREDICT, JSON, body=f'{{"text": "{SECRET}"}}'),
    http(PREDICT, JSON, body=f'{{"instances": [{{"{SECRET}": "{SECRET}"}}]}}'),
    http(PREDICT, JSON, body=f'{{"inputs": [{{"name": "{SECRET}", "datatype": "{SECRET}", "shape": [1]}}]}}'),
    http(PREDICT, JSON, body=f"{SECRET}\ud800".encode("utf-8", "surrogatepass")),
    http(PREDICT, JSON, body="9" * 5000 + SECRET),
    http(PREDICT, "Content-Type: text/plain", body=SECRET.encode() + b"\xff"),
    http(PREDICT, "Content-Type: text/plain", body=f"x\n[METRICS]{SECRET}\n{SECRET}"),
    http(PREDICT, f"Content-Type: text/plain; charset={SECRET}", body=SECRET),
    http(PREDICT, f"Content-Type: {SECRET}", body=SECRET),
    http(PREDICT, "Content-Type: image/png", body=b"\x89PNG\r\n\x1a\n" + SECRET.encode()),
    http(PREDICT, "Content-Encoding: gzip", JSON, body=SECRET),
    http(PREDICT, "Transfer-Encoding: chunked", JSON, body=f"{SECRET}\r\n{SECRET}\r\n0\r\n\r\n"),
    http(PREDICT, "Transfer-Encoding: chunked", JSON, body=f"b\r\n{SECRET}\r\n0\r\n{SECRET}: {SECRET}\r\n\r\n"),
    http(PREDICT, f"Transfer-Encoding: {SECRET}", body=SECRET),
    http(PREDICT, f"Content-Length: {SECRET}", body=SECRET),
    http(PREDICT, f"Cookie: a={SECRET}; b", f"Authorization: Bearer {SECRET}", f"Expect: {SECRET}", body=SECRET),
    http(PREDICT, f"{SECRET}\x01: x", f"X-Bad: {SECRET}\x00", body=SECRET),
    http(PREDICT, f"X: {SECRET}" + "x" * 20_000, body=SECRET),
    http(f"POST /predictions/sentiment?text={SECRET}&x=%zz{SECRET} HTTP/1.1", body=SECRET),
    http(f"POST /predictions/{SECRET}/{SECRET} HTTP/1.1", body=SECRET),
    http(f"POST /predictions/%zz{SECRET} HTTP/1.1", body=SECRET),
    http(f"POST /predictions/%{SECRET}?%{SECRET} HTTP/1.1", body=SECRET),
    http(f"POST /{SECRET}/%00 HTTP/1.1", body=SECRET),
    http(f"POST /{SECRET}\u00e4 {SECRET} HTTP/1.1", body=SECRET),
    http(f"{SECRET} /predictions/sentiment HTTP/1.1", body=SECRET),
    http(f"POST /predictions/sentiment HTTP/{SECRET}", body=SECRET),
    http(f"POST http://[{SECRET}/predictions/sentiment HTTP/1.1", body=SECRET),
    http(f"GET /predictions/sentiment?data={SECRET}% HTTP/1.1"),
    http(f"OPTIONS /predictions/sentiment?{SECRET} HTTP/1.1", f"Origin: {SECRET}"),
    http("POST /explanations/sentiment HTTP/1.1", URLENCODED, body=f"text=100% {SECRET}"),
    http("POST /explanations/sentiment HTTP/1.1", JSON, body=f'{{"text": "{SECRET}"}}'),
    http(f"POST /explanations/{SECRET}% HTTP/1.1", body=SECRET),
    http(f"POST /invocations?model_name={SECRET}&{SECRET}=%{SECRET} HTTP/1.1", body=SECRET),
    http("POST /invocations?model_name=sentiment HTTP/1.1", URLENCODED, body=f"text=50% {SECRET}"),
    http(f"POST /v1/models/{SECRET}:predict HTTP/1.1", JSON, body=f'{{"{SECRET}'),
    http("POST /v2/models/sentiment/infer HTTP/1.1", URLENCODED, body=f"%{SECRET}"),
    http(f"POST /wfpredict/{SECRET} HTTP/1.1", URLENCODED, body=f"%{SECRET}"),
    http(f"POST /sentiment/predict?data=%{SECRET} HTTP/1.1", URLENCODED, body=f"%{SECRET}"),
    SECRET.encode() + b"\r\n\r\n",
]
MANAGEMENT = [
    http(f"GET /models/{SECRET} HTTP/1.1"),
    http(f"GET /models/%{SECRET} HTTP/1.1"),
    http(f"GET /models?limit={SECRET}&next_page_token={SECRET} HTTP/1.1"),
    http(f"GET /models/sentiment/{SECRET}?customized=%{SECRET} HTTP/1.1"),
    http(f"PUT /models/{SECRET}/1.0/set-default HTTP/1.1"),
    http(f"PUT /models/sentiment/{SECRET}/set-default HTTP/1.1"),
    http(f"PUT /models/{SECRET}?min_worker=1 HTTP/1.1"),
    http(f"PUT /models/sentiment?min_worker={SECRET}&synchronous={SECRET} HTTP/1.1"),
    http(f"POST /models?url={SECRET}&model_name={SECRET} HTTP/1.1", JSON, body=f'{{"url": "{SECRET}'),
    http(f"DELETE /models/{SECRET}/{SECRET} HTTP/1.1"),
    http(f"POST /workflows?url={SECRET} HTTP/1.1", body=SECRET),
    http(f"DELETE /workflows/{SECRET} HTTP/1.1"),
    http(f"GET /token?type={SECRET}% HTTP/1.1"),
]
METRICS = [http(f"GET /metrics?name[]={SECRET}&%{SECRET} HTTP/1.1"), http(f"GET /{SECRET}% HTTP/1.1")]


def send(address: str, wires: list[bytes]) -> list[bytes]:
    """How the answers begin; a server that waits for the rest of a broken request is left waiting."""
    where = urlsplit(address)

    def one(request: bytes) -> bytes:
        with socket.create_connection((str(where.hostname), int(where.port or 0)), PATIENCE_S) as connection:
            try:
                connection.sendall(request)
                return connection.recv(65536)
            except (ConnectionError, TimeoutError):
                return b""

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, wires))


def logs(server: Server) -> Iterator[tuple[str, str]]:
    for path in sorted(Path(server._home).rglob("*log*")):
        if path.is_file():
            yield path.name, path.read_text(encoding="utf-8", errors="replace")


@pytest.mark.server
def test_no_log_has_a_word_of_a_request(server: Server) -> None:
    """One server and every way in: what it cannot read is logged by class and place, and never quoted."""
    ports = server.ports
    answers = send(ports.url, PREDICTIONS)
    assert sum(answer.startswith(b"HTTP/1.1 ") for answer in answers) > len(PREDICTIONS) / 2
    send(ports.management_url, MANAGEMENT)
    send(ports.properties()["metrics_address"], METRICS)
    # The exception that quotes a form is one of those which were logged; its line is written by a thread of its own.
    deadline = time.monotonic() + TIMEOUT_S
    expected = re.compile(r"ERROR .* HttpRequestHandler .*\w+Exception at \S+ decodeComponent \d+ *$", re.MULTILINE)
    while not expected.search(dict(logs(server))["ts_log.log"]):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    found = dict(logs(server))
    assert {"ts_log.log", "model_log.log", "console.log"} <= found.keys()
    assert [(name, line) for name, text in found.items() for line in text.splitlines() if SECRET in line] == []
    good = requests.post(f"{ports.url}/predictions/sentiment", json={"text": "still there"}, timeout=TIMEOUT_S)
    assert good.status_code == 200
