"""What the environment asks of the container."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from marsmith import mar
from marsmith.configuration import Ports
from marsmith.errors import ContainerError

ANYWHERE = "0.0.0.0"  # noqa: S104 - a container's own network
# Where SageMaker puts a model; elsewhere archives are baked in or mounted at MODEL_STORE.
SAGEMAKER_MODEL = Path("/opt/ml/model")
MODEL_STORE = Path("/opt/model-store")
HOME = Path("/var/lib/marsmith")
# Files there: while the first exists the health check fails, so that no new requests are sent; the second names the
# models that are to be READY, a line each.
DRAINING, MODELS = "draining", "models"
PORT = 8080
# The server's five ports follow each other.
LARGEST_PORT = 65_531
# Docker's default is 10 seconds from SIGTERM to SIGKILL, Kubernetes' 30.
DRAIN_S = 25.0
YES, NO = frozenset({"yes", "true", "1"}), frozenset({"no", "false", "0", ""})


@dataclass(frozen=True, slots=True)
class Settings:
    """How the container serves; the README has the table of the variables.

    `model_store` holds the archives, and `home` is the one directory that is written to. `drain_s` are the seconds that
    requests get to be answered after SIGTERM. With `multi_model`, SageMaker names the models while it serves.
    """

    model_store: Path = MODEL_STORE
    home: Path = HOME
    port: int = PORT
    token: bool = False
    require_signature: bool = False
    key: Path | None = None
    drain_s: float = DRAIN_S
    multi_model: bool = False

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
    def ports(self) -> Ports:
        """Where it listens: predictions on every address, since what reaches a container is what is published."""
        return Ports(self.port, inference_host=ANYWHERE, models_too=self.multi_model)


def _unpacked(directory: Path) -> bool:
    return (directory / mar.DIGESTS).is_file()


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
