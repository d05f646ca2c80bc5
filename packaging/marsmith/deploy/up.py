"""`up`: make the endpoint serve what is wanted, or leave AWS as it was."""

from __future__ import annotations

from dataclasses import dataclass

from marsmith.deploy.aws import Aws, NotAskedError
from marsmith.deploy.calls import Call, deploying, tidying
from marsmith.deploy.execute import execute, take_back, target
from marsmith.deploy.preflight import preflight
from marsmith.deploy.resources import Resources
from marsmith.deploy.state import State, read
from marsmith.deploy.waiting import IN_TRANSIT, StillChanging, require_in_service, settle
from marsmith.errors import DeployError, MarsmithError
from marsmith.ground.progress import Progress

# Past these calls SageMaker works on its own: what they name is in use, and may not be deleted.
HANDED_OVER = {"create_endpoint", "update_endpoint"}


@dataclass(frozen=True, slots=True)
class Up:
    """What serves now, what the run changed, and what TargetModel each model of a multi-model endpoint has."""

    endpoint: str
    region: str
    config: str
    model: str
    changed: list[str]
    targets: list[str]


def up(aws: Aws, wanted: Resources, progress: Progress, *, objects: bool, timeout_s: float) -> Up:
    """Make what is missing, wait until it serves, then remove what served before, with `objects` its tarballs too.

    Doing it again changes nothing. Raises DeployError; what the run had made is then taken back, except when SageMaker
    has taken over and only takes longer than `timeout_s`, or cannot be reached any more.
    """
    progress("checking the account")
    preflight(aws, wanted)
    state = settled(aws, wanted, progress, timeout_s)
    calls = deploying(wanted, state)
    _make(aws, wanted, calls, progress, timeout_s)
    after = tidying(wanted, state, objects=objects)
    for call in after:
        execute(aws, call, progress, timeout_s)
    return Up(
        wanted.endpoint,
        aws.region,
        wanted.config,
        wanted.model,
        [f"{one.operation} {target(one)}" for one in (*calls, *after)],
        [one.model for one in wanted.tarballs] if wanted.deployment.multi_model else [],
    )


def settled(aws: Aws, wanted: Resources, progress: Progress, timeout_s: float) -> State:
    """The state once an endpoint that an earlier run left on its way has come to rest. Raises DeployError."""
    one = wanted.deployment
    state = read(aws, wanted.endpoint, one.bucket, one.folder)
    if state.endpoint and state.endpoint.status in IN_TRANSIT:
        settle(aws, wanted.endpoint, progress, timeout_s)
        state = read(aws, wanted.endpoint, one.bucket, one.folder)
    return state


def _make(aws: Aws, wanted: Resources, calls: list[Call], progress: Progress, timeout_s: float) -> None:
    """Make the calls and wait; what they made is taken back on failure, and on Ctrl-C before it is handed over."""
    undo: list[tuple[Call, bool]] = []
    handed_over = False
    try:
        for call in calls:
            handed_over = handed_over or call.operation in HANDED_OVER
            if call.undo:
                undo.append((call.undo, False))
            made = execute(aws, call, progress, timeout_s)
            if call.undo:
                undo.pop()
                # What was there already, though it was not shown, is not this run's to delete.
                undo += [(call.undo, True)] if made else []
            if not made and call.operation == "create_endpoint":
                _require_own(aws, wanted)
        found = settle(aws, wanted.endpoint, progress, timeout_s, wanted.config)
        require_in_service(found, wanted.endpoint, wanted.config)
    except (MarsmithError, KeyboardInterrupt) as error:
        if handed_over and isinstance(error, KeyboardInterrupt):
            raise Interrupted(wanted.endpoint) from None
        if handed_over and isinstance(error, (StillChanging, NotAskedError)):
            raise
        progress("taking back what was made")
        left = take_back(aws, undo, progress, timeout_s)
        if isinstance(error, KeyboardInterrupt):
            raise
        done = f" What could not be taken back: {left}; down removes it." if left else ""
        raise DeployError(
            f"{error}{' What this run had made is taken back.' if undo and not left else done}"
        ) from error


def _require_own(aws: Aws, wanted: Resources) -> None:
    """Raise DeployError unless an endpoint that turned up meanwhile is this deployment's, as it is wanted."""
    one = wanted.deployment
    endpoint = read(aws, wanted.endpoint, one.bucket, one.folder).endpoint
    if endpoint and endpoint.config != wanted.config:
        raise DeployError(f"The endpoint {wanted.endpoint} was made by another run meanwhile: run up again.")


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while SageMaker works on: its argument is the endpoint, which goes on without us."""
