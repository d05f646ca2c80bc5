"""`plan`: what `up` would do, call by call, and the policies that allow it. It changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from marsmith.deploy import policy
from marsmith.deploy.aws import Aws, denied
from marsmith.deploy.calls import Call, deploying, tidying
from marsmith.deploy.resources import Resources
from marsmith.deploy.state import State, read
from marsmith.errors import DeployError
from marsmith.ground.progress import Progress

AGAINST = "Compared with what there is:"
UNCOMPARED = "As if there were nothing yet, because AWS was not asked ({why}):"


@dataclass(frozen=True, slots=True)
class Plan:
    """The calls before and after the endpoint serves, and on what they are based."""

    wanted: Resources
    basis: str
    deploying: list[Call]
    tidying: list[Call]

    @property
    def endpoint(self) -> str:
        """The endpoint's name."""
        return self.wanted.endpoint

    @property
    def region(self) -> str:
        """The region."""
        return self.wanted.region

    @property
    def image(self) -> str:
        """The image's URI."""
        return self.wanted.deployment.image_uri(self.region)

    def policies(self) -> dict[str, Any]:
        """The policies by what they are for."""
        return {
            "Policy for who deploys": policy.deployer(self.wanted),
            "Policy of the execution role": policy.execution(self.wanted),
            "Trust policy of the execution role": policy.trust(),
        }

    def as_json(self) -> dict[str, Any]:
        """The plan for machines."""
        calls = [*self.deploying, *self.tidying]
        return {
            "endpoint": self.endpoint,
            "region": self.region,
            "image": self.image,
            "basis": self.basis,
            "calls": [
                {"service": one.service, "operation": one.operation, "arguments": one.arguments, "why": one.why}
                for one in calls
            ],
            "deployer_policy": policy.deployer(self.wanted),
            "execution_policy": policy.execution(self.wanted),
            "trust_policy": policy.trust(),
        }


def plan(aws: Aws, wanted: Resources, progress: Progress, *, objects: bool, offline: bool) -> Plan:
    """What `up` would do where AWS is now; without credentials, permission or a network, as if there were nothing.

    Raises DeployError for an endpoint that Marsmith did not make.
    """
    state, basis = State(), UNCOMPARED.format(why="no credentials")
    if offline:
        basis = UNCOMPARED.format(why="--offline")
    elif aws.has_credentials():
        progress("asking AWS what there is")
        one = wanted.deployment
        try:
            state, basis = read(aws, wanted.endpoint, one.bucket, one.folder), AGAINST
        except DeployError as error:
            if error.__cause__ is None:
                raise
            why = "these credentials may not" if denied(error) else str(error).rstrip(".")
            basis = UNCOMPARED.format(why=why)
    return Plan(wanted, basis, deploying(wanted, state), tidying(wanted, state, objects=objects))
