"""AWS through boto3, whose own chain finds credentials: Marsmith never reads, prints or stores them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from marsmith.errors import DeployError, first_line
from marsmith.rest.client import CONCURRENCY

ATTEMPTS = 5
DENIED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"}
# What AWS answers to credentials that are wrong or too old. Its own text may quote the request, and is not repeated.
UNKNOWN_CREDENTIALS = {
    "AuthFailure",
    "ExpiredToken",
    "ExpiredTokenException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
ABSENT = {"ResourceNotFound", "ResourceNotFoundException", "NoSuchEntity", "NoSuchBucket", "NoSuchKey", "404"}
# How SageMaker refuses an instance type that it does not know in the region, before it lists all that it knows.
NO_SUCH_TYPE = re.compile(r"'(ml\.[\w.-]+)' at '[^']*instanceType' failed to satisfy constraint", re.ASCII)
# How SageMaker refuses what refers to a model, a configuration, an endpoint, a role, its policies or an object that it
# does not see yet, and the change of what it is still changing or using.
NOT_YET = re.compile(
    r"^Could not find|[Cc]ould not assume role|[Cc]ould not access model data|does not grant \w+:|does not exist"
    r"|in-progress|is (?:currently )?in use|is being used"
)
LOG_IN = "log in, as with aws sso login or aws configure, or name a profile in AWS_PROFILE"


class NotAskedError(DeployError):
    """AWS gave no answer: what it is doing goes on."""


class Aws:
    """Clients of one region. Making it asks nobody; it raises DeployError without boto3 or a region."""

    def __init__(self, region: str | None = None) -> None:
        try:
            import boto3
        except ImportError:
            raise DeployError("Deploying needs boto3: pip install 'marsmith[deploy]'.") from None
        with explained("reading the AWS configuration"):
            self._session = boto3.session.Session(region_name=region)
        if self._session.region_name is None:
            raise DeployError("No AWS region is set: give --region, or set AWS_DEFAULT_REGION.")
        self.region = str(self._session.region_name)
        self._clients: dict[str, Any] = {}

    def client(self, service: str) -> Any:
        """The client of a service. Raises DeployError for a region that is none."""
        if service not in self._clients:
            from botocore.config import Config

            # A throttled call is repeated, more slowly each time.
            config = Config(
                retries={"mode": "standard", "max_attempts": ATTEMPTS},
                max_pool_connections=CONCURRENCY,
                user_agent_extra="marsmith",
            )
            with explained(f"reaching {service}"):
                self._clients[service] = self._session.client(service, config=config)
        return self._clients[service]

    def has_credentials(self) -> bool:
        """Whether boto3's chain finds any; what they are stays there."""
        from botocore.exceptions import BotoCoreError

        try:
            return self._session.get_credentials() is not None
        except BotoCoreError:
            return False

    def call(self, service: str, operation: str, arguments: dict[str, Any], what: str | None = None) -> Any:
        """One call, by boto3's name of it. Raises DeployError that says what failed."""
        with explained(what or f"{service} {operation}"):
            return getattr(self.client(service), operation)(**arguments)

    def pages(self, service: str, operation: str, arguments: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """All pages of a listing. Raises DeployError."""
        with explained(f"{service} {operation}"):
            yield from self.client(service).get_paginator(operation).paginate(**arguments)


def absent(error: Exception) -> bool:
    """Whether AWS says that what was asked about does not exist."""
    code, message = _code(error)
    return code in ABSENT or (code == "ValidationException" and message.startswith("Could not find"))


def not_yet(error: Exception) -> bool:
    """Whether AWS refuses for want of something that may be there in a moment, or be done with."""
    return NOT_YET.search(_code(error)[1]) is not None


def exists(error: Exception) -> bool:
    """Whether AWS says that what was to be made is there already."""
    return "already exist" in _code(error)[1]


def denied(error: Exception) -> bool:
    """Whether the credentials may not do it."""
    return _code(error)[0] in DENIED


def _code(error: BaseException | None) -> tuple[str, str]:
    """The code and message of AWS's answer, also of one that was explained."""
    response = getattr(error, "response", None) or getattr(getattr(error, "__cause__", None), "response", None) or {}
    details = response.get("Error", {})
    return str(details.get("Code", "")), str(details.get("Message", ""))


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn what boto3 raises into one sentence: `what` was tried."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        raise DeployError(_answered(what, *_code(error))) from error
    except BotoCoreError as error:
        raise NotAskedError(_not_asked(what, error)) from error


def _answered(what: str, code: str, message: str) -> str:
    """What AWS's refusal means, and what to do."""
    said = message.rstrip(".") or code
    if code in UNKNOWN_CREDENTIALS:
        return f"AWS does not accept these credentials ({code}): {LOG_IN}."
    if code in DENIED:
        return f"These credentials may not do this ({what}): give them what marsmith deploy sagemaker plan prints."
    if code == "ResourceLimitExceeded":
        return f"A quota of the account is too small ({said}): ask for more in Service Quotas, or choose another type."
    if match := NO_SUCH_TYPE.search(said):
        return f"SageMaker has no {match[1]} in this region: choose another type or another region."
    if "assume role" in said:
        return f"SageMaker cannot use the role ({said}): plan prints the trust policy that it needs."
    return f"AWS refused {what}: {said}."


def _not_asked(what: str, error: Exception) -> str:
    """Why AWS could not be asked."""
    from botocore import exceptions

    if isinstance(error, (exceptions.NoCredentialsError, exceptions.PartialCredentialsError)):
        return f"boto3 finds no complete AWS credentials: {LOG_IN}."
    if isinstance(error, (exceptions.TokenRetrievalError, exceptions.CredentialRetrievalError)) or "SSO" in str(error):
        return f"The AWS credentials cannot be refreshed ({type(error).__name__}): {LOG_IN}."
    if isinstance(error, exceptions.HTTPClientError):
        return f"AWS cannot be reached ({type(error).__name__} while {what}): check the region and the network."
    return f"boto3 cannot do this ({what}): {first_line(error)}."
