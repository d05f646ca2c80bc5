"""Commands that serve what `marsmith build --target sagemaker` wrote on Amazon SageMaker."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marsmith.cli.console import AsJson, dump, err, escape, out, status

if TYPE_CHECKING:
    from marsmith.deploy.aws import Aws
    from marsmith.deploy.resources import Resources
    from marsmith.deploy.settings import Endpoint

app = typer.Typer(help="Serve archives in the cloud.", no_args_is_help=True)
sagemaker = typer.Typer(help="Plan, start, ask and remove an endpoint of Amazon SageMaker.", no_args_is_help=True)
app.add_typer(sagemaker, name="sagemaker")

MINUTE_S = 60
Tarballs = Annotated[list[Path] | None, typer.Argument(help="What marsmith build --target sagemaker wrote.")]
Config = Annotated[Path | None, typer.Option(help="A TOML file with a table [sagemaker]; options win over its keys.")]
Name = Annotated[str | None, typer.Option(help="The endpoint's name.")]
Region = Annotated[str | None, typer.Option(help="The AWS region; by default the one that boto3 finds.")]
Bucket = Annotated[str | None, typer.Option(help="The bucket of the tarballs, in the endpoint's region.")]
Prefix = Annotated[str | None, typer.Option(help="The prefix of the tarballs in the bucket; 'marsmith' by default.")]
Role = Annotated[str | None, typer.Option(help="The ARN of the role that SageMaker assumes.")]
Image = Annotated[str | None, typer.Option(help="The URI of a container image in Amazon ECR.")]
PyTorch = Annotated[str | None, typer.Option("--pytorch", help="Instead, AWS's Graviton image of this PyTorch: 2.6.0.")]
ImageAccount = Annotated[str | None, typer.Option(help="The account of a registry that mirrors AWS's image.")]
InstanceType = Annotated[str | None, typer.Option(help="The instance type; ml.c7g.4xlarge by default.")]
Instances = Annotated[int | None, typer.Option(help="How many instances; 1 by default.")]
VolumeGb = Annotated[int | None, typer.Option(help="The disk of an instance for models, in GB.")]
StartupTimeout = Annotated[int | None, typer.Option(help="Seconds that a container may take to answer /ping.")]
MultiModel = Annotated[bool, typer.Option("--multi-model", help="Serve each tarball as a model of its own.")]
Env = Annotated[list[str] | None, typer.Option(help="NAME=VALUE for the container; may be repeated.")]
Tag = Annotated[list[str] | None, typer.Option(help="KEY=VALUE, a tag of all that is made; may be repeated.")]
Objects = Annotated[bool, typer.Option("--objects", help="Also delete tarballs in S3 that serve no longer.")]
Timeout = Annotated[int, typer.Option(help="Minutes to wait for SageMaker.", min=1)]


def _wanted(config: Path | None, options: dict[str, Any]) -> tuple[Aws, Resources]:
    """The deployment that the file and the options name. Raises DeployError."""
    from marsmith.deploy.aws import Aws
    from marsmith.deploy.resources import resources
    from marsmith.deploy.settings import Deployment, load

    options["environment"] = _pairs(options.pop("env"), "--env")
    options["tags"] = _pairs(options.pop("tag"), "--tag")
    options["startup_timeout_s"] = options.pop("startup_timeout")
    options["multi_model"] = options["multi_model"] or None
    deployment = load(Deployment, config, options)
    aws = Aws(deployment.region)
    with status() as progress:
        return aws, resources(deployment, aws.region, progress)


def _pairs(given: list[str] | None, option: str) -> dict[str, str]:
    pairs = [one.partition("=") for one in given or []]
    if any(not separator for _, separator, _ in pairs):
        raise typer.BadParameter("write it as NAME=VALUE", param_hint=option)
    return {key: value for key, _, value in pairs}


@sagemaker.command()
def plan(
    tarballs: Tarballs = None,
    config: Config = None,
    name: Name = None,
    region: Region = None,
    bucket: Bucket = None,
    prefix: Prefix = None,
    role: Role = None,
    image: Image = None,
    pytorch: PyTorch = None,
    image_account: ImageAccount = None,
    instance_type: InstanceType = None,
    instances: Instances = None,
    volume_gb: VolumeGb = None,
    startup_timeout: StartupTimeout = None,
    multi_model: MultiModel = False,
    env: Env = None,
    tag: Tag = None,
    objects: Objects = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask AWS what there is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print every call that `up` would make, and the IAM policies that allow them. Changes nothing."""
    options = {key: value for key, value in locals().items() if key not in ("config", "objects", "offline", "as_json")}
    from marsmith.cli.deploy_text import plan_text
    from marsmith.deploy.plan import plan as make_plan

    aws, wanted = _wanted(config, options)
    with status() as progress:
        made = make_plan(aws, wanted, progress, objects=objects, offline=offline)
    if as_json:
        dump(made.as_json())
    else:
        out.print(escape(plan_text(made)), soft_wrap=True)


