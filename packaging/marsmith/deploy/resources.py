"""What a deployment is in AWS: names, objects and the arguments that make each, all from its settings and tarballs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from marsmith.deploy.settings import DIGEST_DIGITS, LOCAL_DISK, MAX_VOLUME_GB, Deployment, stem
from marsmith.errors import DeployError
from marsmith.ground.files import file_sha256
from marsmith.ground.wording import size

# Who owns an endpoint, a model or a configuration: `up` and `down` touch nothing without it.
OWNER_TAG = "marsmith:deployment"
VARIANT = "AllTraffic"
GB = 1_000_000_000
# The disk that a variant without a local one gets for its models. Source: "Endpoint parameters for large model
# inference" in the SageMaker developer guide; past it, VolumeSizeInGB has to say how much is needed.
DEFAULT_VOLUME_GB = 30
GZIP = b"\x1f\x8b"
# Hexadecimal digits of a tarball's digest in its object's name.
OBJECT_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Tarball:
    """A tarball, and what it is called in S3 by what it holds: nothing there is ever overwritten by something else."""

    path: Path
    bytes: int
    sha256: str

    @property
    def model(self) -> str:
        """The object's name below the deployment's folder, and TargetModel of a multi-model endpoint."""
        return f"{stem(self.path)}-{self.sha256[:OBJECT_DIGITS]}.tar.gz"


@dataclass(frozen=True)
class Resources:
    """Everything that `up` makes, and how each is made. The same inputs give the same names."""

    deployment: Deployment
    region: str
    tarballs: tuple[Tarball, ...]

    @property
    def endpoint(self) -> str:
        """The endpoint's name, which callers keep whatever serves behind it."""
        return self.deployment.name

    @property
    def model(self) -> str:
        """The model's name: the deployment's, and digits of all that the model is."""
        return self._named(self._model_arguments)

    @property
    def config(self) -> str:
        """The endpoint configuration's name."""
        return self._named(self._config_arguments)

    def keys(self) -> dict[str, Tarball]:
        """The objects of this deployment by their keys."""
        return {self.deployment.folder + one.model: one for one in self.tarballs}

    @property
    def tags(self) -> list[dict[str, str]]:
        """The tags of whatever SageMaker keeps."""
        own = {**self.deployment.tags, OWNER_TAG: self.deployment.name}
        return [{"Key": key, "Value": value} for key, value in sorted(own.items())]

    def create_model(self) -> dict[str, Any]:
        """The arguments of CreateModel."""
        return {"ModelName": self.model, **self._model_arguments, "Tags": self.tags}

    def create_config(self) -> dict[str, Any]:
        """The arguments of CreateEndpointConfig."""
        return {"EndpointConfigName": self.config, **self._config_arguments, "Tags": self.tags}

    @cached_property
    def _model_arguments(self) -> dict[str, Any]:
        one, folder = self.deployment, f"s3://{self.deployment.bucket}/{self.deployment.folder}"
        container: dict[str, Any] = {
            "Image": one.image_uri(self.region),
            "Mode": "MultiModel" if one.multi_model else "SingleModel",
            "ModelDataUrl": folder if one.multi_model else folder + self.tarballs[0].model,
        }
        if one.environment:
            container["Environment"] = dict(sorted(one.environment.items()))
        return {"PrimaryContainer": container, "ExecutionRoleArn": one.role}

    @cached_property
    def _config_arguments(self) -> dict[str, Any]:
        one = self.deployment
        variant: dict[str, Any] = {
            "VariantName": VARIANT,
            "ModelName": self.model,
            "InstanceType": one.instance_type,
            "InitialInstanceCount": one.instances,
        }
        if one.volume_gb is not None:
            variant["VolumeSizeInGB"] = one.volume_gb
        if one.startup_timeout_s is not None:
            variant["ContainerStartupHealthCheckTimeoutInSeconds"] = one.startup_timeout_s
        return {"ProductionVariants": [variant]}

    def _named(self, arguments: dict[str, Any]) -> str:
        digest = hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()
        return f"{self.deployment.name}-{digest[:DIGEST_DIGITS]}"


def resources(deployment: Deployment, region: str, progress: Callable[[str], None]) -> Resources:
    """Look at the tarballs and name what they become. Raises DeployError."""
    for one in deployment.tarballs:
        _check(one, deployment)
    found = []
    for one in deployment.tarballs:
        progress(f"reading {one.name}")
        found.append(Tarball(one, one.stat().st_size, file_sha256(one)))
    made = Resources(deployment, region, tuple(sorted(found, key=lambda one: one.model)))
    made.create_model()  # an image that cannot be pulled is said before anything is done
    return made


def _check(tarball: Path, deployment: Deployment) -> None:
    """Raise DeployError for what is no tarball, or does not fit on the instance."""
    try:
        with tarball.open("rb") as stream:
            beginning = stream.read(len(GZIP))
        count = tarball.stat().st_size
    except OSError as error:
        raise DeployError(
            f"{tarball} cannot be read: {error.strerror}. marsmith build --target sagemaker writes one."
        ) from None
    if beginning != GZIP:
        raise DeployError(f"{tarball} is no tar.gz: name what marsmith build --target sagemaker wrote.")
    if deployment.volume_gb is None and LOCAL_DISK.match(deployment.family):
        return
    disk = deployment.volume_gb or DEFAULT_VOLUME_GB
    if count > disk * GB:
        raise DeployError(
            f"{tarball} has {size(count)}, and an instance {disk} GB of disk for models: set volume_gb to more than "
            f"the tarball and its contents take ({MAX_VOLUME_GB} at most), or build a smaller one."
        )
