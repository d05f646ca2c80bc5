"""Where the files are that Marsmith carries: in a wheel inside the package, in a checkout where they lie."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_DATA = _PACKAGE / "_data"
_ROOT = _DATA if _DATA.is_dir() else _PACKAGE.parents[1]


def handlers_tree() -> Path:
    """The directory of the `handlers` package."""
    return _ROOT / "handlers"


def worker_site() -> Path:
    """The directory that TorchServe's workers start without torch by, when it is on PYTHONPATH."""
    return _PACKAGE / "torchserve" / "worker_site"


def config_properties() -> Path:
    """The TorchServe configuration that Marsmith serves with."""
    return _ROOT / "config.properties"


def dockerfile() -> Path:
    """The Dockerfile of the ARM64 image."""
    return _ROOT / "Dockerfile.arm64"


def image_lock() -> Path:
    """The exact versions, with digests, of what the ARM64 image installs."""
    return (_ROOT if _ROOT == _DATA else _ROOT / "packaging") / "requirements-arm64.lock"


def checkout() -> Path | None:
    """The checkout that Marsmith runs from; None where it is installed."""
    return None if _ROOT == _DATA else _ROOT
