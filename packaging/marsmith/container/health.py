"""The image's health check: exit code 0 when every worker of every model is READY, and nothing is being drained.

/ping says Healthy of a server whose models are gone.
"""

from __future__ import annotations

import sys

import requests

from marsmith.container.settings import DRAINING, MODELS, Settings
from marsmith.errors import MarsmithError
from marsmith.rest.address import direct_session
from marsmith.torchserve.configuration import HOST
from marsmith.torchserve.management import TIMEOUT_S


def main() -> int:
    """Say what is not ready; 0 when all is."""
    try:
        settings = Settings.from_environment()
        wanted = (settings.home / MODELS).read_text(encoding="utf-8").split()
        served = {one.name: one for one in settings.management().models()}
        if settings.multi_model:
            ping = f"http://{HOST}:{settings.port}/ping"
            direct_session().get(ping, timeout=TIMEOUT_S, allow_redirects=False).raise_for_status()
    except requests.RequestException as error:
        return _unhealthy(f"the gate does not answer ({type(error).__name__})")
    except (MarsmithError, OSError) as error:
        return _unhealthy(str(error))
    if (settings.home / DRAINING).exists():
        return _unhealthy("draining")
    waiting = [name for name in wanted if name not in served or not served[name].is_ready]
    if waiting:
        return _unhealthy(f"not READY: {', '.join(waiting)}")
    sys.stdout.write(f"READY: {', '.join(wanted) or 'for models'}\n")
    return 0


def _unhealthy(reason: str) -> int:
    sys.stdout.write(f"{reason}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
