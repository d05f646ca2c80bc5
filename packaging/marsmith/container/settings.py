"""What the environment asks of the container."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from marsmith.errors import ContainerError
from marsmith.mar.members import DIGESTS
from marsmith.torchserve.configuration import Ports
from marsmith.torchserve.management import KEY_FILE, Management, bearer

ANYWHERE = "0.0.0.0"  # noqa: S104 - a container's own network
# Where SageMaker puts a model; elsewhere archives are baked in or mounted at MODEL_STORE.
SAGEMAKER_MODEL = Path("/opt/ml/model")
MODEL_STORE = Path("/opt/model-store")
HOME = Path("/var/lib/marsmith")
# Files there: while the first exists the health check fails, so that no new requests are sent; the second names the
# models that are to be READY, a line each.
DRAINING, MODELS = "draining", "models"
# A directory there.
STORE = "store"
# The variables that change what every archive says.
STARTUP_TIMEOUT, RESPONSE_TIMEOUT = "STARTUP_TIMEOUT_SECONDS", "RESPONSE_TIMEOUT_SECONDS"
PORT = 8080
# The gate's port and the server's five follow each other.
LARGEST_PORT = 65_530
# Docker's default is 10 seconds from SIGTERM to SIGKILL, Kubernetes' 30.
DRAIN_S = 25.0
# Java multiplies it by a thousand, in 32 bits.
LONGEST_TIMEOUT_S = 86_400
YES, NO = frozenset({"yes", "true", "1"}), frozenset({"no", "false", "0", ""})


@dataclass(frozen=True, slots=True)
class Settings:
    """How the container serves; the README has the table of the variables.

    `model_store` holds the archives, and `home` is the one directory that is written to. `drain_s` are the seconds that
    requests get to be answered after SIGTERM. With `multi_model`, SageMaker names the models while it serves. Where
    `startup_timeout_s` or `response_timeout_s` is set, it takes the place of what every archive says.
    """

    model_store: Path = MODEL_STORE
    home: Path = HOME
    port: int = PORT
    token: bool = False
    require_signature: bool = False
    key: Path | None = None
    drain_s: float = DRAIN_S
    multi_model: bool = False
    startup_timeout_s: int | None = None
    response_timeout_s: int | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> Settings:
        """Raises ContainerError for a value that cannot be."""
        sagemaker = SAGEMAKER_MODEL if _unpacked(SAGEMAKER_MODEL) or any(SAGEMAKER_MODEL.glob("*.mar")) else MODEL_STORE
        settings = cls(
            model_store=Path(environ.get("MODEL_STORE") or sagemaker),
            home=Path(environ.get("MARSMITH_HOME") or HOME),
            port=_port(environ),
            token=_switch(environ, "TOKEN_AUTHORIZATION"),
            require_signature=_switch(environ, "REQUIRE_SIGNATURE"),
            key=Path(environ["SIGNATURE_KEY"]) if environ.get("SIGNATURE_KEY") else None,
            drain_s=_seconds(environ, "DRAIN_SECONDS", DRAIN_S),
            multi_model=_switch(environ, "SAGEMAKER_MULTI_MODEL"),
            startup_timeout_s=_whole_seconds(environ, STARTUP_TIMEOUT),
            response_timeout_s=_whole_seconds(environ, RESPONSE_TIMEOUT),
        )
        if settings.require_signature and settings.key is None:
            raise ContainerError(
                "REQUIRE_SIGNATURE is set, and a signature proves nothing without the key that you trust: mount the "
                "public key and name it with SIGNATURE_KEY."
            )
        if settings.multi_model and settings.token:
            raise ContainerError(
                "SAGEMAKER_MULTI_MODEL and TOKEN_AUTHORIZATION are both set, and SageMaker sends no tokens: take one."
            )
        return settings

    @property
    def tree(self) -> Path | None:
        """The model store where it is itself a model that SageMaker unpacked."""
        return self.model_store if _unpacked(self.model_store) else None

    @property
    def store(self) -> Path:
        """The verified models that TorchServe is given, unpacked, by their names."""
        return self.home / STORE

    @property
    def ports(self) -> Ports:
        """Where TorchServe listens: predictions on every address, since what reaches a container is what is published.

        With `multi_model` that is the gate's address (gate.py), and TorchServe stays behind it.
        """
        if self.multi_model:
            return Ports(self.port + 1, model_api=True)
        return Ports(self.port, inference_host=ANYWHERE)

    def management(self) -> Management:
        """The server's management API. With tokens on, TorchServe asks for one there too."""
        if not self.token:
            return Management(self.ports.management_url)
        return Management(self.ports.management_url, lambda: bearer(self.home / KEY_FILE, "management"))

    @property
    def timeouts(self) -> dict[str, int]:
        """The keys of model-config.yaml that change, with their seconds."""
        asked = {"startupTimeout": self.startup_timeout_s, "responseTimeout": self.response_timeout_s}
        return {key: seconds for key, seconds in asked.items() if seconds is not None}


def _unpacked(directory: Path) -> bool:
    return (directory / DIGESTS).is_file()


def _switch(environ: Mapping[str, str], name: str) -> bool:
    value = environ.get(name, "").lower()
    if value not in YES | NO:
        raise ContainerError(f"{name} is {environ[name]!r}: set it to yes or no.")
    return value in YES


def _port(environ: Mapping[str, str]) -> int:
    """SageMaker may choose another port than EXPOSE says."""
    value = environ.get("SAGEMAKER_BIND_TO_PORT") or str(PORT)
    if not value.isascii() or not value.isdigit() or not 0 < int(value) <= LARGEST_PORT:
        raise ContainerError(f"SAGEMAKER_BIND_TO_PORT is {value!r}: set it to a port from 1 to {LARGEST_PORT}.")
    return int(value)


def _seconds(environ: Mapping[str, str], name: str, default: float) -> float:
    value = environ.get(name) or str(default)
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        raise ContainerError(f"{name} is {value!r}: set it to a number of seconds.")
    return seconds


def _whole_seconds(environ: Mapping[str, str], name: str) -> int | None:
    """TorchServe counts time-outs in whole seconds."""
    value = environ.get(name)
    if not value:
        return None
    if not value.isascii() or not value.isdigit() or not 0 < int(value) <= LONGEST_TIMEOUT_S:
        raise ContainerError(f"{name} is {value!r}: set it to whole seconds, from 1 to {LONGEST_TIMEOUT_S}.")
    return int(value)
