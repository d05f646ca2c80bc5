"""Ports for the tests' own servers."""

from marsmith.configuration import Ports
from marsmith.errors import ServerError


def free_ports() -> Ports:
    """Five free ports in a row."""
    for first in range(18080, 19000, 5):
        try:
            Ports(first).check_free()
        except ServerError:
            continue
        return Ports(first)
    raise AssertionError("no free ports")
