"""The address of a server, as a user gives it: checked, and reached through the proxy and with the CA that apply."""

from __future__ import annotations

import ipaddress
import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

import requests
from requests.utils import get_environ_proxies

from marsmith.errors import ClientError
from marsmith.ground.untrusted import printable

EXAMPLE = "http://127.0.0.1:8080"
DEFAULT_PORTS = {"http": 80, "https": 443}
# Where requests, curl and OpenSSL look for certificates of CAs, in this order.
CA_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
# The paths of TorchServe's API of predictions, which do not belong into its address.
ROUTES = ("predictions", "explanations", "invocations", "ping", "models")


@dataclass(frozen=True, slots=True)
class Address:
    """A server's address. `url` has no user and no password: it may be printed."""

    url: str
    host: str
    port: int
    login: tuple[str, str] | None = field(default=None, repr=False)
    ca: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """Whether it is on this machine, so that no proxy stands between."""
        if self.host == "localhost" or self.host.endswith(".localhost"):
            return True
        try:
            address = ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return address.is_loopback or address.is_unspecified

    @property
    def is_tls(self) -> bool:
        """Whether it is asked over TLS."""
        return self.url.startswith("https:")

    def session(self) -> requests.Session:
        """A session for one thread. Raises ClientError for certificates of a CA that cannot be read.

        Proxies and CAs are those of the environment; its .netrc is not read, which would replace a token.
        """
        session = direct_session()
        if not self.is_loopback:
            session.proxies.update(get_environ_proxies(self.url, None))
        if self.is_tls and (ca := self._ca()):
            session.verify = ca
        session.auth = self.login
        return session

    def _ca(self) -> str | None:
        """The file, or directory, with the certificates of the CAs that are trusted; None for those of certifi."""
        names = {"--ca": str(self.ca)} if self.ca else {name: os.environ.get(name) for name in CA_VARIABLES}
        for name, path in names.items():
            if path:
                _check_ca(name, Path(path))
                return path
        return None


def direct_session() -> requests.Session:
    """A session that goes straight to the server: no proxy and no .netrc of the environment stands between."""
    session = requests.Session()
    session.trust_env = False
    return session


def address(url: str, ca: Path | None = None) -> Address:
    """The address that a user gave. Raises ClientError that says how to write it."""
    if not url.isprintable() or any(character.isspace() for character in url):
        raise ClientError(f"The address has characters that no URL may have: write it as in {EXAMPLE}.")
    parts = _split(url)
    if parts.scheme not in DEFAULT_PORTS or not parts.netloc:
        if "://" in url:
            raise ClientError(f"The address begins with {parts.scheme}://: only http:// and https:// can be asked.")
        raise ClientError(f"The address does not begin with http:// or https://: write it as in {EXAMPLE}.")
    if parts.query or parts.fragment:
        raise ClientError(f"The address has a query or a fragment: give the server's address only, as in {EXAMPLE}.")
    path = parts.path.rstrip("/")
    if any(part in ROUTES for part in path.split("/")):
        raise ClientError(
            f"The address goes on with {printable(path)}: give the server's address only, as in {EXAMPLE}, and the "
            "model by its name."
        )
    host, port = str(parts.hostname), parts.port or DEFAULT_PORTS[parts.scheme]
    login = (unquote(parts.username or ""), unquote(parts.password or "")) if "@" in parts.netloc else None
    place = parts.netloc.rpartition("@")[2]
    return Address(f"{parts.scheme}://{place}{path}", host, port, login, ca)


def _split(url: str) -> SplitResult:
    """The parts of a URL whose host and port can be read. Raises ClientError."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme not in DEFAULT_PORTS or (bool(parts.hostname) and parts.port != 0)
    except ValueError:  # brackets or a port that are none
        valid = False
    if not valid:
        raise ClientError(
            f"The address has no valid host and port: write it as in {EXAMPLE}, IPv6 as in http://[::1]:8080."
        )
    return parts


def _check_ca(name: str, path: Path) -> None:
    """Raise ClientError where there are no certificates; requests would only fail at the first request."""
    try:
        if path.is_dir():
            return
        ssl.create_default_context(cafile=path)
    except ssl.SSLError:
        raise ClientError(f"{name} names {path}, which is not a PEM file of certificates: give your CA's.") from None
    except OSError as error:
        raise ClientError(f"{name} names {path}, which cannot be read: {error.strerror}.") from None
