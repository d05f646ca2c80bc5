"""Why a server gave no answer, or one that is no help, and what to do about it."""

from __future__ import annotations

import errno
import os
import socket
import ssl
from collections.abc import Iterator
from http import HTTPStatus
from urllib.parse import urlsplit

import requests
from requests.utils import get_environ_proxies, select_proxy
from urllib3.exceptions import NameResolutionError

from marsmith.rest.address import Address
from marsmith.rest.exchange import (
    CONNECT_TIMEOUT_S,
    MAX_ANSWER_BYTES,
    TIMEOUT_S,
    EncodedError,
    TooLongError,
    TooSlowError,
)

START = "start a server with marsmith serve, or name yours with --url"
# What to do about a status, where the answer itself does not say.
HINTS = {
    HTTPStatus.UNAUTHORIZED: "give a token with --token or MARSMITH_TOKEN",
    HTTPStatus.FORBIDDEN: "check the token, and that --url is a TorchServe's inference address",
    HTTPStatus.NOT_FOUND: "name a model that the server has, and its inference address with --url",
    HTTPStatus.METHOD_NOT_ALLOWED: "check that --url is a TorchServe's inference address",
    HTTPStatus.PROXY_AUTHENTICATION_REQUIRED: "give the proxy's user and password in HTTPS_PROXY or HTTP_PROXY",
    HTTPStatus.BAD_GATEWAY: "the proxy before the server does not reach it",
    HTTPStatus.GATEWAY_TIMEOUT: "the proxy before the server waited in vain",
}
REDIRECTS = range(300, 400)
# TorchServe's name of the error of a request without a token, whose status is 400.
WITHOUT_KEY = "InvalidKeyException"
# ssl's codes of certificates that do not fit (X509_V_ERR_ of OpenSSL's x509_vfy.h).
EXPIRED, WRONG_HOST, WRONG_IP = 10, 62, 64


def no_answer(error: requests.RequestException) -> str:
    """Why one request got no answer from a server that had answered others."""
    if isinstance(error, TooLongError):
        return f"The answer has more than {MAX_ANSWER_BYTES:,} bytes."
    if isinstance(error, EncodedError):
        return "The answer is compressed, which was not asked for."
    if isinstance(error, (TooSlowError, requests.Timeout)):
        return f"The server gave no whole answer within {TIMEOUT_S} s."
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return "The server broke the connection before its answer was whole."
    return f"The server broke the connection ({type(error).__name__})."


def unreachable(address: Address, error: requests.RequestException) -> str:
    """Why a server cannot be asked at all, and what to do."""
    where = address.url
    causes = list(_causes(error))
    if isinstance(error, requests.exceptions.ProxyError):
        return (
            f"The proxy {_proxy(address)} does not connect to {where}: correct HTTPS_PROXY or HTTP_PROXY, or name "
            f"{address.host} in NO_PROXY."
        )
    if certificate := next((one for one in causes if isinstance(one, ssl.SSLCertVerificationError)), None):
        return f"The certificate of {where} {_distrusted(certificate, address)}."
    if isinstance(error, requests.exceptions.SSLError):
        return f"{where} does not speak TLS as it must: check the port, or write http:// if it has no TLS."
    if any(isinstance(one, (NameResolutionError, socket.gaierror)) for one in causes):
        return f"The host {address.host} is not known: check the name in --url, and the network."
    if isinstance(error, requests.ConnectTimeout):
        return f"{where} does not answer within {CONNECT_TIMEOUT_S} s: check --url, and firewalls between."
    if isinstance(error, (requests.ReadTimeout, TooSlowError)):
        return f"{where} takes connections and does not answer within {TIMEOUT_S} s: check that it is a TorchServe's."
    if isinstance(error, (TooLongError, EncodedError)):
        return f"{no_answer(error).rstrip('.')}: check that {where} is a TorchServe's inference address."
    if isinstance(error, (requests.exceptions.InvalidHeader, requests.exceptions.InvalidURL)):
        return f"{where} cannot be asked: a part of the address, of the model's name or of the token is invalid."
    if isinstance(error, requests.exceptions.ChunkedEncodingError):
        return f"{where} breaks the connection before its answer is whole: check that it is a TorchServe's."
    number = next((one.errno for one in causes if isinstance(one, OSError) and one.errno), None)
    if number == errno.ECONNREFUSED:
        return f"Nothing listens at {where}: {START}."
    if number in (errno.ECONNRESET, errno.EPIPE) or "aborted" in str(error):
        return (
            f"{where} closes the connection without an answer: check that it is a TorchServe's, and whether with TLS."
        )
    why = os.strerror(number) if number else type(error).__name__
    return f"{where} cannot be reached ({why}): check --url, and the network."


def words_of(status: int, message: str, kind: str = "") -> str:
    """What an error's status and words mean, with what to do where they do not say."""
    if status in REDIRECTS:
        return "The server redirects to another address, which is not followed: name the one that answers with --url."
    hint = HINTS[HTTPStatus.UNAUTHORIZED] if kind == WITHOUT_KEY else HINTS.get(status)  # type: ignore[call-overload]
    return f"{message.rstrip('. ')}: {hint}." if hint else message


def _distrusted(error: ssl.SSLCertVerificationError, address: Address) -> str:
    if error.verify_code == EXPIRED:
        return "has expired: renew it on the server"
    if error.verify_code in (WRONG_HOST, WRONG_IP):
        return f"is not one of {address.host}: name the host that the certificate names"
    return "is not signed by a CA that is trusted here: name your CA's certificate with --ca, or in SSL_CERT_FILE"


def _proxy(address: Address) -> str:
    """The proxy without its user and password."""
    proxy = select_proxy(address.url, get_environ_proxies(address.url, None)) or ""
    return urlsplit(proxy if "://" in proxy else f"http://{proxy}").netloc.rpartition("@")[2] or "of the environment"


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those that it was raised from, or that it holds as requests' and urllib3's do."""
    seen: set[int] = set()
    stack: list[object] = [error]
    while stack:
        one = stack.pop()
        if isinstance(one, BaseException) and id(one) not in seen:
            seen.add(id(one))
            yield one
            stack += [one.__cause__, one.__context__, getattr(one, "reason", None), *one.args]
