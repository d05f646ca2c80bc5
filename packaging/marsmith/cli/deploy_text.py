"""What the deploy commands print for people."""

from __future__ import annotations

import json
from typing import Any

from marsmith.deploy.calls import Call
from marsmith.deploy.down import Down
from marsmith.deploy.plan import Plan
from marsmith.deploy.up import Up


def plan_text(plan: Plan) -> str:
    """Every call with its arguments, then the policies."""
    parts = [f"{plan.endpoint} in {plan.region} ({plan.image})", plan.basis]
    if plan.deploying or plan.tidying:
        parts += [_call(number, one) for number, one in enumerate(plan.deploying, 1)]
        parts.append("Then up waits until the endpoint is InService.")
        parts += [_call(number, one) for number, one in enumerate(plan.tidying, len(plan.deploying) + 1)]
    else:
        parts.append("Nothing is to be done: the endpoint serves this already.")
    parts += [f"{title}:\n{_json(policy)}" for title, policy in plan.policies().items()]
    return "\n\n".join(parts)


def up_text(done: Up) -> str:
    """What serves, what was changed, and how each model of several is asked."""
    lines = [f"{done.endpoint} is InService in {done.region} and serves {done.model}, configured by {done.config}."]
    lines += [f"  {one}" for one in done.changed] or ["Nothing was to be done."]
    lines += [f"TargetModel {one}" for one in done.targets]
    return "\n".join([*lines, "It costs money until marsmith deploy sagemaker down."])


def down_text(done: Down) -> str:
    """What was removed, and what still costs money."""
    lines = [f"{done.endpoint} is gone." if done.removed else f"Of {done.endpoint} there was nothing to remove."]
    lines += [f"  {one}" for one in done.removed]
    lines += ["Left, and stored for money:", *(f"  {one}" for one in done.left)] if done.left else ["Nothing is left."]
    return "\n".join(lines)


def _call(number: int, call: Call) -> str:
    return f"{number}. {call.service} {call.operation} ({call.why})\n{_json(call.arguments)}"


def _json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
