"""What a deployment to SageMaker is made of: a TOML table, options of the command line, or both."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import AfterValidator, Field, StrictBool, ValidationError, field_validator, model_validator

from marsmith.deploy.images import inference_image, repository
from marsmith.errors import DeployError
from marsmith.ground.files import decoded, read_regular
from marsmith.ground.limits import MAX_TEXT_BYTES
from marsmith.ground.values import Count, FilePath, Named, Section
from marsmith.ground.wording import explained

TABLE = "sagemaker"
Settings = TypeVar("Settings", bound="Endpoint")
# Limits of the SageMaker API, as its model in botocore (sagemaker/2017-07-24) and its reference state them: names of
# models, endpoint configurations and endpoints; the environment and the tags of a container; the disk of a variant.
MAX_NAME = 63
MAX_ENVIRONMENT, MAX_ENVIRONMENT_CHARACTERS = 100, 1024
MAX_TAGS, MAX_TAG_KEY, MAX_TAG_VALUE = 50, 128, 256
MAX_VOLUME_GB = 512
MIN_TIMEOUT_S, MAX_TIMEOUT_S = 60, 3600
# Models and configurations cannot be changed: their names are the deployment's, a hyphen and digits of what they hold.
DIGEST_DIGITS = 12
MAX_OWN_NAME = MAX_NAME - DIGEST_DIGITS - 1
# Lower case only: SageMaker keeps the case of a name, but writes the ARNs that policies need in lower case.
NAME = re.compile(r"[a-z0-9](-?[a-z0-9])*", re.ASCII)
ROLE = re.compile(r"arn:(?P<partition>aws[a-z-]*):iam::(?P<account>\d{12}):role/(?P<path>[\w+=,.@/-]+)", re.ASCII)
# Source: "General purpose buckets naming rules" in the S3 user guide; a dot breaks TLS names, so it is left out.
BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]", re.ASCII)
PREFIX = re.compile(r"[A-Za-z0-9_-]+([./][A-Za-z0-9_-]+)*", re.ASCII)
ACCOUNT = re.compile(r"\d{12}", re.ASCII)
INSTANCE_TYPE = re.compile(r"ml\.(?P<ec2>(?P<family>[a-z0-9-]+)\.[a-z0-9-]+)", re.ASCII)
# A family whose generation is followed by a g has Graviton CPUs (c7g, m6gd); one with a d after that a local disk.
GRAVITON = re.compile(r"[a-z]+\d+g")
LOCAL_DISK = re.compile(r"[a-z]+\d+[a-z]*d")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
TAG = re.compile(r"[\w .:/=+\-@]*")


def _name(name: str) -> str:
    if len(name) > MAX_OWN_NAME:
        raise ValueError(
            f"it has {len(name)} characters: SageMaker allows {MAX_NAME}, and models and configurations get "
            f"{DIGEST_DIGITS + 1} more, so {MAX_OWN_NAME} at most are left"
        )
    if not NAME.fullmatch(name):
        raise ValueError(
            f"{name!r} is no name for SageMaker: use lower-case letters, digits and single hyphens between"
        )
    return name


def _bucket(name: str) -> str:
    if not BUCKET.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a bucket: use 3 to 63 lower-case letters, digits and hyphens")
    return name


def _prefix(prefix: str) -> str:
    if not PREFIX.fullmatch(prefix):
        raise ValueError(f"{prefix!r} is no prefix: use letters, digits, '_', '-', and single '/' or '.' between")
    return prefix


def _account(account: str) -> str:
    if not ACCOUNT.fullmatch(account):
        raise ValueError(f"{account!r} is no AWS account: write its 12 digits in quotes")
    return account


class Endpoint(Section):
    """Which endpoint is meant, and where its tarballs lie: all that `predict` and `down` need to know."""

    name: Annotated[str, AfterValidator(_name)]
    region: Named | None = None
    bucket: Annotated[str, AfterValidator(_bucket)] | None = None
    prefix: Annotated[str, AfterValidator(_prefix)] = "marsmith"

    @property
    def folder(self) -> str:
        """The prefix of every object of this deployment, with its slash."""
        return f"{self.prefix}/{self.name}/"


class Deployment(Endpoint):
    """One endpoint: what `plan` and `up` need to know.

    `image` is the URI of an image in ECR; `pytorch` chooses AWS's image of that version for Graviton instead, out of
    `image_account` where that is a mirror. With `multi_model`, each tarball is a model of its own on the one endpoint.
    """

    bucket: Annotated[str, AfterValidator(_bucket)]
    role: str
    tarballs: list[FilePath] = Field(min_length=1)
    image: Named | None = None
    pytorch: Named | None = None
    image_account: Annotated[str, AfterValidator(_account)] | None = None
    instance_type: str = "ml.c7g.4xlarge"
    instances: Count = 1
    volume_gb: Annotated[int, Field(strict=True, ge=1, le=MAX_VOLUME_GB)] | None = None
    startup_timeout_s: Annotated[int, Field(strict=True, ge=MIN_TIMEOUT_S, le=MAX_TIMEOUT_S)] | None = None
    multi_model: StrictBool = False
    environment: dict[str, str] = Field({})
    tags: dict[str, str] = Field({})

    @field_validator("role")
    @classmethod
    def _role(cls, role: str) -> str:
        if not ROLE.fullmatch(role):
            raise ValueError(f"{role!r} is no role: write its ARN, as in 'arn:aws:iam::123456789012:role/NAME'")
        return role

    @field_validator("instance_type")
    @classmethod
    def _instance_type(cls, instance_type: str) -> str:
        if not INSTANCE_TYPE.fullmatch(instance_type):
            raise ValueError(f"{instance_type!r} is no instance type of SageMaker: write it as in 'ml.c7g.4xlarge'")
        return instance_type

    @field_validator("environment")
    @classmethod
    def _environment(cls, environment: dict[str, str]) -> dict[str, str]:
        for name, value in environment.items():
            if not VARIABLE.fullmatch(name) or max(len(name), len(value)) > MAX_ENVIRONMENT_CHARACTERS:
                raise ValueError(f"{name!r} is no variable that SageMaker takes, or its value is too long")
        if len(environment) > MAX_ENVIRONMENT:
            raise ValueError(f"SageMaker takes {MAX_ENVIRONMENT} variables at most")
        return environment

    @field_validator("tags")
    @classmethod
    def _tags(cls, tags: dict[str, str]) -> dict[str, str]:
        for key, value in tags.items():
            fits = 1 <= len(key) <= MAX_TAG_KEY and len(value) <= MAX_TAG_VALUE and TAG.fullmatch(key + value)
            if not fits or key.lower().startswith(("aws:", "marsmith:")):
                raise ValueError(f"{key!r} is no tag that AWS takes, or is reserved")
        if len(tags) >= MAX_TAGS:
            raise ValueError(f"AWS takes {MAX_TAGS} tags at most, and one is Marsmith's")
        return tags

    @model_validator(mode="after")
    def _together(self) -> Self:
        if (self.image is None) == (self.pytorch is None):
            raise ValueError("give either image, an URI in Amazon ECR, or pytorch, the version of AWS's image")
        if self.pytorch is not None and not GRAVITON.match(self.family):
            raise ValueError(
                f"{self.instance_type} is no Graviton instance, and AWS's image is of those: choose one such as "
                "ml.c7g.4xlarge, or name an image for x86-64"
            )
        if len(self.tarballs) > 1 and not self.multi_model:
            raise ValueError("an endpoint serves one tarball: give one, or turn on multi_model")
        stems = [stem(one) for one in self.tarballs]
        for one in stems:
            if not PREFIX.fullmatch(one) or "/" in one:
                raise ValueError(f"{one!r} is no name for an object in S3: rename the tarball")
            if stems.count(one) > 1:
                raise ValueError(f"two tarballs are called {one}: rename one of them")
        return self

    @property
    def family(self) -> str:
        """The family of the instance type, as in c7g."""
        match = INSTANCE_TYPE.fullmatch(self.instance_type)
        assert match  # noqa: S101
        return match["family"]

    @property
    def account(self) -> str:
        """The account of the role, and so of everything: SageMaker takes no role of another account."""
        return self.role.split(":")[4]

    @property
    def partition(self) -> str:
        """`aws`, or `aws-cn` and the like where AWS is separate."""
        return self.role.split(":")[1]

    def image_uri(self, region: str) -> str:
        """The image's URI. Raises DeployError where there is none, or where SageMaker could not pull it."""
        if self.image is None:
            return inference_image(str(self.pytorch), region, self.image_account)
        where = repository(self.image)
        if where.region != region:
            raise DeployError(f"The image lies in {where.region}: SageMaker in {region} pulls from {region} only.")
        return self.image


