"""The pretended AWS, and a tarball to deploy."""

import gzip
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import requests
from moto.server import ThreadedMotoServer

from marsmith.deploy import waiting
from marsmith.deploy.aws import Aws
from tests.packaging.deploy.cloud import REGION, Cloud


@pytest.fixture(scope="session")
def moto_url() -> Iterator[str]:
    server = ThreadedMotoServer("127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture(autouse=True)
def _environment(moto_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Credentials that are none, and no way to any that are."""
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "no-config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "no-credentials"))
    monkeypatch.setattr(waiting, "POLL_S", 0)


@pytest.fixture
def cloud(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    requests.post(f"{moto_url}/moto-api/reset", timeout=10).raise_for_status()
    return Cloud(moto_url, monkeypatch)


@cache
def shared_aws(_moto_url: str) -> Aws:
    """Clients are dear to make, and none of them knows of a test."""
    return Aws()


@pytest.fixture
def aws(moto_url: str) -> Aws:
    return shared_aws(moto_url)


@pytest.fixture
def tarball(tmp_path: Path) -> Path:
    path = tmp_path / "sentiment.sagemaker.tar.gz"
    path.write_bytes(gzip.compress(b"a model", mtime=0))
    return path
