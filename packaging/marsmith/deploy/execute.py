"""Make the calls that change AWS, and take them back in reverse."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from marsmith.deploy import waiting
from marsmith.deploy.aws import Aws, absent, exists, explained, not_yet
from marsmith.deploy.calls import Call
from marsmith.deploy.waiting import FEW_LOOKS, LOOKS
from marsmith.errors import DeployError
from marsmith.ground.progress import Progress
from marsmith.ground.wording import size


def execute(aws: Aws, call: Call, progress: Progress, timeout_s: float, *, made: bool = False) -> bool:
    """Make one call; whether it made something, which it does not where that is there already. Raises DeployError.

    What AWS cannot do yet is tried again for a while. Deleting what is gone is no error, unless it was `made` a moment
    ago and so may not be shown yet; deleting an endpoint lasts until it is gone.
    """
    what = target(call)
    if call.operation == "upload_file":
        _upload(aws, call, progress)
        return True
    step = call.operation.replace("_", " ")
    progress(f"{step} {what}")
    deleting = call.operation.startswith("delete_")
    for look in range(LOOKS + 1):
        try:
            aws.call(call.service, call.operation, call.arguments, f"to {step} {what}")
            break
        except DeployError as error:
            if deleting and absent(error):
                if not made or look >= FEW_LOOKS:
                    break
            elif call.operation.startswith("create_") and exists(error):
                return False
            elif look == LOOKS or not not_yet(error):
                raise
        progress(f"waiting until AWS can {step} {what}")
        waiting.pause()
    if call.operation == "delete_endpoint":
        waiting.wait_until_gone(aws, what, progress, timeout_s)
    return True


def target(call: Call) -> str:
    """What a call is about."""
    names = ("EndpointName", "EndpointConfigName", "ModelName", "Key", "ResourceArn")
    return next(str(call.arguments[name]) for name in names if name in call.arguments)


def take_back(aws: Aws, undo: Sequence[tuple[Call, bool]], progress: Progress, timeout_s: float) -> str:
    """Make the calls, the last first, whatever fails; returns what is left because it could not be taken back.

    Beside each call stands whether what it deletes was surely made.
    """
    left = []
    for call, made in reversed(undo):
        try:
            execute(aws, call, progress, timeout_s, made=made)
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
