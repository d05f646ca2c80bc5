"""What of a deployment there is in AWS now. Everything here only reads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from marsmith.deploy.aws import Aws, absent
from marsmith.deploy.resources import OWNER_TAG
from marsmith.deploy.settings import DIGEST_DIGITS
from marsmith.errors import DeployError


@dataclass(frozen=True, slots=True)
class EndpointState:
    """An endpoint as SageMaker describes it."""

    status: str
    config: str
    arn: str
    reason: str = ""


@dataclass(frozen=True)
class State:
    """What exists and is this deployment's: endpoint, models, configurations, and the bytes of objects by key."""

    endpoint: EndpointState | None = None
    tags: dict[str, str] = field(default_factory=dict)
    models: frozenset[str] = frozenset()
    configs: frozenset[str] = frozenset()
    objects: dict[str, int] = field(default_factory=dict)


def describe(aws: Aws, name: str) -> EndpointState | None:
    """The endpoint of that name; None where there is none. Raises DeployError."""
    try:
        found = aws.call("sagemaker", "describe_endpoint", {"EndpointName": name})
    except DeployError as error:
        if absent(error):
            return None
        raise
    # An endpoint that failed before it had a configuration describes none.
    return EndpointState(
        found["EndpointStatus"],
        found.get("EndpointConfigName", ""),
        found["EndpointArn"],
        found.get("FailureReason", ""),
    )


def read(aws: Aws, name: str, bucket: str | None, folder: str) -> State:
    """What there is. Raises DeployError, also for an endpoint of that name which somebody else made."""
    endpoint = describe(aws, name)
    tags = _tags(aws, endpoint.arn) if endpoint else {}
    if endpoint and tags.get(OWNER_TAG) != name:
        raise DeployError(
            f"The endpoint {name} was not made by Marsmith (it has no tag {OWNER_TAG}={name}): choose another name, or "
            "delete it yourself."
        )
    return State(
        endpoint,
        tags,
        owned(aws, name, "list_models", "Models", "Model"),
        owned(aws, name, "list_endpoint_configs", "EndpointConfigs", "EndpointConfig"),
        objects(aws, bucket, folder) if bucket else {},
    )


def objects(aws: Aws, bucket: str, folder: str) -> dict[str, int]:
    """The objects below the deployment's folder: bytes by key. Raises DeployError, also where there is no bucket."""
    found: dict[str, int] = {}
    try:
        for page in aws.pages("s3", "list_objects_v2", {"Bucket": bucket, "Prefix": folder}):
            found |= {one["Key"]: one["Size"] for one in page.get("Contents", [])}
    except DeployError as error:
        if absent(error):
            raise DeployError(f"There is no bucket {bucket}: create it in {aws.region}, or name another.") from error
        raise
    return found


def owned(aws: Aws, name: str, operation: str, key: str, prefix: str) -> frozenset[str]:
    """The models or configurations that are named as this deployment's are, and tagged so."""
    ours = re.compile(rf"{re.escape(name)}-[0-9a-f]{{{DIGEST_DIGITS}}}")
    found: set[str] = set()
    for page in aws.pages("sagemaker", operation, {"NameContains": f"{name}-"}):
        for one in page[key]:
            if ours.fullmatch(one[f"{prefix}Name"]) and _tags(aws, one[f"{prefix}Arn"]).get(OWNER_TAG) == name:
                found.add(one[f"{prefix}Name"])
    return frozenset(found)


def _tags(aws: Aws, arn: str) -> dict[str, str]:
    pages: list[dict[str, Any]] = list(aws.pages("sagemaker", "list_tags", {"ResourceArn": arn}))
    return {one["Key"]: one["Value"] for page in pages for one in page["Tags"]}
