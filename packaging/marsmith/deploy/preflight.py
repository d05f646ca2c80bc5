"""What would fail late at SageMaker, found before anything is made. Everything here only reads."""

from __future__ import annotations

from typing import Any

from marsmith.deploy.aws import Aws, absent, denied
from marsmith.deploy.policy import SERVICE
from marsmith.deploy.resources import Resources
from marsmith.deploy.settings import INSTANCE_TYPE, Deployment
from marsmith.deploy.waiting import appearing
from marsmith.errors import DeployError

# What GetBucketLocation calls the two oldest regions.
OLD_LOCATIONS = {None: "us-east-1", "EU": "eu-west-1"}
# Families with Graviton CPUs, from the newest, which a region may have instead of another.
SIBLINGS = ("c8g", "c7g", "m7g", "c6g", "m6g")
ASSUME = ({"*"}, {"sts:*"}, {"sts:AssumeRole"})


def preflight(aws: Aws, wanted: Resources) -> None:
    """Raise DeployError for another account's credentials, and for a bucket, role or instance type that is missing.

    A check that the credentials may not make is left to SageMaker.
    """
    one = wanted.deployment
    account = aws.call("sts", "get_caller_identity", {}, "asking whose credentials these are")["Account"]
    if account != one.account:
        raise DeployError(
            f"The credentials are of account {account}, and the role is of {one.account}: SageMaker takes roles of its "
            "own account only."
        )
    _bucket(aws, one.bucket)
    _role(aws, one)
    _instance_type(aws, one.instance_type)


def _bucket(aws: Aws, bucket: str) -> None:
    try:
        found = appearing(
            lambda: aws.call("s3", "get_bucket_location", {"Bucket": bucket}, f"asking where the bucket {bucket} is")
        )
    except DeployError as error:
        if absent(error):
            raise DeployError(f"There is no bucket {bucket}: create it in {aws.region}, or name another.") from error
        raise
    location = found.get("LocationConstraint")
    region = OLD_LOCATIONS.get(location, location)
    if region != aws.region:
        raise DeployError(
            f"The bucket {bucket} is in {region}, and SageMaker in {aws.region} reads models of its own region only: "
            "name a bucket there."
        )


def _role(aws: Aws, one: Deployment) -> None:
    name = one.role.rpartition("/")[2]
    try:
        role = appearing(
            lambda: aws.call("iam", "get_role", {"RoleName": name}, f"asking about the role {name}")["Role"]
        )
    except DeployError as error:
        if denied(error):
            return
        if absent(error):
            raise DeployError(
                f"There is no role {name} in account {one.account}: create it with the policies that plan prints."
            ) from error
        raise
    if not _assumable(role["AssumeRolePolicyDocument"]):
        raise DeployError(f"SageMaker may not assume the role {name}: give it the trust policy that plan prints.")


def _assumable(document: dict[str, Any]) -> bool:
    """Whether a trust policy lets SageMaker in, its conditions aside."""
    for statement in _listed(document.get("Statement")):
        principal = statement.get("Principal")
        services = _listed(principal.get("Service")) if isinstance(principal, dict) else []
        actions = set(_listed(statement.get("Action")))
        if statement.get("Effect") == "Allow" and SERVICE in services and any(one <= actions for one in ASSUME):
            return True
    return False


def _listed(value: Any) -> list[Any]:
    """What IAM writes as one value or as a list of some."""
    return value if isinstance(value, list) else [] if value is None else [value]


def _instance_type(aws: Aws, instance_type: str) -> None:
    """SageMaker lists its types nowhere by API; what EC2 lacks in a region it cannot offer either."""
    match = INSTANCE_TYPE.fullmatch(instance_type)
    assert match  # noqa: S101
    size = match["ec2"].partition(".")[2]
    asked = {match["ec2"], *(f"{family}.{size}" for family in SIBLINGS)}
    arguments = {
        "LocationType": "region",
        "Filters": [{"Name": "instance-type", "Values": sorted(asked)}],
    }
    try:
        found = aws.call("ec2", "describe_instance_type_offerings", arguments, "asking for the region's instance types")
    except DeployError as error:
        if denied(error):
            return
        raise
    offered = {one["InstanceType"] for one in found["InstanceTypeOfferings"]}
    if match["ec2"] not in offered:
        siblings = ", ".join(f"ml.{one}" for one in sorted(offered))
        instead = f", such as {siblings}" if siblings else ""
        raise DeployError(f"{aws.region} has no {instance_type}: choose another region, or another type{instead}.")
