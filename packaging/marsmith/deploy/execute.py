"""Make the calls that change AWS, and take them back in reverse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from marsmith.deploy.aws import Aws, absent, explained
from marsmith.deploy.calls import Call
from marsmith.deploy.waiting import settle
from marsmith.errors import DeployError
from marsmith.progress import Progress
from marsmith.show import size


def execute(aws: Aws, call: Call, progress: Progress, timeout_s: float) -> None:
    """Make one call. Deleting what is gone is no error, and lasts until an endpoint is gone. Raises DeployError."""
    what = target(call)
    if call.operation == "upload_file":
        _upload(aws, call, progress)
        return
    progress(f"{call.operation.replace('_', ' ')} {what}")
    try:
        aws.call(call.service, call.operation, call.arguments, f"to {call.operation.replace('_', ' ')} {what}")
    except DeployError as error:
        if not (call.operation.startswith("delete_") and absent(error)):
            raise
    if call.operation == "delete_endpoint":
        settle(aws, what, progress, timeout_s)


def target(call: Call) -> str:
    """What a call is about."""
    names = ("EndpointName", "EndpointConfigName", "ModelName", "Key", "ResourceArn")
    return next(str(call.arguments[name]) for name in names if name in call.arguments)


def take_back(aws: Aws, undo: Sequence[Call], progress: Progress, timeout_s: float) -> str:
    """Make the calls, the last first, whatever fails; returns what is left because it could not be taken back."""
    left = []
    for call in reversed(undo):
        try:
            execute(aws, call, progress, timeout_s)
        except DeployError:
            left.append(target(call))
    return ", ".join(left)


def _upload(aws: Aws, call: Call, progress: Progress) -> None:
    """Upload a tarball in parts, several at once; boto3 aborts the parts when one fails or Ctrl-C is pressed."""
    from boto3.exceptions import S3UploadFailedError

    path = Path(call.arguments["Filename"])
    total, done, lock = path.stat().st_size, 0, Lock()

    def said(count: int) -> None:
        nonlocal done
        with lock:
            done += count
            progress(f"uploading {path.name}: {size(done)} of {size(total)}")

    try:
        aws.call("s3", "upload_file", {**call.arguments, "Callback": said}, f"to upload {path.name}")
    except S3UploadFailedError as error:
        with explained(f"to upload {path.name}"):
            raise error.__context__ or error from None
    except OSError as error:
        raise DeployError(f"{path} cannot be read: {error.strerror}.") from None