def stem(tarball: Path) -> str:
    """The name of the model in a tarball: NAME of NAME.sagemaker.tar.gz."""
    return tarball.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".sagemaker")


def read_table(file: Path) -> dict[str, Any]:
    """The [sagemaker] table of a TOML file, its tarballs relative to it. Raises DeployError."""
    try:
        table = tomllib.loads(decoded(read_regular(file, MAX_TEXT_BYTES))).get(TABLE)
    except (OSError, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or error
        raise DeployError(f"{file} cannot be read: {why}. It must be a TOML file.") from None
    if not isinstance(table, dict):
        raise DeployError(f"{file} has no table [{TABLE}]: write one, with the keys of the deployment.")
    if isinstance(table.get("tarballs"), list):
        table["tarballs"] = [file.parent / one if isinstance(one, str) else one for one in table["tarballs"]]
    return table


def load(kind: type[Settings], config: Path | None, options: Mapping[str, Any]) -> Settings:
    """The settings of a file, and over them the options that are given. Raises DeployError."""
    values = read_table(config) if config else {}
    given = {key: value for key, value in options.items() if value not in (None, [], {})}
    for key in ("environment", "tags"):
        if key in given and isinstance(values.get(key), dict):
            given[key] = {**values[key], **given[key]}
    values = {**values, **given}
    if kind is Endpoint:
        values = {key: value for key, value in values.items() if key in Endpoint.model_fields}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        raise DeployError(f"The deployment is not right: {explained(error, {'': kind})}.") from None