@sagemaker.command()
def up(
    tarballs: Tarballs = None,
    config: Config = None,
    name: Name = None,
    region: Region = None,
    bucket: Bucket = None,
    prefix: Prefix = None,
    role: Role = None,
    image: Image = None,
    pytorch: PyTorch = None,
    image_account: ImageAccount = None,
    instance_type: InstanceType = None,
    instances: Instances = None,
    volume_gb: VolumeGb = None,
    startup_timeout: StartupTimeout = None,
    multi_model: MultiModel = False,
    env: Env = None,
    tag: Tag = None,
    objects: Objects = False,
    timeout: Timeout = 60,
    as_json: AsJson = False,
) -> None:
    """Make an endpoint serve a tarball, or several: create or update it, and wait until it is InService.

    Doing it again with the same inputs changes nothing. A failure takes back what was made.
    """
    options = {key: value for key, value in locals().items() if key not in ("config", "objects", "timeout", "as_json")}
    from marsmith.cli.deploy_text import up_text
    from marsmith.deploy.up import Interrupted
    from marsmith.deploy.up import up as bring_up

    aws, wanted = _wanted(config, options)
    try:
        with status() as progress:
            done = bring_up(aws, wanted, progress, objects=objects, timeout_s=timeout * MINUTE_S)
    except Interrupted:
        err.print(
            f"SageMaker goes on with {wanted.endpoint}, which costs money: up waits for it again, down removes it.",
            soft_wrap=True,
            markup=False,
        )
        raise
    if as_json:
        dump(dataclasses.asdict(done))
    else:
        out.print(escape(up_text(done)), soft_wrap=True)


@sagemaker.command()
def predict(
    files: Annotated[list[Path] | None, typer.Argument(help="Image, .txt or .json files.")] = None,
    file: Annotated[Path | None, typer.Option(help="A text file, one text a line.")] = None,
    golden: Annotated[Path | None, typer.Option(help="Ask this archive's golden requests instead.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write JSON lines to this file.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Of several models, the one to ask: its name or TargetModel.")
    ] = None,
    config: Config = None,
    name: Name = None,
    region: Region = None,
    bucket: Bucket = None,
    prefix: Prefix = None,
    as_json: AsJson = False,
) -> None:
    """Ask an endpoint about files, the lines of a text file, or an archive's golden requests.

    Exit code 1 when an input fails, or when a golden request is answered otherwise than it must be.
    """
    if golden and (files or file or output):
        raise typer.BadParameter("golden requests are asked alone", param_hint="--golden")
    from marsmith.cli.predicting import ask_to
    from marsmith.deploy.ask import Asker, target_model

    one, aws = _endpoint(config, {"name": name, "region": region, "bucket": bucket, "prefix": prefix})
    asker = Asker(aws, one.name, target_model(aws, one, model) if model else None)
    if golden:
        _replay(asker, golden, as_json=as_json)
    elif ask_to(one.name, asker.ask, files or [], file, output, as_json=as_json, out=out, err=err):
        raise typer.Exit(1)


@sagemaker.command()
def down(
    config: Config = None,
    name: Name = None,
    region: Region = None,
    bucket: Bucket = None,
    prefix: Prefix = None,
    objects: Annotated[bool, typer.Option("--objects", help="Also delete the tarballs in S3.")] = False,
    timeout: Timeout = 60,
    as_json: AsJson = False,
) -> None:
    """Delete an endpoint, its configurations and its models, and list what is left and costs money."""
    from marsmith.cli.deploy_text import down_text
    from marsmith.deploy.down import down as bring_down

    one, aws = _endpoint(config, {"name": name, "region": region, "bucket": bucket, "prefix": prefix})
    with status() as progress:
        done = bring_down(aws, one, progress, objects=objects, timeout_s=timeout * MINUTE_S)
    if as_json:
        dump(dataclasses.asdict(done))
    else:
        out.print(escape(down_text(done)), soft_wrap=True)


def _endpoint(config: Path | None, options: dict[str, Any]) -> tuple[Endpoint, Aws]:
    from marsmith.deploy.aws import Aws
    from marsmith.deploy.settings import Endpoint, load

    one = load(Endpoint, config, options)
    return one, Aws(one.region)


def _replay(asker: Any, archive: Path, *, as_json: bool) -> None:
    """Ask the golden requests and show the answers. Raises GoldenError where one differs."""
    from marsmith.cli.tables import outcomes_table
    from marsmith.evidence.replay import answered, require_ok

    with status() as progress:
        progress("asking the golden requests")
        outcomes = list(answered(archive, asker.send))
    if as_json:
        dump([{**dataclasses.asdict(one), "ok": one.ok} for one in outcomes])
    else:
        out.print(outcomes_table(outcomes))
    require_ok(outcomes, "The endpoint")
