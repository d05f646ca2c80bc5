"""The address of a server: how it may be written, through what it is reached, and what is said where it is not."""

import datetime
import ipaddress
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from marsmith.cli.console import bearer
from marsmith.errors import ClientError
from marsmith.rest.address import CA_VARIABLES, address
from marsmith.rest.client import Client
from tests.packaging.web import Answers, serving

PASSWORD = "hunter2"


class Echo(Answers):
    """Answers with the path and the headers that it is asked with."""

    def answer(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps({"path": self.path, "headers": dict(self.headers)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(autouse=True)
def _bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*CA_VARIABLES, "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("127.0.0.1:8080", "does not begin with http:// or https://"),
        ("localhost:8080", "does not begin with http:// or https://"),
        ("my.server", "does not begin with http:// or https://"),
        ("[::1]:8080", "does not begin with http:// or https://"),
        ("", "does not begin with http:// or https://"),
        ("//host:1", "does not begin with http:// or https://"),
        ("ftp://host", "begins with ftp://"),
        ("http://", "no valid host and port"),
        ("http://:8080", "no valid host and port"),
        ("http://host:port", "no valid host and port"),
        ("http://host:99999", "no valid host and port"),
        ("http://host:0", "no valid host and port"),
        ("http://[::1", "no valid host and port"),
        ("http://host/predictions/m", "goes on with /predictions/m"),
        ("http://host/?a=b", "has a query"),
        ("http://host/#a", "has a query or a fragment"),
        ("http://ho st", "characters that no URL may have"),
        ("http://host\n", "characters that no URL may have"),
        ("http://host\x1b[2J", "characters that no URL may have"),
        (f"{PASSWORD}@host:1", "does not begin with http:// or https://"),
        (f"http://me:{PASSWORD}@host:x", "no valid host and port"),
    ],
)
def test_an_address_that_cannot_be_is_one_sentence(url: str, said: str) -> None:
    with pytest.raises(ClientError) as caught:
        address(url)
    assert said in str(caught.value)
    assert "127.0.0.1:8080" in str(caught.value) or "only http:// and https://" in str(caught.value)
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "clean", "loopback"),
    [
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080", True),
        ("http://[::1]:8080", "http://[::1]:8080", True),
        ("http://0.0.0.0:1", "http://0.0.0.0:1", True),
        ("HTTP://LOCALHOST:1//", "http://LOCALHOST:1", True),
        ("https://example.org/behind/a/path/", "https://example.org/behind/a/path", False),
        (f"https://me:{PASSWORD}@example.org", "https://example.org", False),
    ],
)
def test_an_address_is_kept_without_what_must_not_be_printed(url: str, clean: str, loopback: bool) -> None:
    found = address(url)
    assert (found.url, found.is_loopback) == (clean, loopback)
    assert PASSWORD not in repr(found)


def test_a_path_a_user_and_a_version_are_sent() -> None:
    with serving(Echo) as url:
        asked = Client(url.replace("http://", f"http://me:{PASSWORD}@") + "/behind/").predict("m/1.0", "x").body
    assert asked["path"] == "/behind/predictions/m/1.0"
    assert asked["headers"]["Authorization"].startswith("Basic ")


def test_a_model_that_is_no_word_stays_one_part_of_the_path() -> None:
    with serving(Echo) as url:
        assert Client(url).predict("a b?c#\u00e9", "x").body["path"] == "/predictions/a%20b%3Fc%23%C3%A9"


def test_a_proxy_stands_between_except_before_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(Echo) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        assert Client("http://example.invalid:8080").predict("m", "x").body["path"] == (
            "http://example.invalid:8080/predictions/m"
        )
        assert Client(proxy).predict("m", "x").body["path"] == "/predictions/m"
        monkeypatch.setenv("no_proxy", "example.invalid")
        with pytest.raises(ClientError, match=r"The host example\.invalid is not known"):
            Client("http://example.invalid:8080").predict("m", "x")


def test_a_proxy_that_fails_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", f"http://me:{PASSWORD}@127.0.0.1:9")
    with pytest.raises(ClientError, match=r"The proxy 127\.0\.0\.1:9 does not connect.*NO_PROXY") as caught:
        Client("https://example.invalid").predict("m", "x")
    assert PASSWORD not in str(caught.value)


