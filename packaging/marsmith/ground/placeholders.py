"""Files that stand for another: a download that was never completed, recognised by its first bytes.

A Git clone without Git LFS has pointers in the place of weights, a download that failed has a server's error page, and
one that was interrupted has nothing. Each loads as garbage, or not at all, long after it was packed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

# The whole beginning of a pointer (git-lfs.com/spec): no other file starts so.
GIT_LFS = re.compile(rb"version https?://(git-lfs\.github\.com|hawser\.github\.com)/spec/v\d")
# A pointer of git-annex holds the path of its object alone.
GIT_ANNEX = re.compile(rb"(/annex/objects/|(\.\./)*\.git/annex/objects/)\S+\s*\Z")
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
HTML = re.compile(rb"\s*(<!--.*?-->\s*)?<(!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
# What object stores answer in the place of a file.
XML_ERROR = re.compile(rb"\s*(<\?xml[^>]*\?>\s*)?<(Error|ListBucketResult)\b")
# The keys that servers put into an error's JSON object. What has others is data.
ERROR_KEYS = frozenset(
    {"code", "detail", "details", "error", "errors", "message", "msg", "path", "status", "timestamp"}
)
REASON_KEYS = frozenset({"detail", "error", "errors", "message", "msg"})
# Longer than any pointer or error's JSON object, and less than any weights.
MAX_PLACEHOLDER_BYTES = 4 << 10
# Texts that may well be markup, and so may be a page that was meant.
MARKUP_SUFFIXES = frozenset(
    {".htm", ".html", ".jinja", ".jinja2", ".j2", ".md", ".svg", ".tmpl", ".tpl", ".vue", ".xhtml", ".xml", ".xsl"}
)
# Files that are never empty, nor a page or a server's message: weights, vocabularies, archives, pictures and sounds.
DATA_SUFFIXES = frozenset(
    {
        ".bin",
        ".ckpt",
        ".h5",
        ".joblib",
        ".model",
        ".npy",
        ".npz",
        ".onnx",
        ".pkl",
        ".pt",
        ".pt2",
        ".pth",
        ".safetensors",
    }
    | {".spm", ".tflite", ".weights", ".gz", ".mar", ".tar", ".tgz", ".whl", ".xz", ".zip"}
    | {".avif", ".bmp", ".gif", ".heic", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp"}
    | {".flac", ".mp3", ".mp4", ".ogg", ".wav", ".parquet"}
)


@dataclass(frozen=True, slots=True)
class Placeholder:
    """`what` stands in a file's place, as a noun, and what to do about it."""

    what: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.what}: {self.remedy}"


EMPTY = Placeholder("an empty file", "download or copy it again")
LFS_POINTER = Placeholder(
    "a Git LFS pointer, not the file itself", "run git lfs pull in its repository, or download it"
)
ANNEX_POINTER = Placeholder("a git-annex pointer, not the file itself", "run git annex get in its repository")
HTML_PAGE = Placeholder("an HTML page, such as a server sends in the place of a file", "download it again")
XML_MESSAGE = Placeholder("an XML error message of a server", "download it again")
JSON_MESSAGE = Placeholder("a JSON error message of a server", "download it again")


def placeholder(name: str, head: bytes, size: int) -> Placeholder | None:
    """What a file of that name is instead of its content; None for what can be its content.

    `head` is the first MAX_PLACEHOLDER_BYTES of its `size` bytes. Of a text, which may be empty, and markup where its
    name says so, only what is no content beyond doubt counts.
    """
    suffix = PurePosixPath(name).suffix.lower()
    if suffix in DATA_SUFFIXES or suffix == ".json":
        return instead_of_data(head, size, json_is_data=suffix == ".json")
    return _pointer(head, size) or (_page(head) if suffix not in MARKUP_SUFFIXES else None)


def instead_of_data(head: bytes, size: int, *, json_is_data: bool = False) -> Placeholder | None:
    """As `placeholder`, of a file that must have content: weights, a picture, a checkpoint's settings."""
    if not size:
        return EMPTY
    return _pointer(head, size) or _page(head) or (None if json_is_data else _json_error(head, size))


def what_stands_at(file: Path, *, json_is_data: bool = False) -> Placeholder | None:
    """As `instead_of_data`, of a file on disk; None where it cannot be read either."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            return instead_of_data(stream.read(MAX_PLACEHOLDER_BYTES), size, json_is_data=json_is_data)
    except (OSError, ValueError):
        return None


def is_error(value: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a server's error message, and nothing else."""
    return bool(value) and value.keys() <= ERROR_KEYS and not REASON_KEYS.isdisjoint(value)


def _pointer(head: bytes, size: int) -> Placeholder | None:
    head = head.removeprefix(BYTE_ORDER_MARK)
    if GIT_LFS.match(head):
        return LFS_POINTER
    return ANNEX_POINTER if size < MAX_PLACEHOLDER_BYTES and GIT_ANNEX.match(head) else None


def _page(head: bytes) -> Placeholder | None:
    head = head.removeprefix(BYTE_ORDER_MARK)
    if HTML.match(head):
        return HTML_PAGE
    return XML_MESSAGE if XML_ERROR.match(head) else None


def _json_error(head: bytes, size: int) -> Placeholder | None:
    try:
        value = json.loads(head) if size < MAX_PLACEHOLDER_BYTES else None
    except (ValueError, RecursionError):
        return None
    return JSON_MESSAGE if isinstance(value, dict) and is_error(value) else None
