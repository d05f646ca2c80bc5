"""An exception of a hook -> the error that stands in its instance's place."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from handlers.errors import RequestError, ServerFault

logger = logging.getLogger("marsmith")


def guard(hook: Callable[[Any], Any], argument: Any) -> Any:
    """The hook's value, or the RequestError that stands in its place."""
    try:
        return hook(argument)
    except RequestError as error:
        return error
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:  # a Rust panic is no Exception
        return fault(error)


def fault(error: BaseException) -> ServerFault:
    """Log where an unexpected exception came from, never its text: that may quote the request."""
    frames = []
    trace = error.__traceback__
    while trace is not None:
        frames.append(f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}")
        trace = trace.tb_next
    logger.error("%s at %s", type(error).__name__, " < ".join(reversed(frames)))
    return ServerFault()
