"""How every recipe's command ends: a user's mistake is one sentence and exit code 1, never a traceback."""

import errno
import sys

import typer

from training.errors import TrainingError


def run(app: typer.Typer) -> None:
    """Run `app` on the command line; a `TrainingError` and a full disk are said on stderr, with exit code 1."""
    try:
        app()
    except TrainingError as error:
        sys.exit(f"Error: {error}")
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        sys.exit(f"Error: no space is left on the disk of {error.filename or 'the output'}: free some and resume.")
