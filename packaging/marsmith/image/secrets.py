"""Secrets in an image: in files of any layer, in the environment, in the history of its build."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from marsmith.lint.secrets import secret

# Settings of what fetches packages, where an address may hold a password.
INDEX_SETTINGS = ("pip.conf", "pip.ini", "uv.toml", "sources.list", "*.sources", "*.list", "apt.conf", "auth.conf")
ADDRESS_WITH_PASSWORD = re.compile(rb"[a-z][a-z0-9+.-]{1,20}://[^/\s:@]{0,200}:[^/\s:@$]{1,200}@", re.IGNORECASE)
# Where packages carry keys and tokens of their own tests, which anybody can download.
PUBLIC_TEST_KEYS = re.compile(
    r"(?:^|/)(?:site|dist)-packages/.*/(?:tests?/|testing_utils\.py$)|(?:^|/)lib/python3\.\d+/test/"
)
# Names of variables whose value is a secret. A path or a switch is not: it says where one will be, or whether.
NO_SECRET = re.compile(r"/.*|0|1|true|false|yes|no|on|off|none", re.IGNORECASE)
SECRET_NAMES = re.compile(r"SECRET|PASSWORD|PASSWD|TOKEN|CREDENTIAL|API_?KEY|ACCESS_KEY|PRIVATE_KEY", re.IGNORECASE)


def secret_in(path: str, text: bytes) -> str | None:
    """What kind of secret a file is or holds; `text` is empty when it is no text."""
    if PUBLIC_TEST_KEYS.search(path):
        return None
    name = posixpath.basename(path)
    if any(fnmatchcase(name, one) for one in INDEX_SETTINGS) and ADDRESS_WITH_PASSWORD.search(text):
        return "a password of a package index"
    return secret(path, text)


def secret_in_line(line: str) -> str | None:
    """What kind of secret a line of a configuration holds: a variable, or a step of the build."""
    text = line.encode("utf-8", "replace")
    if ADDRESS_WITH_PASSWORD.search(text):
        return "a password in an address"
    return secret("", text)


def secret_variables(variables: list[str]) -> Iterator[tuple[str, str]]:
    """Those of NAME=VALUE that hold a secret: the name, and what kind it is."""
    for variable in variables:
        name, _, value = variable.partition("=")
        named = value and not NO_SECRET.fullmatch(value) and SECRET_NAMES.search(name)
        if kind := secret_in_line(variable) or ("a secret by its name" if named else None):
            yield name, kind
