"""`down` removes whatever is still there, and says what is left and costs money."""

from pathlib import Path

import boto3
import pytest

from marsmith.deploy import down as down_module
from marsmith.deploy.aws import Aws
from marsmith.deploy.down import Down
from marsmith.deploy.settings import Endpoint
from marsmith.errors import DeployError
from marsmith.ground.progress import silent
from tests.packaging.deploy.cloud import BUCKET, NAME, Cloud, statuses
from tests.packaging.deploy.test_deploy_up import NOTHING, up, wanted

FOLDER = f"s3://{BUCKET}/marsmith/{NAME}/"


def down(aws: Aws, *, objects: bool = False, bucket: str | None = BUCKET) -> Down:
    endpoint = Endpoint(name=NAME, bucket=bucket)
    return down_module.down(aws, endpoint, silent, objects=objects, timeout_s=60)


def test_down_removes_everything_but_the_tarball_and_says_so(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    made = wanted(tarball)
    up(aws, made)
    done = down(aws)
    assert done.removed == [
        f"delete_endpoint {NAME}",
        f"delete_endpoint_config {made.config}",
        f"delete_model {made.model}",
    ]
    assert cloud.contents() == NOTHING | {"objects": list(made.keys())}
    assert [one.split(": ")[0] + ":" for one in done.left] == [f"{FOLDER[:-1]}/:"]
    assert "stored until down --objects" in done.left[0]
    again = down(aws, objects=True)
    assert again.removed == [f"delete_object {key}" for key in made.keys()]  # noqa: SIM118
    assert (again.left, cloud.contents()) == ([], NOTHING)
    assert down(aws, objects=True) == Down(NAME, [])


@pytest.mark.parametrize("half", ["endpoints", "endpoint_configs", "_models"])
def test_what_is_half_deleted_is_removed(half: str, cloud: Cloud, aws: Aws, tarball: Path) -> None:
    up(aws, wanted(tarball))
    getattr(cloud.backend, half).clear()
    down(aws, objects=True)
    assert cloud.contents() == NOTHING


def test_the_bucket_is_found_by_the_model(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    up(aws, wanted(tarball))
    down(aws, objects=True, bucket=None)
    assert cloud.contents() == NOTHING
    with pytest.raises(DeployError, match="give --bucket"):
        down(aws, objects=True, bucket=None)
    assert "which bucket" in down(aws, bucket=None).left[0]


def test_old_versions_and_parts_of_uploads_go_too(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    cloud.s3.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    up(aws, wanted(tarball))
    (key,) = wanted(tarball).keys()
    cloud.s3.delete_object(Bucket=BUCKET, Key=key)
    cloud.s3.create_multipart_upload(Bucket=BUCKET, Key=f"marsmith/{NAME}/other")
    left = down(aws).left
    assert "stored until down --objects" in left[0]
    assert "parts of uploads that never ended" in left[1]
    assert down(aws, objects=True).left == []
    assert "Versions" not in cloud.s3.list_object_versions(Bucket=BUCKET)
    assert "Uploads" not in cloud.s3.list_multipart_uploads(Bucket=BUCKET)


def test_the_log_group_is_named(cloud: Cloud, aws: Aws) -> None:
    group = f"/aws/sagemaker/Endpoints/{NAME}"
    for name in (group, f"{group}-two"):
        boto3.client("logs").create_log_group(logGroupName=name)
    assert [one.split(":")[0] for one in down(aws).left] == [f"the log group {group}"]


@pytest.mark.slow
def test_an_endpoint_of_somebody_else_stays(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    up(aws, wanted(tarball))
    cloud.backend.endpoints[NAME].tags = []
    with pytest.raises(DeployError, match="was not made by Marsmith"):
        down(aws)
    assert cloud.contents()["endpoints"] == [NAME]


def test_neighbours_with_a_longer_name_stay(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    other = wanted(tarball, name=f"{NAME}-2")
    up(aws, other)
    up(aws, wanted(tarball))
    down(aws, objects=True)
    assert cloud.contents()["models"] == [other.model]
    assert cloud.contents()["objects"] == list(other.keys())


def test_an_endpoint_on_its_way_is_waited_for(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    """SageMaker deletes none that it is still making."""
    up(aws, wanted(tarball))
    cloud.statuses.extend(statuses("Creating", "Creating", "InService"))
    down(aws)
    assert cloud.contents()["endpoints"] == []
