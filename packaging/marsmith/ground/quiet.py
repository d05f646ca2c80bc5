"""Hold back what torch says about its own insides."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr


@contextmanager
def quiet() -> Iterator[None]:
    """No warnings, nothing logged below an error, and no listing of what torch.export could not do."""
    level = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)
