"""Waiting for an endpoint, which takes minutes: what it is doing is said all the while."""

from __future__ import annotations

import time

from marsmith.deploy.aws import Aws
from marsmith.deploy.policy import LOG_GROUP
from marsmith.deploy.state import EndpointState, describe
from marsmith.errors import DeployError
from marsmith.progress import Progress

# As often as boto3's own waiters would be too seldom to be watched, and more often would be throttled.
POLL_S = 10
IN_TRANSIT = {"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"}
MINUTE = 60


def settle(aws: Aws, name: str, progress: Progress, timeout_s: float) -> EndpointState | None:
    """Wait until the endpoint changes no longer, or is gone. Raises DeployError when that takes longer."""
    begun = time.monotonic()
    while (found := describe(aws, name)) and found.status in IN_TRANSIT:
        waited = time.monotonic() - begun
        if waited >= timeout_s:
            raise StillChanging(
                f"{name} is still {found.status} after {timeout_s / MINUTE:.0f} minutes: run up again to wait on, or "
                "down to remove it."
            )
        progress(f"{name} is {found.status} ({waited // MINUTE:.0f} min {waited % MINUTE:.0f} s)")
        time.sleep(POLL_S)
    return found


class StillChanging(DeployError):
    """Nothing failed, so nothing is taken back."""


def require_in_service(found: EndpointState | None, name: str, config: str) -> None:
    """Raise DeployError unless the endpoint serves that configuration, in SageMaker's words where it has any."""
    if found and found.status == "InService" and found.config == config:
        return
    status = f"is {found.status}" if found else "is gone"
    if found and found.status == "InService":
        status = f"went back to {found.config}"
    reason = f": {found.reason.rstrip('.')}" if found and found.reason else ""
    logs = LOG_GROUP.format(name=name)
    raise DeployError(f"The endpoint {name} {status}{reason}. What its containers said is in CloudWatch, in {logs}.")
