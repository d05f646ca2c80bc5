"""What all tests need of their own process."""

import signal

import pytest

# A shell lets what it runs in the background ignore a terminal's signals, which children inherit; some tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """With `-n`, a file's tests run in one process, which makes its fixtures once; so do those of the ARM64 image."""
    for item in items:
        group = "arm64" if item.get_closest_marker("arm64") else str(item.path)
        item.add_marker(pytest.mark.xdist_group(group))
