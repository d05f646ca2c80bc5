"""Which top-level modules a package brings, as far as this machine can tell."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version

from packaging.utils import canonicalize_name

# Packages that are imported by another name than they are installed by, where that cannot be looked up here.
IMPORT_NAMES = {
    "beautifulsoup4": "bs4",
    "faiss-cpu": "faiss",
    "onnxruntime-gpu": "onnxruntime",
    "opencv-contrib-python": "cv2",
    "opencv-contrib-python-headless": "cv2",
    "opencv-python": "cv2",
    "opencv-python-headless": "cv2",
    "pillow": "PIL",
    "pillow-simd": "PIL",
    "protobuf": "google",
    "pycryptodome": "Crypto",
    "pymupdf": "fitz",
    "python-dateutil": "dateutil",
    "python-dotenv": "dotenv",
    "python-json-logger": "pythonjsonlogger",
    "pyyaml": "yaml",
    "scikit-image": "skimage",
    "scikit-learn": "sklearn",
}


@cache
def installed() -> dict[str, frozenset[str]]:
    """Each top-level module that is installed here, with the canonical names of the packages that brought it.

    From the packages' own lists: asking the import system would find the current directory too.
    """
    return {module: frozenset(map(canonicalize_name, names)) for module, names in packages_distributions().items()}


def provided(packages: Iterable[str]) -> frozenset[str]:
    """The top-level modules that packages of these canonical names bring, or are likely to bring."""
    modules: set[str] = set()
    for name in packages:
        known = {module for module, owners in installed().items() if name in owners}
        modules |= known or {IMPORT_NAMES.get(name, name.replace("-", "_").replace(".", "_"))}
    return frozenset(modules)


def unknown(packages: Iterable[str]) -> list[str]:
    """Those of the packages that are not installed here: neither their modules nor their dependencies are known."""
    return sorted(name for name in packages if not _is_installed(name))


def _is_installed(name: str) -> bool:
    try:
        version(name)
    except (PackageNotFoundError, ValueError):
        return False
    return True
