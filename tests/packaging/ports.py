"""Ports for the tests' own servers."""

import os

from marsmith.errors import ServerError
from marsmith.torchserve.configuration import Ports

FIRST, OF_EACH_PROCESS = 18080, 600


def _process() -> int:
    """The number of this process among those of pytest-xdist, so that none takes the ports that another one found."""
    return int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


def free_ports() -> Ports:
    """Five free ports in a row, and a sixth for the image's gate."""
    for first in range(FIRST + OF_EACH_PROCESS * _process(), FIRST + OF_EACH_PROCESS * (_process() + 1), 6):
        try:
            Ports(first).check_free()
            Ports(first + 1).check_free()
        except ServerError:
            continue
        return Ports(first)
    raise AssertionError("no free ports")
