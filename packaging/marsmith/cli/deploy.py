"""Commands that serve what `marsmith build --target sagemaker` wrote on Amazon SageMaker."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from marsmith.cli.console import AsJson, dump, err, escape, out, status
from marsmith.cli.deploy_options import DeploymentOptions, EndpointOptions
from marsmith.cli.option_groups import grouped

if TYPE_CHECKING:
    from marsmith.deploy.aws import Aws
    from marsmith.deploy.resources import Resources
    from marsmith.deploy.settings import Endpoint

app = typer.Typer(help="Serve archives in the cloud.", no_args_is_help=True)
sagemaker = typer.Typer(help="Plan, start, ask and remove an endpoint of Amazon SageMaker.", no_args_is_help=True)
app.add_typer(sagemaker, name="sagemaker")

MINUTE_S = 60
Objects = Annotated[bool, typer.Option("--objects", help="Also delete tarballs in S3 that serve no longer.")]
Timeout = Annotated[int, typer.Option(help="Minutes to wait for SageMaker.", min=1)]


def _wanted(options: DeploymentOptions) -> tuple[Aws, Resources]:
    """The deployment that the file and the options name. Raises DeployError."""
    from marsmith.deploy.aws import Aws
    from marsmith.deploy.resources import resources
    from marsmith.deploy.settings import Deployment, load

    deployment = load(Deployment, options.config, options.settings())
    aws = Aws(deployment.region)
    with status() as progress:
        return aws, resources(deployment, aws.region, progress)


@sagemaker.command()
@grouped
def plan(
    options: DeploymentOptions,
    objects: Objects = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask AWS what there is.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print every call that `up` would make, and the IAM policies that allow them. Changes nothing."""
    from marsmith.cli.deploy_text import plan_text
    from marsmith.deploy.plan import plan as make_plan

    aws, wanted = _wanted(options)
    with status() as progress:
        made = make_plan(aws, wanted, progress, objects=objects, offline=offline)
    if as_json:
        dump(made.as_json())
    else:
        out.print(escape(plan_text(made)), soft_wrap=True)


@sagemaker.command()
@grouped
def up(
    options: DeploymentOptions,
    objects: Objects = False,
    timeout: Timeout = 60,
    as_json: AsJson = False,
) -> None:
    """Make an endpoint serve a tarball, or several: create or update it, and wait until it is InService.

    Doing it again with the same inputs changes nothing. A failure takes back what was made.
    """
    from marsmith.cli.deploy_text import up_text
    from marsmith.deploy.up import Interrupted
    from marsmith.deploy.up import up as bring_up

    aws, wanted = _wanted(options)
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
@grouped
def predict(
    files: Annotated[list[Path] | None, typer.Argument(help="Image, .txt or .json files.")] = None,
    file: Annotated[Path | None, typer.Option(help="A text file, one text a line.")] = None,
    golden: Annotated[Path | None, typer.Option(help="Ask this archive's golden requests instead.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write JSON lines to this file.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Of several models, the one to ask: its name or TargetModel.")
    ] = None,
    *,
    options: EndpointOptions,
    as_json: AsJson = False,
) -> None:
    """Ask an endpoint about files, the lines of a text file, or an archive's golden requests.

    Exit code 1 when an input fails, or when a golden request is answered otherwise than it must be.
    """
    if golden and (files or file or output):
        raise typer.BadParameter("golden requests are asked alone", param_hint="--golden")
    from marsmith.cli.predicting import ask_to
    from marsmith.deploy.ask import Asker, target_model

    one, aws = _endpoint(options)
    asker = Asker(aws, one.name, target_model(aws, one, model) if model else None)
    if golden:
        _replay(asker, golden, as_json=as_json)
    elif ask_to(one.name, asker.ask, files or [], file, output, as_json=as_json, out=out, err=err):
        raise typer.Exit(1)


@sagemaker.command()
@grouped
def down(
    options: EndpointOptions,
    objects: Annotated[bool, typer.Option("--objects", help="Also delete the tarballs in S3.")] = False,
    timeout: Timeout = 60,
    as_json: AsJson = False,
) -> None:
    """Delete an endpoint, its configurations and its models, and list what is left and costs money."""
    from marsmith.cli.deploy_text import down_text
    from marsmith.deploy.down import down as bring_down

    one, aws = _endpoint(options)
    with status() as progress:
        done = bring_down(aws, one, progress, objects=objects, timeout_s=timeout * MINUTE_S)
    if as_json:
        dump(dataclasses.asdict(done))
    else:
        out.print(escape(down_text(done)), soft_wrap=True)


def _endpoint(options: EndpointOptions) -> tuple[Endpoint, Aws]:
    from marsmith.deploy.aws import Aws
    from marsmith.deploy.settings import Endpoint, load

    one = load(Endpoint, options.config, options.settings())
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
