"""The options of the deploy commands, each in one place.

A field has the name of the key in the table [sagemaker] that it sets (marsmith.deploy.settings), and None where the
option was not given.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer


@dataclass(frozen=True, slots=True)
class EndpointOptions:
    """Which endpoint is meant: what all commands take."""

    config: Annotated[
        Path | None, typer.Option(help="A TOML file with a table [sagemaker]; options win over its keys.")
    ] = None
    name: Annotated[str | None, typer.Option(help="The endpoint's name.")] = None
    region: Annotated[str | None, typer.Option(help="The AWS region; by default the one that boto3 finds.")] = None
    bucket: Annotated[str | None, typer.Option(help="The bucket of the tarballs, in the endpoint's region.")] = None
    prefix: Annotated[
        str | None, typer.Option(help="The prefix of the tarballs in the bucket; 'marsmith' by default.")
    ] = None

    def settings(self) -> dict[str, Any]:
        """The options as keys of the table [sagemaker]. Raises typer.BadParameter."""
        names = [field.name for field in dataclasses.fields(self)]
        return {name: getattr(self, name) for name in names if name != "config"}


@dataclass(frozen=True, slots=True)
class DeploymentOptions(EndpointOptions):
    """The endpoint and what it serves: what `plan` and `up` take."""

    tarballs: Annotated[list[Path] | None, typer.Argument(help="What marsmith build --target sagemaker wrote.")] = None
    role: Annotated[str | None, typer.Option(help="The ARN of the role that SageMaker assumes.")] = None
    image: Annotated[str | None, typer.Option(help="The URI of a container image in Amazon ECR.")] = None
    pytorch: Annotated[str | None, typer.Option(help="Instead, AWS's Graviton image of this PyTorch: 2.6.0.")] = None
    image_account: Annotated[str | None, typer.Option(help="The account of a registry that mirrors AWS's image.")] = (
        None
    )
    instance_type: Annotated[str | None, typer.Option(help="The instance type; ml.c7g.4xlarge by default.")] = None
    instances: Annotated[int | None, typer.Option(help="How many instances; 1 by default.")] = None
    volume_gb: Annotated[int | None, typer.Option(help="The disk of an instance for models, in GB.")] = None
    startup_timeout_s: Annotated[
        int | None, typer.Option("--startup-timeout", help="Seconds that a container may take to answer /ping.")
    ] = None
    multi_model: Annotated[
        bool | None, typer.Option("--multi-model", help="Serve each tarball as a model of its own.")
    ] = None
    environment: Annotated[
        list[str] | None, typer.Option("--env", help="NAME=VALUE for the container; may be repeated.")
    ] = None
    tags: Annotated[
        list[str] | None, typer.Option("--tag", help="KEY=VALUE, a tag of all that is made; may be repeated.")
    ] = None

    def settings(self) -> dict[str, Any]:
        """The options as keys of the table [sagemaker]. Raises typer.BadParameter."""
        pairs = {"environment": _pairs(self.environment, "--env"), "tags": _pairs(self.tags, "--tag")}
        # Without super(): the class that slots make is another one than the one that super() looks for.
        return EndpointOptions.settings(self) | pairs


def _pairs(given: list[str] | None, option: str) -> dict[str, str]:
    pairs = [one.partition("=") for one in given or []]
    if any(not separator for _, separator, _ in pairs):
        raise typer.BadParameter("write it as NAME=VALUE", param_hint=option)
    return {key: value for key, _, value in pairs}
