"""The policy allows what is called, and nothing that is not."""

from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from marsmith.deploy import down as down_module
from marsmith.deploy import policy
from marsmith.deploy.ask import Asker
from marsmith.deploy.aws import Aws
from marsmith.deploy.plan import plan
from marsmith.deploy.settings import Endpoint
from marsmith.ground.progress import silent
from tests.packaging.deploy.cloud import BUCKET, NAME, ROLE, Cloud
from tests.packaging.deploy.test_deploy_up import up, wanted

# Operations that IAM knows by another name. Source: the service authorization reference.
ACTIONS = {
    "s3:ListObjectsV2": "s3:ListBucket",
    "s3:ListObjectVersions": "s3:ListBucketVersions",
    "s3:ListMultipartUploads": "s3:ListBucketMultipartUploads",
    # With their versions.
    "s3:DeleteObjects": "s3:DeleteObjectVersion",
    "sagemaker-runtime:InvokeEndpoint": "sagemaker:InvokeEndpoint",
}
# Allowed without a policy, and allowed for what no call is named after.
FREE, UNNAMED = {"sts:GetCallerIdentity"}, {"iam:PassRole"}


@pytest.fixture
def aws() -> Aws:
    """Clients of this test's own, which it changes."""
    return Aws()


@pytest.fixture
def called(aws: Aws) -> set[str]:
    """The actions of all calls that are made."""
    actions: set[str] = set()

    def note(model: Any, **_others: Any) -> None:
        name = f"{model.service_model.service_name}:{model.name}"
        actions.add(ACTIONS.get(name, name))

    for service in ("s3", "sagemaker", "sagemaker-runtime", "iam", "sts", "ec2", "logs"):
        aws.client(service).meta.events.register("before-call", note)
    return actions


def allowed(document: dict[str, Any]) -> set[str]:
    return {action for statement in document["Statement"] for action in statement["Action"]}


def test_every_call_is_allowed_and_every_action_is_used(
    cloud: Cloud, aws: Aws, called: set[str], tarball: Path
) -> None:
    endpoint = Endpoint(name=NAME, bucket=BUCKET)
    made = wanted(tarball)
    plan(aws, made, silent, objects=False, offline=False)
    up(aws, made)
    up(aws, wanted(tarball, instances=2, tags={"team": "tweets"}))
    tarball.write_bytes(tarball.read_bytes() + b"\0")
    up(aws, wanted(tarball), objects=True)
    Asker(aws, NAME).send(b"{}", "application/json")
    cloud.s3.create_multipart_upload(Bucket=BUCKET, Key=f"marsmith/{NAME}/other")
    down_module.down(aws, Endpoint(name=NAME), silent, objects=False, timeout_s=60)
    down_module.down(aws, endpoint, silent, objects=True, timeout_s=60)
    assert allowed(policy.deployer(made)) == called - FREE | UNNAMED


def test_only_what_cannot_be_named_is_allowed_everywhere(tarball: Path) -> None:
    for document in (policy.deployer(wanted(tarball)), policy.execution(wanted(tarball))):
        everywhere = {action for one in document["Statement"] if one["Resource"] == "*" for action in one["Action"]}
        assert everywhere <= {
            "cloudwatch:PutMetricData",
            "ec2:DescribeInstanceTypeOfferings",
            "ecr:GetAuthorizationToken",
            "sagemaker:ListEndpointConfigs",
            "sagemaker:ListModels",
        }
        assert not any("*" in action for action in allowed(document))


def test_the_policies_name_what_is_made(tarball: Path) -> None:
    made = wanted(tarball)
    statements = {one["Sid"]: one for one in policy.deployer(made)["Statement"]}
    assert fnmatchcase(
        f"arn:aws:sagemaker:eu-west-1:123456789012:model/{made.model}", str(statements["Model"]["Resource"])
    )
    assert statements["PassRole"]["Resource"] == ROLE
    assert statements["PassRole"]["Condition"] == {"StringEquals": {"iam:PassedToService": "sagemaker.amazonaws.com"}}
    execution = {one["Sid"]: one for one in policy.execution(made)["Statement"]}
    assert execution["Image"]["Resource"] == "arn:aws:ecr:eu-west-1:123456789012:repository/marsmith"
    assert "Models" not in execution
    several = {one["Sid"] for one in policy.execution(wanted(tarball, multi_model=True))["Statement"]}
    assert several - set(execution) == {"Models"}
