"""A server on loopback whose every answer takes a while, and which answers one request at a time."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class SlowServer(ThreadingHTTPServer):
    """Answers each POST with its body after `seconds`; with `fail_every` n, each nth with 503."""

    daemon_threads = True

    def __init__(self, seconds: float, fail_every: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seconds = seconds
        self.fail_every = fail_every
        self.asked = 0
        self.turn = threading.Lock()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: SlowServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with self.server.turn:
            self.server.asked += 1
            failed = bool(self.server.fail_every) and self.server.asked % self.server.fail_every == 0
            time.sleep(self.server.seconds)
        self.send_response(503 if failed else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - http.server's own name
        return


@contextmanager
def slow_server(seconds: float, fail_every: int = 0) -> Iterator[SlowServer]:
    with SlowServer(seconds, fail_every) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
