"""Ask an endpoint through sagemaker-runtime, as `marsmith predict` asks a TorchServe."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from marsmith.deploy.aws import Aws
from marsmith.deploy.resources import OBJECT_DIGITS
from marsmith.deploy.settings import Endpoint
from marsmith.deploy.state import objects
from marsmith.errors import DeployError
from marsmith.ground.files import decoded, read_regular
from marsmith.ground.limits import MAX_INPUT_BYTES
from marsmith.rest.advice import no_answer
from marsmith.rest.client import CONCURRENCY, NOT_SENT, STOPPED, Prediction, body_of, in_order, prediction_of
from marsmith.rest.exchange import MAX_ANSWER_BYTES, Answer, TooLongError
from marsmith.rest.pace import TRIES, Pace, StoppedError, Try

# Source: the size of InvokeEndpoint's body in botocore's model of sagemaker-runtime (2017-05-13).
MAX_BODY_BYTES = 6_291_456
JSON = "application/json"
# What is a fault of one request or moment, not of the endpoint or the credentials.
PASSING = {
    "ModelNotReadyException": HTTPStatus.TOO_MANY_REQUESTS,
    "ServiceUnavailable": HTTPStatus.SERVICE_UNAVAILABLE,
    "ServiceUnavailableException": HTTPStatus.SERVICE_UNAVAILABLE,
    "ThrottlingException": HTTPStatus.TOO_MANY_REQUESTS,
    "InternalFailure": HTTPStatus.INTERNAL_SERVER_ERROR,
    "InternalDependencyException": HTTPStatus.FAILED_DEPENDENCY,
}


class Asker:
    """A client of one endpoint, and of one model where it serves several. Safe to use from several threads."""

    def __init__(self, aws: Aws, endpoint: str, model: str | None = None) -> None:
        self._aws = aws
        self._arguments = {"EndpointName": endpoint, "Accept": JSON} | ({"TargetModel": model} if model else {})
        self._pace = Pace(CONCURRENCY)
        aws.client("sagemaker-runtime")  # made once, before threads ask

    def send(self, body: bytes, content_type: str) -> Prediction:
        """The answer to a body; a container that is busy is asked again for a while, as boto3 does a busy SageMaker.

        Raises DeployError when it cannot be asked at all.
        """
        try:
            return self._pace.ask(lambda: self._try(body, content_type))
        except StoppedError:
            return Prediction(NOT_SENT, {"message": STOPPED})

    def _try(self, body: bytes, content_type: str) -> Try[Prediction]:
        if len(body) > MAX_BODY_BYTES:
            message = f"It has {len(body):,} bytes: SageMaker takes {MAX_BODY_BYTES:,}."
            return Try(Prediction(NOT_SENT, {"message": message}))
        arguments = {**self._arguments, "Body": body, "ContentType": content_type}
        try:
            found = self._aws.call("sagemaker-runtime", "invoke_endpoint", arguments, "asking the endpoint")
            answer = found["Body"].read(MAX_ANSWER_BYTES + 1)
        except DeployError as error:
            failed = _failed(getattr(error.__cause__, "response", None) or {})
            if failed is None:
                raise
            return failed
        if len(answer) > MAX_ANSWER_BYTES:
            return Try(Prediction(NOT_SENT, {"message": no_answer(TooLongError())}))
        return Try(prediction_of(Answer(HTTPStatus.OK, "", answer)))

    def ask(self, inputs: Sequence[str | Path]) -> Generator[Prediction, None, None]:
        """The answers in order, CONCURRENCY at a time: to texts, and to files, which are JSON, a text or an image.

        A file that cannot be read gives a Prediction with status 0. Raises DeployError like `send`.
        """
        return in_order(self._ask_one, inputs, self._pace.stop)

    def _ask_one(self, one: str | Path) -> Prediction:
        try:
            body, content_type = _payload(one)
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no UTF-8 text"
            return Prediction(NOT_SENT, {"message": f"The file cannot be read: {why}."})
        return self.send(body, content_type)


def target_model(aws: Aws, one: Endpoint, model: str) -> str:
    """TargetModel of the model in NAME.sagemaker.tar.gz, by what lies in the bucket. Raises DeployError.

    A name with .tar.gz is taken as it is; of several tarballs of one name, the endpoint has all until they are deleted.
    """
    if model.endswith(".tar.gz"):
        return model
    if one.bucket is None:
        raise DeployError("To find a model by its name, give --bucket, or give its TargetModel, which up prints.")
    begin, end = f"{one.folder}{model}-", ".tar.gz"
    digits = len(begin) + OBJECT_DIGITS
    found = [
        key.removeprefix(one.folder)
        for key in objects(aws, one.bucket, one.folder)
        if key.startswith(begin) and key.endswith(end) and len(key) == digits + len(end)
    ]
    if len(found) != 1:
        which = f"several of that name ({', '.join(found)})" if found else f"no {model}"
        raise DeployError(f"{one.name} serves {which}: give its TargetModel, which up prints.")
    return found[0]


def _payload(one: str | Path) -> tuple[bytes, str]:
    if isinstance(one, str):
        return body_of(one)
    data = read_regular(one, MAX_INPUT_BYTES)
    if one.suffix == ".json":
        return data, JSON
    return body_of(decoded(data) if one.suffix == ".txt" else data)


def _failed(response: dict[str, Any]) -> Try[Prediction] | None:
    """What the container answered, or that it could not; None where no request would fare better."""
    code = response.get("Error", {}).get("Code", "")
    if code == "ModelError":
        message = str(response.get("OriginalMessage", ""))
        status = int(response.get("OriginalStatusCode", HTTPStatus.INTERNAL_SERVER_ERROR))
        prediction = prediction_of(Answer(status, message, message.encode("utf-8", "replace")))
        return Try(prediction, TRIES if prediction.is_busy else 1)
    if code in PASSING:
        return Try(Prediction(PASSING[code], {"message": f"SageMaker could not ask the model ({code})."}))
    return None
