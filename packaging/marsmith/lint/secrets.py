"""M405: secrets, told by a file's name or content. A finding says what kind it is and never quotes it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase

from marsmith.lint.findings import Finding

# Matched against the name's last part in lower case.
FILES = {
    ".env": "settings of an environment, which are where passwords live",
    ".env.*": "settings of an environment, which are where passwords live",
    "id_rsa": "an SSH key",
    "id_dsa": "an SSH key",
    "id_ecdsa": "an SSH key",
    "id_ed25519": "an SSH key",
    "*.ppk": "an SSH key",
    "*.p12": "a key store",
    "*.pfx": "a key store",
    "*.jks": "a key store",
    "*.keystore": "a key store",
    ".netrc": "passwords of hosts",
    "_netrc": "passwords of hosts",
    ".pypirc": "a token of a package index",
    ".git-credentials": "passwords of repositories",
    ".htpasswd": "passwords",
    ".pgpass": "passwords of databases",
    "key_file.json": "TorchServe's tokens",
    "kubeconfig": "access to a cluster",
    "*.kubeconfig": "access to a cluster",
}
# Matched against the last two parts.
PATHS = {
    ".aws/credentials": "keys of an AWS account",
    ".aws/config": "keys of an AWS account",
    ".docker/config.json": "passwords of registries",
    ".kube/config": "access to a cluster",
    ".huggingface/token": "a Hugging Face token",
    "huggingface/token": "a Hugging Face token",
}
HARMLESS = ("*.example", "*.sample", "*.template", "*.dist")

# The issuers' own forms of their tokens: a prefix, then so many characters of one alphabet. Where words joined by
# hyphens would fit too, a digit is asked for, and of API keys a capital as well.
CONTENT = {
    "a private key": re.compile(
        rb"-----BEGIN (?:[A-Z0-9]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----(?:\s|\\[nr]){1,4}"
        rb"(?:[A-Za-z0-9+/]{16}|[A-Z][A-Za-z-]{2,20}: )"
    ),
    "an AWS access key": re.compile(rb"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    "an AWS secret key": re.compile(
        rb"(?i:aws_?secret_?(?:access_?)?key)[\"']?\s{0,8}[:=]\s{0,8}[\"']?[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+=])"
    ),
    "a Hugging Face token": re.compile(rb"\bhf_[A-Za-z0-9]{34,40}\b"),
    "a GitHub token": re.compile(rb"\b(?:gh[pousr]_[A-Za-z0-9]{36}|github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59})\b"),
    "a GitLab token": re.compile(rb"\bglpat-(?=[A-Za-z_-]{0,19}[0-9])[A-Za-z0-9_-]{20}\b"),
    "an API key": re.compile(
        rb"\bsk-(?=[A-Za-z_-]{0,99}[0-9])(?=[a-z0-9_-]{0,99}[A-Z])[A-Za-z0-9_-]{32,200}(?![A-Za-z0-9_-])"
    ),
    "a Slack token": re.compile(rb"\bxox[abeoprs]-(?=[A-Za-z-]{0,99}[0-9])[A-Za-z0-9-]{20,200}"),
    "a Google API key": re.compile(rb"\bAIza(?=[A-Za-z_-]{0,34}[0-9])[A-Za-z0-9_-]{35}\b"),
    "a PyPI token": re.compile(rb"\bpypi-AgEIcHlwaS5vcmc[A-Za-z0-9_-]{50,200}"),
}
# A token is random, and a placeholder such as hf_xxxx… is not: of its last characters, so many are different.
TAIL_BYTES, LEAST_DISTINCT = 16, 8
DOCUMENTED = b"EXAMPLE"  # in the keys of AWS's documentation


def lint_secret(name: str, text: bytes) -> Iterator[Finding]:
    """At most one finding about a file: `text` is its beginning, empty when it is no text."""
    if kind := secret(name, text):
        yield Finding(
            "M405",
            name,
            f"The file is or holds what looks like {kind}.",
            "Leave it out, and take the secret for known: replace it where it was issued.",
        )


def secret(name: str, text: bytes) -> str | None:
    """What kind of secret a file is by its name, or holds by its content; None for neither."""
    return _by_name(name) or _by_content(text)


def _by_name(name: str) -> str | None:
    parts = name.lower().split("/")
    if any(fnmatchcase(parts[-1], pattern) for pattern in HARMLESS):
        return None
    path = PATHS.get("/".join(parts[-2:]))
    return path or next((kind for pattern, kind in FILES.items() if fnmatchcase(parts[-1], pattern)), None)


def _by_content(text: bytes) -> str | None:
    for kind, pattern in CONTENT.items():
        if any(_is_random(match[0]) for match in pattern.finditer(text)):
            return kind
    return None


def _is_random(token: bytes) -> bool:
    return len(set(token[-TAIL_BYTES:])) >= LEAST_DISTINCT and DOCUMENTED not in token
