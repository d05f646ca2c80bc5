"""`up` reaches what is wanted from wherever AWS is, and leaves nothing behind where it cannot."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from marsmith.deploy import up as up_module
from marsmith.deploy.aws import Aws, NotAskedError
from marsmith.deploy.resources import Resources, resources
from marsmith.deploy.settings import Deployment, load
from marsmith.deploy.up import Interrupted, Up
from marsmith.errors import DeployError
from marsmith.ground.progress import silent
from tests.packaging.deploy.cloud import BUCKET, NAME, REGION, ROLE, Cloud, statuses
from tests.packaging.deploy.test_deploy_settings import options

NOTHING: dict[str, list[str]] = {"endpoints": [], "configs": [], "models": [], "objects": []}


def wanted(tarball: Path, **changed: Any) -> Resources:
    return resources(load(Deployment, None, options(tarball, **changed)), REGION, silent)


def up(aws: Aws, made: Resources, *, objects: bool = False, timeout_s: float = 60) -> Up:
    return up_module.up(aws, made, silent, objects=objects, timeout_s=timeout_s)


def names(made: Resources) -> dict[str, list[str]]:
    return {
        "endpoints": [NAME],
        "configs": [made.config],
        "models": [made.model],
        "objects": sorted(made.keys()),
    }


def test_up_makes_everything_once(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    made = wanted(tarball)
    cloud.statuses.extend(statuses("Creating", "Creating"))
    done = up(aws, made)
    assert [one.split()[0] for one in done.changed] == [
        "upload_file",
        "create_model",
        "create_endpoint_config",
        "create_endpoint",
    ]
    assert cloud.contents() == names(made)
    (key,) = made.keys()
    assert cloud.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read() == tarball.read_bytes()
    assert up(aws, made).changed == []
    assert cloud.contents() == names(made)


def test_changed_inputs_update_the_endpoint_and_nothing_old_stays(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    old = wanted(tarball)
    up(aws, old)
    tarball.write_bytes(gzip.compress(b"another model"))
    new = wanted(tarball)
    done = up(aws, new)
    assert f"update_endpoint {NAME}" in done.changed
    assert cloud.sagemaker.describe_endpoint(EndpointName=NAME)["EndpointConfigName"] == new.config
    assert cloud.contents() == names(new) | {"objects": sorted([*old.keys(), *new.keys()])}
    assert up(aws, new, objects=True).changed == [f"delete_object {key}" for key in old.keys()]  # noqa: SIM118
    assert cloud.contents() == names(new)


def test_changed_tags_restart_nothing(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    up(aws, wanted(tarball))
    done = up(aws, wanted(tarball, tags={"team": "tweets"}))
    assert [one.split()[0] for one in done.changed] == ["add_tags"]


def test_an_endpoint_that_fails_is_taken_back(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    cloud.statuses.extend(statuses("Creating", "Failed", reason="The primary container did not pass the ping check."))
    with pytest.raises(DeployError) as caught:
        up(aws, wanted(tarball))
    said = str(caught.value)
    assert "is Failed: The primary container did not pass the ping check." in said
    assert f"/aws/sagemaker/Endpoints/{NAME}" in said
    assert said.endswith("What this run had made is taken back.")
    assert cloud.contents() == NOTHING


def test_an_update_that_fails_leaves_what_served(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    old = wanted(tarball)
    up(aws, old)
    cloud.update_fails = True
    with pytest.raises(DeployError, match=f"went back to {old.config}"):
        up(aws, wanted(tarball, environment={"SAGEMAKER_TS_BATCH_SIZE": "8"}))
    assert cloud.contents() == names(old)


@pytest.mark.slow
def test_a_failed_endpoint_of_an_earlier_run_is_made_anew(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    made = wanted(tarball)
    up(aws, made)
    cloud.backend.endpoints[NAME].endpoint_status = "Failed"
    assert [one.split()[0] for one in up(aws, made).changed] == ["delete_endpoint", "create_endpoint"]
    assert cloud.contents() == names(made)


@pytest.mark.parametrize("half", ["endpoints", "configs", "models", "objects"])
def test_what_is_half_deleted_is_made_whole(half: str, cloud: Cloud, aws: Aws, tarball: Path) -> None:
    made = wanted(tarball)
    up(aws, made)
    if half == "objects":
        cloud.s3.delete_object(Bucket=BUCKET, Key=next(iter(made.keys())))
    else:
        {
            "endpoints": cloud.backend.endpoints,
            "configs": cloud.backend.endpoint_configs,
            "models": cloud.backend._models,
        }[half].clear()
    assert len(up(aws, made).changed) == 1
    assert cloud.contents() == names(made)


def test_an_endpoint_of_somebody_else_is_not_touched(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    up(aws, wanted(tarball))
    cloud.backend.endpoints[NAME].tags = [{"Key": "team", "Value": "others"}]
    before = cloud.contents()
    with pytest.raises(DeployError, match="was not made by Marsmith"):
        up(aws, wanted(tarball, instances=2))
    assert cloud.contents() == before


def test_an_endpoint_on_its_way_is_waited_for(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    made = wanted(tarball)
    up(aws, made)
    cloud.statuses.extend(statuses("Creating", "Creating", "InService"))
    assert up(aws, made).changed == []


def test_waiting_too_long_takes_nothing_back(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    made = wanted(tarball)
    cloud.statuses.extend(statuses("Creating", "Creating"))
    with pytest.raises(DeployError, match="still Creating after 0 minutes: run up again to wait on"):
        up(aws, made, timeout_s=0)
    assert cloud.contents() == names(made)


def test_ctrl_c_while_sagemaker_works_leaves_it_to_it(
    cloud: Cloud, aws: Aws, tarball: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = wanted(tarball)
    cloud.statuses.extend(statuses("Creating"))

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    with pytest.raises(Interrupted, match=NAME):
        up(aws, made)
    monkeypatch.undo()
    assert cloud.contents() == names(made)


def test_a_network_that_breaks_while_sagemaker_works_takes_nothing_back(
    cloud: Cloud, aws: Aws, tarball: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = wanted(tarball)

    def broken(*_arguments: object) -> None:
        raise NotAskedError("AWS cannot be reached.")

    monkeypatch.setattr(up_module, "settle", broken)
    with pytest.raises(NotAskedError, match=r"AWS cannot be reached\."):
        up(aws, made)
    assert cloud.contents() == names(made)


@pytest.mark.slow
def test_an_upload_that_is_refused_is_one_sentence(cloud: Cloud, tarball: Path) -> None:
    aws = Aws()
    aws.client("s3").meta.events.register("before-call.s3.PutObject", denied)
    with pytest.raises(DeployError, match="These credentials may not do this"):
        up(aws, wanted(tarball))
    assert cloud.contents() == NOTHING


def denied(**_call: object) -> None:
    raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "PutObject")


def test_ctrl_c_before_that_takes_everything_back(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    def progress(step: str) -> None:
        if step.startswith("create endpoint config"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        up_module.up(aws, wanted(tarball), progress, objects=False, timeout_s=60)
    assert not isinstance(caught.value, Interrupted)
    assert cloud.contents() == NOTHING


def test_several_models_share_an_endpoint_and_one_is_added_without_an_update(
    cloud: Cloud, aws: Aws, tarball: Path, tmp_path: Path
) -> None:
    other = tmp_path / "food.sagemaker.tar.gz"
    other.write_bytes(gzip.compress(b"food"))
    up(aws, wanted(tarball, multi_model=True))
    made = wanted(tarball, multi_model=True, tarballs=[tarball, other])
    done = up(aws, made)
    assert [one.split()[0] for one in done.changed] == ["upload_file"]
    assert [one.rpartition("-")[0] for one in done.targets] == ["food", "sentiment"]
    container = cloud.sagemaker.describe_model(ModelName=made.model)["PrimaryContainer"]
    assert (container["Mode"], container["ModelDataUrl"]) == ("MultiModel", f"s3://{BUCKET}/marsmith/{NAME}/")


def test_no_bucket(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    with pytest.raises(DeployError, match="There is no bucket elsewhere: create it in eu-west-1"):
        up(aws, wanted(tarball, bucket="elsewhere"))


def test_a_bucket_of_another_region(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    s3 = boto3.client("s3", region_name="eu-north-1")
    s3.create_bucket(Bucket="far", CreateBucketConfiguration={"LocationConstraint": "eu-north-1"})
    with pytest.raises(DeployError, match="The bucket far is in eu-north-1"):
        up(aws, wanted(tarball, bucket="far"))


def test_no_role(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    with pytest.raises(DeployError, match="There is no role other in account"):
        up(aws, wanted(tarball, role=ROLE.replace("marsmith-endpoint", "other")))


def test_a_role_that_sagemaker_may_not_assume(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    trust = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}}]}
    cloud.iam.create_role(RoleName="wrong", AssumeRolePolicyDocument=json.dumps(trust))
    with pytest.raises(DeployError, match="may not assume the role wrong"):
        up(aws, wanted(tarball, role=ROLE.replace("marsmith-endpoint", "wrong")))


def test_credentials_of_another_account(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    role = ROLE.replace("123456789012", "999999999999")
    with pytest.raises(DeployError, match="account 123456789012, and the role is of 999999999999"):
        up(aws, wanted(tarball, role=role))


def test_a_region_without_the_instance_type(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    with pytest.raises(DeployError, match=r"eu-west-1 has no ml\.c9g\.4xlarge: .*such as .*ml\.c7g\.4xlarge"):
        up(aws, wanted(tarball, instance_type="ml.c9g.4xlarge"))
    # EC2 has this one in the region; SageMaker, as moto pretends it, has not.
    with pytest.raises(DeployError, match=r"SageMaker has no ml\.m7g\.large in this region"):
        up(aws, wanted(tarball, instance_type="ml.m7g.large"))
    assert cloud.contents() == NOTHING
