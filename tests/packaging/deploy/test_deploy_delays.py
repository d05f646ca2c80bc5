"""AWS shows late what it was told: nothing is taken for missing, or for gone, before several looks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from marsmith.deploy import down as down_module
from marsmith.deploy import state, waiting
from marsmith.deploy.aws import Aws
from marsmith.deploy.settings import Endpoint
from marsmith.deploy.waiting import FEW_LOOKS, LOOKS
from marsmith.errors import DeployError
from marsmith.ground.progress import silent
from tests.packaging.deploy.cloud import BUCKET, NAME, Cloud, statuses
from tests.packaging.deploy.test_deploy_up import NOTHING, names, up, wanted

ROLE = "Could not assume role arn:aws:iam::123456789012:role/x. Please ensure that the role exists"
DATA = "Could not access model data at https://s3. Please ensure that the role has permission to it"
ECR = "Using ECR image with SageMaker hosting does not grant ecr:GetDownloadUrlForLayer to the role"
NOT_FOUND = 'Could not find "x".'


class Late:
    """An AWS that answers calls with an error so many times first, and counts them."""

    def __init__(self) -> None:
        self.aws = Aws()
        self.calls: dict[str, int] = {}

    def refuse(
        self, operation: str, times: int, message: str, code: str = "ValidationException", service: str = "sagemaker",
        after: str | None = None,
    ) -> None:  # fmt: skip
        """Refuse an operation, from the first time on, or once another one was called."""
        left = [times]

        def before(**_: Any) -> None:
            if left[0] and (after is None or self.calls.get(after)):
                left[0] -= 1
                self.calls[operation] = self.calls.get(operation, 0) + 1
                raise ClientError({"Error": {"Code": code, "Message": message}}, operation)

        self._register(service, operation, before)

    def count(self, operation: str, service: str = "sagemaker") -> None:
        """Count how often an operation is called."""

        def before(**_: Any) -> None:
            self.calls[operation] = self.calls.get(operation, 0) + 1

        self._register(service, operation, before)

    def _register(self, service: str, operation: str, handler: Callable[..., None]) -> None:
        self.aws.client(service).meta.events.register(f"before-call.{service}.{operation}", handler)


@pytest.fixture
def late(cloud: Cloud) -> Late:
    late = Late()
    late.count("CreateEndpoint")
    late.count("UpdateEndpoint")
    late.count("DeleteEndpoint")
    return late


def test_an_endpoint_that_is_not_shown_yet_is_waited_for(cloud: Cloud, late: Late, tarball: Path) -> None:
    made = wanted(tarball)
    late.refuse("DescribeEndpoint", LOOKS, NOT_FOUND, after="CreateEndpoint")
    up(late.aws, made)
    assert late.calls["DescribeEndpoint"] == LOOKS
    assert cloud.contents() == names(made)


def test_one_that_is_never_shown_is_taken_back(cloud: Cloud, late: Late, tarball: Path) -> None:
    late.refuse("DescribeEndpoint", 1000, NOT_FOUND, after="CreateEndpoint")
    with pytest.raises(DeployError, match=r"is gone\. .*taken back\.$"):
        up(late.aws, wanted(tarball))
    assert cloud.contents() == NOTHING


@pytest.mark.slow
def test_one_that_is_lost_from_sight_for_a_moment_is_not_gone(
    cloud: Cloud, aws: Aws, tarball: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = wanted(tarball)
    seen: list[object] = []

    def flickering(aws: Aws, name: str) -> object:
        seen.append(found := state.describe(aws, name))
        return None if 1 < len(seen) <= FEW_LOOKS + 1 else found

    cloud.statuses.extend(statuses("Creating", *["InService"] * 9))
    monkeypatch.setattr(waiting, "describe", flickering)
    up(aws, made)
    assert cloud.contents() == names(made)


def test_an_update_that_is_not_shown_yet_is_not_one_that_failed(
    cloud: Cloud, aws: Aws, tarball: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = wanted(tarball), wanted(tarball, environment={"A": "1"})
    up(aws, old)
    stale = {"EndpointStatus": "InService", "EndpointConfigName": old.config}
    # The first is read before anything is done.
    cloud.statuses.extend([stale] * (1 + LOOKS))
    cloud.statuses.extend(statuses("Updating", "InService"))
    up(aws, new)
    assert cloud.contents() == names(new) | {"objects": names(new)["objects"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("CreateModel", ROLE),
        ("CreateModel", DATA),
        ("CreateModel", ECR),
        ("CreateEndpointConfig", NOT_FOUND),
        ("CreateEndpoint", NOT_FOUND),
    ],
)
def test_what_is_not_shown_to_sagemaker_yet_is_asked_for_again(
    operation: str, message: str, cloud: Cloud, late: Late, tarball: Path
) -> None:
    made = wanted(tarball)
    late.refuse(operation, LOOKS, message)
    up(late.aws, made)
    assert cloud.contents() == names(made)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("operation", "message", "changed"),
    [
        ("UpdateEndpoint", "Cannot update in-progress endpoint", {"environment": {"A": "1"}}),
        ("UpdateEndpoint", NOT_FOUND, {"environment": {"A": "1"}}),
        ("AddTags", "The endpoint does not exist", {"tags": {"team": "x"}}),
        ("DeleteModel", "The model is in use", {"environment": {"A": "1"}}),
        ("DeleteEndpointConfig", "Cannot delete: it is currently in use", {"environment": {"A": "1"}}),
    ],
)
def test_a_change_is_waited_for_too(
    operation: str, message: str, changed: dict[str, Any], cloud: Cloud, late: Late, tarball: Path
) -> None:
    up(late.aws, wanted(tarball))
    late.refuse(operation, LOOKS, message)
    made = wanted(tarball, **changed)
    up(late.aws, made)
    assert cloud.contents() == names(made)


def test_what_never_comes_is_said_and_taken_back(cloud: Cloud, late: Late, tarball: Path) -> None:
    late.refuse("CreateModel", 1000, ROLE)
    with pytest.raises(DeployError, match="SageMaker cannot use the role"):
        up(late.aws, wanted(tarball))
    assert late.calls["CreateModel"] == LOOKS + 1
    assert cloud.contents() == NOTHING


@pytest.mark.slow
def test_another_refusal_is_not_repeated(cloud: Cloud, late: Late, tarball: Path) -> None:
    late.refuse("CreateModel", 1000, "1 validation error detected")
    with pytest.raises(DeployError, match="1 validation error detected"):
        up(late.aws, wanted(tarball))
    assert late.calls["CreateModel"] == 1


@pytest.mark.parametrize(
    ("service", "operation", "code"),
    [("s3", "GetBucketLocation", "NoSuchBucket"), ("iam", "GetRole", "NoSuchEntity")],
)
def test_a_bucket_or_a_role_of_a_moment_ago_is_found(
    service: str, operation: str, code: str, cloud: Cloud, late: Late, tarball: Path
) -> None:
    made = wanted(tarball)
    late.refuse(operation, FEW_LOOKS, "no such thing", code, service)
    up(late.aws, made)
    assert cloud.contents() == names(made)


@pytest.mark.slow
@pytest.mark.parametrize("listing", ["ListModels", "ListEndpointConfigs"])
def test_what_is_there_and_not_shown_is_not_made_twice(
    listing: str, cloud: Cloud, aws: Aws, tarball: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that AWS carried out, and whose answer was lost, is repeated by boto3, and then refused."""
    made = wanted(tarball)
    up(aws, made)
    late = Late()
    operation = {"ListModels": "CreateModel", "ListEndpointConfigs": "CreateEndpointConfig"}[listing]
    monkeypatch.setattr("marsmith.deploy.state.owned", lambda *_: frozenset())
    late.refuse("CreateModel", 1, "Cannot create already existing model")
    late.refuse("CreateEndpointConfig", 1, "Cannot create already existing endpoint configuration")
    late.count(operation)
    up(late.aws, made)
    assert cloud.contents() == names(made)


