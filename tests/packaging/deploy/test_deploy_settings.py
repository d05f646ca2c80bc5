"""What a deployment may say, and what each mistake is told as: one sentence, before AWS is asked."""

from pathlib import Path
from typing import Any

import pytest

from marsmith.deploy.resources import resources
from marsmith.deploy.settings import Deployment, Endpoint, load
from marsmith.errors import DeployError
from marsmith.ground.progress import silent
from tests.packaging.deploy.cloud import BUCKET, IMAGE, NAME, REGION, ROLE


def options(tarball: Path, **others: Any) -> dict[str, Any]:
    return {"name": NAME, "bucket": BUCKET, "role": ROLE, "image": IMAGE, "tarballs": [tarball], **others}


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"name": "x" * 51}, "SageMaker allows 63"),
        ({"name": "Tweets"}, "use lower-case letters"),
        ({"name": "a--b"}, "single hyphens"),
        ({"role": "arn:aws:iam::123456789012:user/me"}, "no role"),
        ({"bucket": "My_Bucket"}, "no name of a bucket"),
        ({"prefix": "/models/"}, "no prefix"),
        ({"instance_type": "c7g.4xlarge"}, "as in 'ml.c7g.4xlarge'"),
        ({"instances": 0}, "instances must be 1 or more"),
        ({"volume_gb": 513}, "volume_gb must be 512 or less"),
        ({"environment": {"A B": "1"}}, "no variable that SageMaker takes"),
        ({"environment": {"A": "1" * 1025}}, "too long"),
        ({"tags": {"aws:x": "1"}}, "reserved"),
        ({"image": None}, "give either image"),
        ({"pytorch": "2.6.0"}, "give either image"),
        ({"image": None, "pytorch": "2.6.0", "instance_type": "ml.m5.xlarge"}, "no Graviton instance"),
        ({"tarballs": [Path("a.tar.gz"), Path("b.tar.gz")]}, "turn on multi_model"),
        ({"tarballs": [Path("x/a.tar.gz"), Path("y/a.tar.gz")], "multi_model": True}, "two tarballs are called a"),
        ({"instance": 2}, "did you mean instances?"),
    ],
)
def test_a_mistake_is_one_sentence(changed: dict[str, Any], said: str, tarball: Path) -> None:
    given = {key: value for key, value in options(tarball, **changed).items() if value is not None}
    with pytest.raises(DeployError) as caught:
        load(Deployment, None, given)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"image": "docker.io/marsmith:1.0"}, "is no image in Amazon ECR"),
        ({"image": IMAGE.replace(REGION, "us-east-1")}, "The image lies in us-east-1"),
        ({"image": None, "pytorch": "1.0"}, "AWS documents no image of PyTorch 1.0"),
    ],
)
def test_an_image_that_cannot_be_pulled_is_refused(changed: dict[str, Any], said: str, tarball: Path) -> None:
    deployment = load(Deployment, None, {**options(tarball), **changed})
    with pytest.raises(DeployError, match=said):
        resources(deployment, REGION, silent)


@pytest.mark.parametrize(
    ("region", "registry"),
    [
        ("eu-west-1", "763104351884.dkr.ecr.eu-west-1.amazonaws.com"),
        ("cn-north-1", "727897471807.dkr.ecr.cn-north-1.amazonaws.com.cn"),
        ("me-central-1", "914824155844.dkr.ecr.me-central-1.amazonaws.com"),
    ],
)
def test_awss_image_is_that_of_the_region(region: str, registry: str, tarball: Path) -> None:
    deployment = load(Deployment, None, {**options(tarball), "image": None, "pytorch": "2.6.0"})
    tag = "2.6.0-cpu-py312-ubuntu22.04-sagemaker"
    assert deployment.image_uri(region) == f"{registry}/pytorch-inference-arm64:{tag}"


def test_a_region_without_documented_registry_needs_an_account(tarball: Path) -> None:
    given = {**options(tarball), "image": None, "pytorch": "2.6.0"}
    with pytest.raises(DeployError, match="no registry of its PyTorch images in xx-north-9"):
        load(Deployment, None, given).image_uri("xx-north-9")
    mirrored = load(Deployment, None, {**given, "image_account": "111122223333"})
    assert mirrored.image_uri("xx-north-9").startswith("111122223333.dkr.ecr.xx-north-9.")


def test_what_is_no_tarball_is_refused(tmp_path: Path) -> None:
    for content, said in ((None, "cannot be read"), (b"PK\x03\x04", "is no tar.gz")):
        path = tmp_path / "sentiment.tar.gz"
        if content:
            path.write_bytes(content)
        with pytest.raises(DeployError, match=said):
            resources(load(Deployment, None, options(path)), REGION, silent)


def test_a_tarball_has_to_fit_on_the_instances_disk(tarball: Path) -> None:
    """The file is sparse: it is refused by its size, before it is read."""
    with tarball.open("r+b") as stream:
        stream.truncate(30_000_000_001)
    with pytest.raises(DeployError, match="30 GB of disk for models: set volume_gb"):
        resources(load(Deployment, None, options(tarball)), REGION, silent)


def test_a_file_is_read_relative_to_itself_and_options_win(tmp_path: Path, tarball: Path) -> None:
    file = tmp_path / "deploy.toml"
    file.write_text(
        f'[sagemaker]\nname = "one"\nbucket = "{BUCKET}"\nrole = "{ROLE}"\nimage = "{IMAGE}"\n'
        f'tarballs = ["{tarball.name}"]\nenvironment = {{A = "1", B = "1"}}\n'
    )
    deployment = load(Deployment, file, {"name": "two", "environment": {"B": "2"}, "tags": {}})
    assert (deployment.name, deployment.tarballs) == ("two", [tarball])
    assert deployment.environment == {"A": "1", "B": "2"}
    assert load(Endpoint, file, {}).folder == "marsmith/one/"


@pytest.mark.parametrize(("content", "said"), [(None, "No such file"), ("x", "must be a TOML"), ("", "no table")])
def test_a_file_that_says_nothing_is_refused(content: str | None, said: str, tmp_path: Path) -> None:
    file = tmp_path / "deploy.toml"
    if content is not None:
        file.write_text(content)
    with pytest.raises(DeployError, match=said):
        load(Endpoint, file, {})


def test_names_say_what_they_hold(tarball: Path) -> None:
    """The same inputs have the same names, wherever they lie; tags change none, everything else does."""

    def named(**changed: Any) -> tuple[str, str]:
        made = resources(load(Deployment, None, options(tarball, **changed)), REGION, silent)
        return made.model, made.config

    model, config = named()
    assert (model, config) == named(tags={"team": "tweets"})
    assert named(instances=2) == (model, named(instances=2)[1]) != (model, config)
    assert named(environment={"SAGEMAKER_TS_BATCH_SIZE": "8"})[0] != model
    tarball.write_bytes(tarball.read_bytes() + b"\0")
    assert named()[0] != model
    assert named()[1] != config
