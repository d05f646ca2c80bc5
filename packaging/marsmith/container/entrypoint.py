"""The image's entry point: `serve`, or any other command in serving's place.

It stays the first process of the container: it starts TorchServe, ends when that ends, and on SIGTERM lets requests be
answered before it ends TorchServe. TorchServe's own launcher, as the first process, ignores SIGTERM, and its exit code
says nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from marsmith.container import plan as planning
from marsmith.container.cpu import read_cpu
from marsmith.container.settings import Settings
from marsmith.container.supervise import supervise
from marsmith.errors import ContainerError, MarsmithError
from marsmith.ground.cores import available_cores
from marsmith.torchserve.server import LOG_CONFIG

SERVE = "serve"


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve, and return the exit code: 0 after SIGTERM, 1 where something is wrong."""
    asked = list(sys.argv[1:] if arguments is None else arguments) or [SERVE]
    try:
        if asked != [SERVE]:
            _become(asked)
        return serve(Settings.from_environment())
    except MarsmithError as error:
        say(f"error: {error}")
        return 1


def serve(settings: Settings) -> int:
    """Check the machine and the archives, and serve them until SIGTERM or until TorchServe ends."""
    cpu = read_cpu()
    cpu.require_supported()
    sources = planning.admit_models(settings)
    plan = planning.make_plan({name: settings.store / name for name in sources}, cpu, available_cores())
    config = planning.write_config(plan, settings)
    for line in planning.describe(plan, cpu, sources):
        say(line)
    # -P: the home is not a place to import from.
    command = [sys.executable, "-P", "-m", "ts.model_server", "--start", "--foreground", "--ncs"]
    command += ["--model-store", str(settings.store), "--ts-config", str(config)]
    command += ["--log-config", str(LOG_CONFIG)]
    if plan.models:
        command += ["--models", *(f"{name}={name}" for name in plan.models)]
    environ = planning.environment(plan, settings, os.environ)
    return supervise(command, environ, settings, say, _gate(settings) if settings.multi_model else nullcontext())


def _gate(settings: Settings) -> AbstractContextManager[object]:
    """Imported where it is needed: its HTTP library is no small one."""
    from marsmith.container.gate import Gate

    return Gate(settings, say)


def say(line: str) -> None:
    """Tell whoever reads the container's log."""
    sys.stderr.write(f"marsmith: {line}\n")
    sys.stderr.flush()


def _become(command: list[str]) -> None:
    """As images do: what stands behind the image's name is run in its place."""
    try:
        os.execvp(command[0], command)  # noqa: S606 - the operator's own command
    except OSError as error:
        raise ContainerError(
            f"{command[0]} cannot be run ({error.strerror}): say serve, or nothing, to serve the archives."
        ) from None


if __name__ == "__main__":
    sys.exit(main())
