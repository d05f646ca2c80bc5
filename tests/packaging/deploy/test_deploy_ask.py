"""An endpoint is asked as a TorchServe is. What moto cannot answer, botocore's own Stubber does: a model's errors."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from botocore.stub import Stubber

from marsmith.deploy.ask import MAX_BODY_BYTES, Asker, target_model
from marsmith.deploy.aws import Aws
from marsmith.deploy.settings import Endpoint
from marsmith.errors import DeployError
from marsmith.rest.client import NOT_SENT
from tests.packaging.deploy.cloud import BUCKET, NAME, Cloud
from tests.packaging.deploy.test_deploy_up import up, wanted

JSON = "application/json"


@pytest.fixture
def aws() -> Aws:
    """Clients of this test's own, which it changes."""
    return Aws()


def stubbed(aws: Aws) -> Stubber:
    stubber = Stubber(aws.client("sagemaker-runtime"))
    stubber.activate()
    return stubber


def asked(body: bytes, content_type: str, **others: Any) -> dict[str, Any]:
    return {"EndpointName": NAME, "Accept": JSON, "Body": body, "ContentType": content_type, **others}


@pytest.mark.slow
def test_texts_and_files_are_sent_as_what_they_are(cloud: Cloud, aws: Aws, tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(b'{"instances": ["a"]}')
    (tmp_path / "two.txt").write_text("b")
    (tmp_path / "three.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    expected = [
        asked(b'{"instances": ["a"]}', JSON),
        asked(b'{"text": "b"}', JSON),
        asked(b"\x89PNG\r\n\x1a\n", "image/png"),
        asked(b'{"text": "c"}', JSON),
    ]
    inputs: list[str | Path] = [tmp_path / "one.json", tmp_path / "two.txt", tmp_path / "three.png", "c"]
    for one, request in zip(inputs, expected, strict=True):
        stubber = stubbed(aws)
        stubber.add_response("invoke_endpoint", {"Body": io.BytesIO(b'{"label": "positive"}')}, request)
        (prediction,) = Asker(aws, NAME).ask([one])
        assert (prediction.status, prediction.body) == (200, {"label": "positive"})
        stubber.deactivate()


def test_answers_are_in_order(cloud: Cloud, aws: Aws) -> None:
    """moto answers the nth request with the nth answer of its queue: so they are asked one after the other here."""
    cloud.answer({"label": "a"}, {"label": "b"})
    asker = Asker(aws, NAME)
    assert [next(asker.ask([text])).body for text in ("one", "two", "one")] == [
        {"label": "a"},
        {"label": "b"},
        {"label": "a"},
    ]


@pytest.mark.parametrize(
    ("message", "said"), [(json.dumps({"error": {"message": "no text"}}), "no text"), ("no JSON", "no JSON")]
)
def test_what_the_model_refuses_has_its_own_status(message: str, said: str, aws: Aws) -> None:
    stubbed(aws).add_client_error(
        "invoke_endpoint",
        "ModelError",
        "Received client error (415) from primary",
        http_status_code=424,
        modeled_fields={"OriginalStatusCode": 415, "OriginalMessage": message},
    )
    prediction = Asker(aws, NAME).send(b"{}", JSON)
    assert (prediction.status, prediction.message) == (415, said)


def test_a_busy_endpoint_fails_one_request(aws: Aws) -> None:
    stubbed(aws).add_client_error("invoke_endpoint", "ModelNotReadyException", "loading", http_status_code=429)
    assert Asker(aws, NAME).send(b"{}", JSON).status == 429


def test_no_endpoint_ends_it_all(aws: Aws) -> None:
    missing = f"Endpoint {NAME} of account 123456789012 not found."
    stubbed(aws).add_client_error("invoke_endpoint", "ValidationError", missing, http_status_code=400)
    with pytest.raises(DeployError, match=f"Endpoint {NAME} of account 123456789012 not found"):
        list(Asker(aws, NAME).ask(["text"]))


def test_a_body_that_sagemaker_refuses_is_not_sent(aws: Aws) -> None:
    prediction = Asker(aws, NAME).send(bytes(MAX_BODY_BYTES + 1), "application/octet-stream")
    assert prediction.status == NOT_SENT
    assert "SageMaker takes 6,291,456" in prediction.message


def test_a_file_that_cannot_be_read_fails_alone(aws: Aws, tmp_path: Path) -> None:
    (prediction,) = Asker(aws, NAME).ask([tmp_path / "none.jpg"])
    assert (prediction.status, prediction.message) == (NOT_SENT, "The file cannot be read: No such file or directory.")


@pytest.mark.slow
def test_a_model_of_several_is_found_by_its_name(cloud: Cloud, aws: Aws, tarball: Path) -> None:
    endpoint = Endpoint(name=NAME, bucket=BUCKET)
    made = wanted(tarball, multi_model=True)
    up(aws, made)
    (model,) = (one.model for one in made.tarballs)
    assert target_model(aws, endpoint, "sentiment") == target_model(aws, endpoint, model) == model
    with pytest.raises(DeployError, match="serves no food"):
        target_model(aws, endpoint, "food")
    tarball.write_bytes(tarball.read_bytes() + b"\0")
    up(aws, wanted(tarball, multi_model=True))
    with pytest.raises(DeployError, match="serves several of that name"):
        target_model(aws, endpoint, "sentiment")
    stubber = stubbed(aws)
    stubber.add_response("invoke_endpoint", {"Body": io.BytesIO(b"1")}, asked(b"{}", JSON, TargetModel=model))
    assert Asker(aws, NAME, model).send(b"{}", JSON).body == 1