@pytest.mark.slow
def test_an_endpoint_that_turns_up_is_used_where_it_is_ours_and_never_deleted(
    cloud: Cloud, aws: Aws, tarball: Path
) -> None:
    made = wanted(tarball)
    up(aws, made)
    for own in (True, False):
        late = Late()
        late.refuse("DescribeEndpoint", 1, NOT_FOUND)
        late.refuse("CreateEndpoint", 1, "Cannot create already existing endpoint")
        if own:
            up(late.aws, made)
        else:
            cloud.backend.endpoints[NAME].tags = [{"Key": "team", "Value": "others"}]
            with pytest.raises(DeployError, match="was not made by Marsmith"):
                up(late.aws, made)
        assert cloud.contents()["endpoints"] == [NAME]


@pytest.mark.slow
def test_what_was_made_and_is_not_shown_is_taken_back_all_the_same(cloud: Cloud, late: Late, tarball: Path) -> None:
    late.refuse("DeleteModel", FEW_LOOKS, NOT_FOUND)
    late.refuse("DeleteEndpointConfig", FEW_LOOKS, NOT_FOUND)
    late.refuse("CreateEndpoint", 1, "1 validation error detected")
    with pytest.raises(DeployError, match="taken back"):
        up(late.aws, wanted(tarball))
    assert cloud.contents() == NOTHING


def down(aws: Aws) -> down_module.Down:
    return down_module.down(aws, Endpoint(name=NAME, bucket=BUCKET), silent, objects=True, timeout_s=60)


def test_down_finds_an_endpoint_that_is_not_shown_yet(cloud: Cloud, late: Late, tarball: Path) -> None:
    up(late.aws, wanted(tarball))
    late.refuse("DescribeEndpoint", LOOKS, NOT_FOUND)
    assert f"delete_endpoint {NAME}" in down(late.aws).removed
    assert cloud.contents() == NOTHING


def test_down_waits_until_a_deleted_endpoint_is_gone(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    up(aws, wanted(tarball))
    deleted = cloud.backend.delete_endpoint
    shown: list[str] = []

    def later(endpoint_name: str) -> None:
        """It is shown as before, then as being deleted, then no more."""
        shown.append(endpoint_name)
        cloud.statuses.extend(statuses("InService", "InService", "Deleting"))

    describe = type(cloud.backend).describe_endpoint

    def described(backend: Any, endpoint_name: str) -> Any:
        if shown and not cloud.statuses and endpoint_name in backend.endpoints:
            deleted(endpoint_name)
        return describe(backend, endpoint_name)

    cloud.backend.delete_endpoint = later
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(cloud.backend), "describe_endpoint", described)
            down(aws)
    finally:
        del cloud.backend.delete_endpoint
    assert shown == [NAME]
    assert cloud.contents() == NOTHING
