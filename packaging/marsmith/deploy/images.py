"""Container images that a SageMaker endpoint can run: one of one's own, or AWS's PyTorch image for Graviton."""

from __future__ import annotations

import re
from dataclasses import dataclass

from marsmith.errors import DeployError

# The account that publishes AWS's Deep Learning Containers in each region. Source: "Region Availability" of
# docs/reference/available_images.md in github.com/aws/deep-learning-containers.
MAIN_ACCOUNT = "763104351884"
MAIN_REGIONS = (
    *("us-east-1", "us-east-2", "us-west-1", "us-west-2", "ca-central-1", "sa-east-1"),
    *("eu-central-1", "eu-north-1", "eu-west-1", "eu-west-2", "eu-west-3"),
    *("ap-east-2", "ap-northeast-1", "ap-northeast-2", "ap-south-1", "ap-southeast-1", "ap-southeast-2"),
)
ACCOUNTS = {
    **dict.fromkeys(MAIN_REGIONS, MAIN_ACCOUNT),
    "af-south-1": "626614931356",
    "ap-east-1": "871362719292",
    "ap-northeast-3": "364406365360",
    "ap-south-2": "772153158452",
    "ap-southeast-3": "907027046896",
    "ap-southeast-4": "457447274322",
    "ap-southeast-5": "550225433462",
    "ap-southeast-7": "590183813437",
    "ca-west-1": "204538143572",
    "cn-north-1": "727897471807",
    "cn-northwest-1": "727897471807",
    "eu-central-2": "380420809688",
    "eu-south-1": "692866216735",
    "eu-south-2": "503227376785",
    "il-central-1": "780543022126",
    "me-central-1": "914824155844",
    "me-south-1": "217643126080",
    "mx-central-1": "637423239942",
}
# PyTorch's version: repository and tag of its image for SageMaker on Graviton. Source: the same file's "SageMaker
# ARM64 Containers".
TAGS = {"2.6.0": ("pytorch-inference-arm64", "2.6.0-cpu-py312-ubuntu22.04-sagemaker")}
# registry/repository[:tag][@digest] of a private registry, the only kind that SageMaker pulls from without more ado.
ECR_URI = re.compile(
    r"(?P<account>\d{12})\.dkr\.ecr(-fips)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(\.cn)?"
    r"/(?P<repository>[a-z0-9]+(?:[._/-]+[a-z0-9]+)*)"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Repository:
    """Where an image lies in Amazon ECR."""

    account: str
    region: str
    name: str

    def arn(self, partition: str) -> str:
        """The repository as IAM names it."""
        return f"arn:{partition}:ecr:{self.region}:{self.account}:repository/{self.name}"


def repository(uri: str) -> Repository:
    """The repository of an image's URI. Raises DeployError for one that is not in a private ECR registry."""
    match = ECR_URI.fullmatch(uri)
    if match is None:
        raise DeployError(
            f"{uri} is no image in Amazon ECR: name one as in "
            "123456789012.dkr.ecr.eu-west-1.amazonaws.com/marsmith:1.0, where SageMaker can pull it."
        )
    return Repository(match["account"], match["region"], match["repository"])


def inference_image(version: str, region: str, account: str | None = None) -> str:
    """The URI of AWS's PyTorch image for SageMaker on Graviton. Raises DeployError where none is documented.

    `account` is a registry that mirrors it, in place of AWS's own.
    """
    if version not in TAGS:
        raise DeployError(
            f"AWS documents no image of PyTorch {version} for SageMaker on Graviton that Marsmith knows "
            f"({', '.join(TAGS)}): choose one of these, or name the image's URI."
        )
    registry = account or ACCOUNTS.get(region)
    if registry is None:
        raise DeployError(
            f"AWS's documentation names no registry of its PyTorch images in {region}: name the image's URI."
        )
    name, tag = TAGS[version]
    suffix = "amazonaws.com.cn" if region.startswith("cn-") else "amazonaws.com"
    return f"{registry}.dkr.ecr.{region}.{suffix}/{name}:{tag}"
