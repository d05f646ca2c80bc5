"""The calls that change AWS, in order: `plan` prints what `up` executes, out of the same list."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from marsmith.deploy.resources import Resources
from marsmith.deploy.state import State

# What an endpoint in one of these is good for is to be deleted (DescribeEndpoint in the SageMaker API reference).
BEYOND_REPAIR = {"Failed", "UpdateRollbackFailed"}


@dataclass(frozen=True, slots=True)
class Call:
    """One call by boto3's names, why it is made, and the call that takes it back."""

    service: str
    operation: str
    arguments: dict[str, Any]
    why: str
    undo: Call | None = field(default=None, repr=False)


def deploying(wanted: Resources, state: State) -> list[Call]:
    """What makes the endpoint serve what is wanted, where `state` is; nothing where it does."""
    endpoint = state.endpoint
    calls = [*_uploads(wanted, state)]
    if endpoint and endpoint.status in BEYOND_REPAIR:
        calls.append(delete_endpoint(wanted.endpoint, f"it is {endpoint.status}"))
        endpoint = None
    if wanted.model not in state.models:
        undo = delete_model(wanted.model, "it was new")
        calls.append(Call("sagemaker", "create_model", wanted.create_model(), "the model", undo))
    if wanted.config not in state.configs:
        undo = delete_config(wanted.config, "it was new")
        calls.append(Call("sagemaker", "create_endpoint_config", wanted.create_config(), "its instances", undo))
    target = {"EndpointName": wanted.endpoint, "EndpointConfigName": wanted.config}
    if endpoint is None:
        undo = delete_endpoint(wanted.endpoint, "it was new")
        arguments = {**target, "Tags": wanted.tags}
        calls.append(Call("sagemaker", "create_endpoint", arguments, "the endpoint; from here on it costs money", undo))
        return calls
    if endpoint.config != wanted.config:
        calls.append(Call("sagemaker", "update_endpoint", target, f"it serves {endpoint.config}"))
    if any(state.tags.get(one["Key"]) != one["Value"] for one in wanted.tags):
        arguments = {"ResourceArn": endpoint.arn, "Tags": wanted.tags}
        calls.append(Call("sagemaker", "add_tags", arguments, "its tags"))
    return calls


def tidying(wanted: Resources, state: State, *, objects: bool) -> list[Call]:
    """What removes what served before, and with `objects` its tarballs, once the endpoint serves what is wanted."""
    calls = [delete_config(one, "it serves no longer") for one in sorted(state.configs - {wanted.config})]
    calls += [delete_model(one, "it serves no longer") for one in sorted(state.models - {wanted.model})]
    if objects:
        bucket = wanted.deployment.bucket
        old = sorted(state.objects.keys() - wanted.keys().keys())
        calls += [delete_object(bucket, one, "it serves no longer") for one in old]
    return calls


def delete_endpoint(name: str, why: str) -> Call:
    """The call that deletes an endpoint."""
    return Call("sagemaker", "delete_endpoint", {"EndpointName": name}, why)


def delete_config(name: str, why: str) -> Call:
    """The call that deletes an endpoint configuration."""
    return Call("sagemaker", "delete_endpoint_config", {"EndpointConfigName": name}, why)


def delete_model(name: str, why: str) -> Call:
    """The call that deletes a model, not its tarball."""
    return Call("sagemaker", "delete_model", {"ModelName": name}, why)


def delete_object(bucket: str, key: str, why: str) -> Call:
    """The call that deletes an object."""
    return Call("s3", "delete_object", {"Bucket": bucket, "Key": key}, why)


def _uploads(wanted: Resources, state: State) -> list[Call]:
    bucket = wanted.deployment.bucket
    return [
        Call(
            "s3",
            "upload_file",
            {"Filename": str(tarball.path), "Bucket": bucket, "Key": key},
            f"sha256 {tarball.sha256}",
            delete_object(bucket, key, "it was new"),
        )
        for key, tarball in wanted.keys().items()
        if state.objects.get(key) != tarball.bytes
    ]
