"""Ports for the tests' own servers."""

from marsmith.configuration import Ports
from marsmith.errors import ServerError


def free_ports() -> Ports:
    """Five free ports in a row, and a sixth for the image's gate."""
    for first in range(18080, 19000, 6):
        try:
            Ports(first).check_free()
            Ports(first + 1).check_free()
        except ServerError:
            continue
        return Ports(first)
    raise AssertionError("no free ports")
