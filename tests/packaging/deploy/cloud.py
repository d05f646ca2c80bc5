"""A pretended AWS on loopback: moto's server, and the few things that it lacks.

moto serves an endpoint at once, knows no UpdateEndpoint, and of instance types only old ones. `Cloud` sets the statuses
that DescribeEndpoint tells next, in the words of the SageMaker API reference, and adds UpdateEndpoint and Graviton's
types to moto's own classes. What an endpoint answers is queued in moto's documented hook,
/moto-api/static/sagemaker/endpoint-results.
"""

import json
from collections import deque
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
import requests
from moto.backends import get_backend
from moto.core.responses import ActionResult
from moto.sagemaker.models import FakeEndpointConfig, SageMakerModelBackend
from moto.sagemaker.responses import SageMakerResponse

ACCOUNT, REGION, BUCKET, NAME = "123456789012", "eu-west-1", "models", "sentiment"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/marsmith-endpoint"
IMAGE = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/marsmith:1.0"
TRUST = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "sagemaker.amazonaws.com"}, "Action": "sts:AssumeRole"}],
}


class Cloud:
    """What a test sets up in the pretended AWS, and finds there."""

    def __init__(self, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = url
        # Statuses of the endpoint that are told one after the other, before its own.
        self.statuses: deque[dict[str, str]] = deque()
        # Whether UpdateEndpoint leaves the endpoint as it was, as SageMaker does when the new one does not start.
        self.update_fails = False
        self._patch(monkeypatch)
        self.s3, self.iam = boto3.client("s3"), boto3.client("iam")
        self.sagemaker = boto3.client("sagemaker")
        self.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
        self.iam.create_role(RoleName=ROLE.rpartition("/")[2], AssumeRolePolicyDocument=json.dumps(TRUST))

    @property
    def backend(self) -> Any:
        """moto's SageMaker."""
        return get_backend("sagemaker")[ACCOUNT][REGION]

    def answer(self, *bodies: object) -> None:
        """Queue what the endpoint answers to the next requests."""
        results = [{"Body": json.dumps(one), "ContentType": "application/json"} for one in bodies]
        address = f"{self.url}/moto-api/static/sagemaker/endpoint-results"
        requests.post(address, json={"region": REGION, "results": results}, timeout=10).raise_for_status()

    def contents(self) -> dict[str, list[str]]:
        """The names of all that there is."""
        return {
            "endpoints": sorted(self.backend.endpoints),
            "configs": sorted(self.backend.endpoint_configs),
            "models": sorted(self.backend._models),
            "objects": sorted(one["Key"] for one in self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])),
        }

    def _patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        described = SageMakerModelBackend.describe_endpoint

        def describe(backend: SageMakerModelBackend, endpoint_name: str) -> dict[str, Any]:
            found = described(backend, endpoint_name)
            return {**found, **(self.statuses.popleft() if self.statuses else {})}

        def update(response: SageMakerResponse) -> ActionResult:
            endpoint = response.sagemaker_backend.endpoints[response._get_param("EndpointName")]
            config = response._get_param("EndpointConfigName")
            assert config in response.sagemaker_backend.endpoint_configs
            if not self.update_fails:
                endpoint.endpoint_config_name = config
            return ActionResult({"EndpointArn": endpoint.arn})

        known = FakeEndpointConfig.validate_instance_type

        def validate(config: FakeEndpointConfig, instance_type: str) -> None:
            if not instance_type.startswith("ml.c7g."):
                known(config, instance_type)

        monkeypatch.setattr(FakeEndpointConfig, "validate_instance_type", validate)
        monkeypatch.setattr(SageMakerModelBackend, "describe_endpoint", describe)
        monkeypatch.setattr(SageMakerResponse, "update_endpoint", update, raising=False)


def statuses(*names: str, reason: str = "") -> Iterator[dict[str, str]]:
    """Statuses as DescribeEndpoint tells them."""
    for name in names:
        yield {"EndpointStatus": name} | ({"FailureReason": reason} if reason else {})