def test_netrc_does_not_replace_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text(f"machine 127.0.0.1 login me password {PASSWORD}\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with serving(Echo) as url:
        asked = Client(url, bearer(" token\n")).predict("m", "x").body
    assert asked["headers"]["Authorization"] == "Bearer token"


@pytest.mark.parametrize("token", ["a\nb", "\u20ac", "a\x00", "\udcff"])
def test_a_token_that_no_header_can_hold_is_refused_and_not_printed(token: str) -> None:
    with pytest.raises(ClientError, match="The token has characters that no HTTP header can hold") as caught:
        bearer(token)
    assert token not in str(caught.value)


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the certificate of a CA of our own, and one of localhost that it signed, and an old one."""
    directory = tmp_path_factory.mktemp("tls")
    now = datetime.datetime.now(datetime.UTC)

    def certificate(name: str, issuer: str, key: ec.EllipticCurvePrivateKey, days: int) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
            .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=30))
            .not_valid_after(now + datetime.timedelta(days=days))
        )

    ca_key = ec.generate_private_key(ec.SECP256R1())
    identifier = x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key())
    usage = x509.KeyUsage(*(index in (5, 6) for index in range(9)))
    ca = (
        certificate("Our CA", "Our CA", ca_key, 30)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    (directory / "ca.pem").write_bytes(ca.public_bytes(Encoding.PEM))
    for name, days in (("new", 30), ("old", -1)):
        key = ec.generate_private_key(ec.SECP256R1())
        names = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("::1"))])
        signed = (
            certificate("localhost", "Our CA", key, days)
            .add_extension(names, critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        (directory / f"{name}.pem").write_bytes(private + signed.public_bytes(Encoding.PEM))
    return directory


@pytest.fixture(params=["new"])
def tls_port(certificates: Path, request: pytest.FixtureRequest) -> Iterator[int]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates / f"{request.param}.pem")
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.handle_error = lambda *_: None  # type: ignore[method-assign]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def test_a_ca_of_ones_own_is_named_by_an_option_or_by_the_environment(
    certificates: Path, tls_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, ca = f"https://localhost:{tls_port}", certificates / "ca.pem"
    with pytest.raises(ClientError, match=r"is not signed by a CA that is trusted here: .*--ca, or in SSL_CERT_FILE"):
        Client(url).predict("m", "x")
    assert Client(url, ca=ca).predict("m", "x").ok
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE"):
        with monkeypatch.context() as patch:
            patch.setenv(name, str(ca))
            assert Client(url).predict("m", "x").ok


def test_a_certificate_of_another_host_is_called_that(certificates: Path, tls_port: int) -> None:
    with pytest.raises(ClientError, match=r"is not one of 127\.0\.0\.1: name the host"):
        Client(f"https://127.0.0.1:{tls_port}", ca=certificates / "ca.pem").predict("m", "x")


@pytest.mark.parametrize("tls_port", ["old"], indirect=True)
def test_an_old_certificate_is_called_that(certificates: Path, tls_port: int) -> None:
    with pytest.raises(ClientError, match="has expired: renew it on the server"):
        Client(f"https://localhost:{tls_port}", ca=certificates / "ca.pem").predict("m", "x")


@pytest.mark.slow
def test_tls_where_there_is_none_and_none_where_there_is_tls(certificates: Path, tls_port: int) -> None:
    with serving(Echo) as url, pytest.raises(ClientError, match="does not speak TLS as it must"):
        Client(url.replace("http:", "https:")).predict("m", "x")
    with pytest.raises(ClientError, match="and whether with TLS"):
        Client(f"http://localhost:{tls_port}").predict("m", "x")


@pytest.mark.parametrize("name", ["--ca", "REQUESTS_CA_BUNDLE", "SSL_CERT_FILE"])
def test_certificates_that_cannot_be_read_are_said_before_anything_is_asked(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = tmp_path / "no.pem"
    text.write_text("no certificate")
    for file, said in ((tmp_path / "missing.pem", "cannot be read: No such file"), (text, "is not a PEM file")):
        if name != "--ca":
            monkeypatch.setenv(name, str(file))
        with pytest.raises(ClientError, match=f"{name} names {file}, which {said}"):
            Client("https://example.invalid", ca=file if name == "--ca" else None)


def test_nothing_that_listens_and_what_does_not_answer_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ClientError, match=r"Nothing listens at .*: start a server with marsmith serve"):
            Client(url).predict("m", "x")
        taken.listen()
        monkeypatch.setattr("marsmith.rest.exchange.TIMEOUT_S", 0.2)
        with pytest.raises(ClientError, match="takes connections and does not answer"):
            Client(url).predict("m", "x")


class Refusing(Answers):
    """Answers with the status that is the model's name, without a word."""

    def answer(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(int(self.path.rpartition("/")[2]))
        self.send_header("Content-Length", "0")
        self.end_headers()


@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "give a token with --token or MARSMITH_TOKEN"),
        (403, "check the token"),
        (404, "name a model that the server has"),
        (405, "TorchServe's inference address"),
        (407, "the proxy's user and password"),
        (500, "Internal Server Error"),
        (502, "the proxy before the server does not reach it"),
        (504, "waited in vain"),
    ],
)
def test_the_advice_fits_the_status(status: int, said: str) -> None:
    with serving(Refusing) as url:
        assert said in Client(url).predict(str(status), "x").message
