"""Figures that tests measured, shown at the end of a run whether its tests pass or fail."""

import pytest

# (title, text), in the order of measuring.
Figures = list[tuple[str, str]]
FIGURES = pytest.StashKey[Figures]()
