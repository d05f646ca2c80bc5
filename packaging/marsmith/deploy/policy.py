"""The IAM policies that a deployment needs, and nothing more: in place of AmazonSageMakerFullAccess."""

from __future__ import annotations

from typing import Any

from marsmith.deploy.images import repository
from marsmith.deploy.resources import Resources
from marsmith.deploy.settings import DIGEST_DIGITS

VERSION = "2012-10-17"
SERVICE = "sagemaker.amazonaws.com"
# Where SageMaker writes what an endpoint's containers print, and the namespaces of its metrics. Source: "Log groups and
# streams" and "Metrics in CloudWatch" in the SageMaker developer guide.
LOG_GROUP = "/aws/sagemaker/Endpoints/{name}"
NAMESPACES = ["/aws/sagemaker/Endpoints", "AWS/SageMaker"]


def deployer(wanted: Resources) -> dict[str, Any]:
    """What `plan`, `up`, `predict` and `down` may do, for who runs them."""
    one, arn = wanted.deployment, _arn(wanted)
    bucket, folder = f"arn:{one.partition}:s3:::{one.bucket}", one.folder
    endpoint = arn("sagemaker", f"endpoint/{one.name}")
    made = f"{one.name}-{'?' * DIGEST_DIGITS}"
    config, model = arn("sagemaker", f"endpoint-config/{made}"), arn("sagemaker", f"model/{made}")
    listed = {"StringLike": {"s3:prefix": f"{folder}*"}}
    return _policy(
        _allow("Bucket", ["s3:GetBucketLocation", "s3:ListBucketMultipartUploads"], bucket),
        _allow("Folder", ["s3:ListBucket", "s3:ListBucketVersions"], bucket, listed),
        _allow(
            "Tarballs",
            ["s3:AbortMultipartUpload", "s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObject"],
            f"{bucket}/{folder}*",
        ),
        _allow("Lists", ["sagemaker:ListEndpointConfigs", "sagemaker:ListModels"], "*"),
        _allow("Tags", ["sagemaker:AddTags", "sagemaker:ListTags"], [endpoint, config, model]),
        _allow("Model", _each("sagemaker", "CreateModel", "DeleteModel", "DescribeModel"), model),
        _allow("Configuration", _each("sagemaker", "CreateEndpointConfig", "DeleteEndpointConfig"), config),
        # Creating and updating an endpoint is allowed for its configuration too.
        _allow("Serve", _each("sagemaker", "CreateEndpoint", "UpdateEndpoint"), [endpoint, config]),
        _allow("Endpoint", _each("sagemaker", "DeleteEndpoint", "DescribeEndpoint", "InvokeEndpoint"), endpoint),
        _allow("Role", ["iam:GetRole"], one.role),
        _allow("PassRole", ["iam:PassRole"], one.role, {"StringEquals": {"iam:PassedToService": SERVICE}}),
        _allow("InstanceTypes", ["ec2:DescribeInstanceTypeOfferings"], "*"),
        _allow("LogGroup", ["logs:DescribeLogGroups"], arn("logs", "log-group:*")),
    )


def execution(wanted: Resources) -> dict[str, Any]:
    """What SageMaker may do in the role's name: fetch the tarballs and the image, write logs and metrics.

    Source: "CreateModel API: execution role permissions" in the SageMaker developer guide, narrowed to this endpoint.
    """
    one, arn = wanted.deployment, _arn(wanted)
    bucket = f"arn:{one.partition}:s3:::{one.bucket}"
    group = f"log-group:{LOG_GROUP.format(name=one.name)}"
    image = repository(one.image_uri(wanted.region)).arn(one.partition)
    listing = [_allow("Models", ["s3:ListBucket"], bucket, {"StringLike": {"s3:prefix": f"{one.folder}*"}})]
    return _policy(
        _allow("Tarballs", ["s3:GetObject"], f"{bucket}/{one.folder}*"),
        *(listing if one.multi_model else []),
        _allow(
            "Image",
            ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"],
            image,
        ),
        _allow("Registry", ["ecr:GetAuthorizationToken"], "*"),
        _allow(
            "Logs",
            ["logs:CreateLogGroup", "logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            [arn("logs", group), arn("logs", f"{group}:*")],
        ),
        _allow("Metrics", ["cloudwatch:PutMetricData"], "*", {"StringEquals": {"cloudwatch:namespace": NAMESPACES}}),
    )


def trust() -> dict[str, Any]:
    """Who may take the execution role: SageMaker."""
    return _policy({"Effect": "Allow", "Principal": {"Service": SERVICE}, "Action": "sts:AssumeRole"})


def _arn(wanted: Resources) -> Any:
    one = wanted.deployment
    return lambda service, what: f"arn:{one.partition}:{service}:{wanted.region}:{one.account}:{what}"


def _each(service: str, *actions: str) -> list[str]:
    return [f"{service}:{one}" for one in actions]


def _allow(
    sid: str, actions: list[str], on: str | list[str], condition: dict[str, Any] | None = None
) -> dict[str, Any]:
    return {"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": on, **_given(condition)}


def _given(condition: dict[str, Any] | None) -> dict[str, Any]:
    return {"Condition": condition} if condition else {}


def _policy(*statements: dict[str, Any]) -> dict[str, Any]:
    return {"Version": VERSION, "Statement": list(statements)}
