"""`down`: remove an endpoint and what belongs to it, however much of it is still there, and say what is left."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlparse

from marsmith.deploy.aws import Aws, absent
from marsmith.deploy.calls import Call, delete_config, delete_endpoint, delete_model
from marsmith.deploy.execute import execute, target
from marsmith.deploy.policy import LOG_GROUP
from marsmith.deploy.settings import Endpoint
from marsmith.deploy.state import State, read
from marsmith.deploy.waiting import IN_TRANSIT, settle
from marsmith.errors import DeployError
from marsmith.ground.progress import Progress
from marsmith.ground.wording import size

WHY = "down was asked for"
# The most keys that one DeleteObjects takes.
MAX_KEYS = 1000


@dataclass(frozen=True, slots=True)
class Down:
    """What was removed, and what is left that costs money or may."""

    endpoint: str
    removed: list[str]
    left: list[str] = field(default_factory=list)


def down(aws: Aws, one: Endpoint, progress: Progress, *, objects: bool, timeout_s: float) -> Down:
    """Delete the endpoint, its configurations and models, and with `objects` its tarballs. Doing it again is fine.

    Raises DeployError, also for an endpoint that Marsmith did not make.
    """
    progress(f"looking for {one.name}")
    state = read(aws, one.name, None, one.folder)
    bucket = one.bucket or _bucket(aws, state)
    if objects and bucket is None:
        raise DeployError(
            "Where the tarballs are is not known any more: give --bucket, and --prefix if it was not ours."
        )
    if state.endpoint is None and (state.configs or state.models):
        # It may have been made a moment ago, and not be shown yet: left alone, it would cost money.
        settle(aws, one.name, progress, timeout_s, next(iter(sorted(state.configs)), ""))
        state = read(aws, one.name, None, one.folder)
    if state.endpoint and state.endpoint.status in IN_TRANSIT:
        settle(aws, one.name, progress, timeout_s)
    calls = removing(one.name, state)
    for call in calls:
        execute(aws, call, progress, timeout_s)
    removed = [f"{call.operation} {target(call)}" for call in calls]
    if bucket and objects:
        removed += _delete_objects(aws, bucket, one.folder, progress)
    return Down(one.name, removed, _left(aws, bucket, one))


def removing(name: str, state: State) -> list[Call]:
    """The calls that remove what there is, in an order that SageMaker allows."""
    calls = [delete_endpoint(name, WHY)] if state.endpoint else []
    calls += [delete_config(one, WHY) for one in sorted(state.configs)]
    return calls + [delete_model(one, WHY) for one in sorted(state.models)]


def _bucket(aws: Aws, state: State) -> str | None:
    """The bucket that the models name."""
    for model in sorted(state.models):
        described = aws.call("sagemaker", "describe_model", {"ModelName": model})
        return urlparse(described["PrimaryContainer"]["ModelDataUrl"]).netloc or None
    return None


def _versions(aws: Aws, bucket: str, folder: str) -> list[dict[str, Any]]:
    """Every version of every object, and delete markers: what a versioned bucket keeps costs money too."""
    found: list[dict[str, Any]] = []
    try:
        for page in aws.pages("s3", "list_object_versions", {"Bucket": bucket, "Prefix": folder}):
            found += page.get("Versions", []) + page.get("DeleteMarkers", [])
    except DeployError as error:
        if not absent(error):
            raise
    return found


def _parts(aws: Aws, bucket: str, folder: str) -> list[dict[str, Any]]:
    """Uploads that never ended, whose parts cost money unseen."""
    found: list[dict[str, Any]] = []
    try:
        for page in aws.pages("s3", "list_multipart_uploads", {"Bucket": bucket, "Prefix": folder}):
            found += page.get("Uploads", [])
    except DeployError as error:
        if not absent(error):
            raise
    return found


def _delete_objects(aws: Aws, bucket: str, folder: str, progress: Progress) -> list[str]:
    progress(f"deleting s3://{bucket}/{folder}")
    versions = _versions(aws, bucket, folder)
    for begin in range(0, len(versions), MAX_KEYS):
        keys = [{"Key": one["Key"], "VersionId": one["VersionId"]} for one in versions[begin : begin + MAX_KEYS]]
        answer = aws.call(
            "s3", "delete_objects", {"Bucket": bucket, "Delete": {"Objects": keys, "Quiet": True}}, f"deleting {folder}"
        )
        if answer.get("Errors"):
            first = answer["Errors"][0]
            raise DeployError(f"S3 did not delete {first['Key']} ({first['Code']}): run down again.")
    for one in _parts(aws, bucket, folder):
        arguments = {"Bucket": bucket, "Key": one["Key"], "UploadId": one["UploadId"]}
        aws.call("s3", "abort_multipart_upload", arguments, f"deleting parts of {one['Key']}")
    return [f"delete_object {one}" for one in sorted({one["Key"] for one in versions})]


def _left(aws: Aws, bucket: str | None, one: Endpoint) -> list[str]:
    left = []
    if bucket:
        versions = _versions(aws, bucket, one.folder)
        if versions:
            total = sum(version.get("Size", 0) for version in versions)
            left.append(f"s3://{bucket}/{one.folder}: {size(total)}, stored until down --objects")
        if _parts(aws, bucket, one.folder):
            left.append(f"s3://{bucket}/{one.folder}: parts of uploads that never ended, stored until down --objects")
    else:
        left.append("tarballs in S3, if any: which bucket they are in is not known any more")
    return left + _logs(aws, one.name)


def _logs(aws: Aws, name: str) -> list[str]:
    group = LOG_GROUP.format(name=name)
    try:
        pages = list(aws.pages("logs", "describe_log_groups", {"logGroupNamePrefix": group}))
    except DeployError:
        return [f"the log group {group}, if there is one: it could not be looked for"]
    found = [one for page in pages for one in page["logGroups"] if one["logGroupName"] == group]
    return [f"the log group {group}: {size(one.get('storedBytes', 0))}, stored until you delete it" for one in found]
