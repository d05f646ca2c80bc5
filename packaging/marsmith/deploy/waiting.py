"""Waiting for an endpoint, which takes minutes: what it is doing is said all the while."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from marsmith.deploy.aws import Aws, absent
from marsmith.deploy.calls import BEYOND_REPAIR
from marsmith.deploy.policy import LOG_GROUP
from marsmith.deploy.state import EndpointState, describe
from marsmith.errors import DeployError
from marsmith.ground.progress import Progress

# As often as boto3's own waiters would be too seldom to be watched, and more often would be throttled.
POLL_S = 10
IN_TRANSIT = {"Creating", "Updating", "SystemUpdating", "RollingBack", "Deleting"}
MINUTE = 60
# How often something that AWS was just told, or that was made elsewhere a moment ago, is looked for before it is taken
# to be missing: 2 minutes for what SageMaker was told here (its API is eventually consistent, and so is IAM, whose
# documentation speaks of seconds), half a minute where a mistake is likelier, such as a name that is misspelt.
LOOKS, FEW_LOOKS = 12, 3

T = TypeVar("T")


def settle(
    aws: Aws, name: str, progress: Progress, timeout_s: float, config: str | None = None
) -> EndpointState | None:
    """Wait until the endpoint changes no longer, or is gone. Raises DeployError when that takes longer.

    With `config`, which it was just told to serve, an endpoint that is not there or serves another one is taken for
    that only after several looks: SageMaker does not show at once what it was told.
    """
    begun, looks, moved = time.monotonic(), 0, False
    while True:
        found = describe(aws, name)
        if found and found.status in IN_TRANSIT:
            looks, moved = 0, True
            waited = time.monotonic() - begun
            if waited >= timeout_s:
                raise _still(name, found.status, timeout_s)
            progress(f"{name} is {found.status} ({waited // MINUTE:.0f} min {waited % MINUTE:.0f} s)")
        elif config is None or looks >= (FEW_LOOKS if moved else LOOKS) or _is_final(found, config):
            return found
        else:
            looks += 1
            progress(f"waiting until SageMaker shows what becomes of {name}")
        pause()


def wait_until_gone(aws: Aws, name: str, progress: Progress, timeout_s: float) -> None:
    """Wait until an endpoint that was deleted is gone. Raises DeployError when that takes longer."""
    for _ in range(LOOKS):
        found = settle(aws, name, progress, timeout_s)
        if found is None:
            return
        progress(f"waiting until SageMaker shows that {name} is deleted")
        pause()
    raise _still(name, "there", LOOKS * POLL_S)


def appearing(read: Callable[[], T]) -> T:
    """What is read, also where it was made a moment ago and is not shown yet. Raises DeployError."""
    for _ in range(FEW_LOOKS):
        try:
            return read()
        except DeployError as error:
            if not absent(error):
                raise
        pause()
    return read()


def pause() -> None:
    """The time between two looks."""
    time.sleep(POLL_S)


def _is_final(found: EndpointState | None, config: str) -> bool:
    return found is not None and (found.config == config or found.status in BEYOND_REPAIR)


def _still(name: str, status: str, timeout_s: float) -> StillChanging:
    minutes = f"{timeout_s / MINUTE:.0f} minutes"
    return StillChanging(f"{name} is still {status} after {minutes}: run up again to wait on, or down to remove it.")


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
