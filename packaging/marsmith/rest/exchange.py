"""One HTTP exchange with a server that is not trusted: bounded in bytes and in time, and no redirect is followed."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import requests
from requests.adapters import HTTPAdapter

from marsmith.rest.address import Address

# A request and its answer together, however slowly they come. TorchServe ends a batch after 60 s
# (config.properties), and a request may wait for others in the queue.
TIMEOUT_S = 120
CONNECT_TIMEOUT_S = 20
# Twice the bytes of an answer that TorchServe passes on (max_response_size, 6,553,500), rounded up.
MAX_ANSWER_BYTES = 16 << 20
CHUNK_BYTES = 64 << 10


class TooLongError(requests.RequestException):
    """The answer has more bytes than are read."""


class EncodedError(requests.RequestException):
    """The answer is compressed, though nothing was said that allows it: unpacked it may have any size."""


class TooSlowError(requests.RequestException):
    """The answer was not there in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it came. `retry_after` is the header of that name."""

    status: int
    phrase: str
    body: bytes
    retry_after: str = ""


class Exchanger:
    """Asks one server, one request after the other; `cut` breaks off what another thread is waiting for."""

    def __init__(self, address: Address) -> None:
        self._url = address.url
        self._session = address.session()
        self._adapter = _Adapter()
        for scheme in ("http://", "https://"):
            self._session.mount(scheme, self._adapter)

    def post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        """The answer to a body. Raises requests.RequestException."""
        late = threading.Event()

        def end() -> None:
            late.set()
            self.cut()

        watch = threading.Timer(TIMEOUT_S, end)
        watch.daemon = True
        watch.start()
        try:
            answer = self._post(path, body, headers)
        except requests.RequestException:
            if not late.is_set():
                raise
        finally:
            watch.cancel()
        # A body whose end is that of the connection seems whole when that is cut.
        if late.is_set():
            raise TooSlowError
        return answer

    def _post(self, path: str, body: bytes, headers: Mapping[str, str]) -> Answer:
        with self._session.post(
            self._url + path,
            data=body,
            headers={"Accept-Encoding": "identity", **headers},
            timeout=(CONNECT_TIMEOUT_S, TIMEOUT_S),
            allow_redirects=False,
            stream=True,
        ) as response:
            if response.headers.get("Content-Encoding", "identity").lower() != "identity":
                raise EncodedError
            parts = b"".join(_bounded(response))
            return Answer(response.status_code, response.reason or "", parts, response.headers.get("Retry-After", ""))

    def cut(self) -> None:
        """Shut the connection, so that who waits for it gets an error."""
        for one in (self._adapter.socket, getattr(self._adapter.connection, "sock", None)):
            if one is not None:
                with contextlib.suppress(OSError):  # it is closed already
                    one.shutdown(socket.SHUT_RDWR)


class _Adapter(HTTPAdapter):
    """requests' own, which remembers its last connection, and the socket that an answer comes from.

    A connection forgets its socket when the server closes it after the answer.
    """

    connection: Any = None
    socket: Any = None

    def get_connection_with_tls_context(self, *arguments: Any, **named: Any) -> Any:
        """The pool of connections to a server, or to a proxy, which remembers what it makes."""
        pool: Any = super().get_connection_with_tls_context(*arguments, **named)
        kind = type(pool).ConnectionCls

        def connect(*arguments: Any, **named: Any) -> Any:
            connection = self.connection = kind(*arguments, **named)
            read_answer = connection.getresponse

            def answer() -> Any:
                self.socket = connection.sock
                return read_answer()

            connection.getresponse = answer
            return connection

        pool.ConnectionCls = connect
        return pool


def _bounded(response: requests.Response) -> Iterator[bytes]:
    count = 0
    for part in response.iter_content(CHUNK_BYTES):
        count += len(part)
        if count > MAX_ANSWER_BYTES:
            raise TooLongError
        yield part
