"""Which names a member may have: one rule for what is packed, linted and verified."""

from __future__ import annotations

import re
import unicodedata

DRIVE = re.compile(r"[A-Za-z]:")
# Linux's NAME_MAX: no file system of a server takes more.
MAX_PART_BYTES = 255
# A quarter of Linux's PATH_MAX: the directory that TorchServe unpacks into stands before it.
MAX_NAME_BYTES = 1024
# Control characters, surrogates that stand for bytes which are not UTF-8, and the two separators of lines.
FORBIDDEN_CATEGORIES = frozenset({"Cc", "Cs", "Zl", "Zp"})
# Names that Windows gives to devices, whatever ending follows: a file of that name cannot be made there. The digits may
# be superscript ones too (https://learn.microsoft.com/windows/win32/fileio/naming-a-file).
DEVICE = re.compile(
    r"(con|prn|aux|nul|conin\$|conout\$|(com|lpt)[0-9\u00b9\u00b2\u00b3])[ ]*(\..*)?", re.IGNORECASE | re.DOTALL
)


def unsafe(name: str) -> str | None:
    """Why no archive should hold a member of this name; None when it may."""
    if len(name) > MAX_NAME_BYTES:
        return f"has more than {MAX_NAME_BYTES} bytes"
    parts = name.removesuffix("/").split("/")
    if not name.strip("/"):
        return "is empty"
    if name.startswith("/") or DRIVE.match(name):
        return "is absolute"
    if ".." in parts:
        return "leaves the archive with '..'"
    if "\\" in name:
        return "has a backslash, which is a folder on Windows and not on Linux"
    if any(unicodedata.category(character) in FORBIDDEN_CATEGORIES for character in name):
        return "has a control character, or bytes that are not UTF-8"
    if "" in parts or "." in parts:
        return "has an empty part or '.' in it, so it is not the one that it is unpacked to"
    if any(part.endswith((".", " ")) for part in parts):
        return "has a part that ends with a dot or a space, which Windows drops"
    if any(map(is_device, parts)):
        return "has a part that is a device's name on Windows"
    if any(len(part.encode("utf-8")) > MAX_PART_BYTES for part in parts):
        return f"has a part of more than {MAX_PART_BYTES} bytes"
    return None


def is_device(part: str) -> bool:
    """Whether a part of a path names a device on Windows, such as CON, nul.txt or COM1."""
    return DEVICE.fullmatch(part) is not None


def folded(name: str) -> str:
    """What a file system without case, or with one Unicode form, takes a name for."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())
