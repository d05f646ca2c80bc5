"""Secrets are found by name and by content, and never repeated. The tokens here were made up by a dice."""

import random
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.packaging.lint.trees import SOUND, codes, lint_with, only

LETTERS = string.ascii_letters + string.digits
DICE = random.Random(20)


def thrown(count: int, alphabet: str = LETTERS) -> str:
    return "".join(DICE.choice(alphabet) for _ in range(count - 2)) + "A7"


# Put together here, so that no scanner takes this file for a leak.
TOKENS = {
    "a private key": "-----BEGIN " + "PRIVATE KEY-----\n" + thrown(64) + "\n",
    "a private key, RSA": "-----BEGIN RSA " + "PRIVATE KEY-----\r\n" + thrown(64),
    "a private key, encrypted": "-----BEGIN RSA " + "PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n",
    "a private key, OpenSSH": "-----BEGIN OPENSSH " + "PRIVATE KEY-----\n" + thrown(64),
    "a private key, PGP": "-----BEGIN PGP " + "PRIVATE KEY BLOCK-----\n\nVersion: 1\n",
    "a private key, Google's JSON": '"private_key": "-----BEGIN ' + "PRIVATE KEY-----\\n" + thrown(64) + '\\n"',
    "an AWS access key": "AKIA" + thrown(16, string.ascii_uppercase + string.digits),
    "an AWS secret key": "aws_secret_access_key = " + thrown(40),
    "an AWS secret key, JSON": '"AWSSecretAccessKey": "' + thrown(40) + '"',
    "a Hugging Face token": "hf_" + thrown(34),
    "a GitHub token": "ghp_" + thrown(36),
    "a GitHub token, new": "github_pat_" + thrown(22) + "_" + thrown(59),
    "a GitLab token": "glpat-" + thrown(20),
    "an API key": "sk-" + thrown(48),
    "an API key, project": "sk-proj-" + thrown(80),
    "a Slack token": "xoxb-" + thrown(12, string.digits) + "-" + thrown(24),
    "a Google API key": "AIza" + thrown(35),
    "a PyPI token": "pypi-" + "AgEIcHlwaS5vcmc" + thrown(100),
}


@pytest.mark.parametrize("kind", TOKENS)
@pytest.mark.parametrize("member", ["model/notes.txt", "settings.json", "LICENSE"])
def test_a_secret_in_a_text_is_found_and_not_repeated(kind: str, member: str) -> None:
    token = TOKENS[kind]
    finding = only(lint_with({member: f"first line\nvalue: {token}\nlast line\n"}), "M405")
    assert kind.partition(",")[0] in finding.message
    assert token[:20] not in finding.message + finding.remedy


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN PRIVATE KEY-----",
        'HEADER = "-----BEGIN RSA PRIVATE KEY-----"\n',
        "-----BEGIN PUBLIC KEY-----\n" + "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A" * 2,
        "-----BEGIN CERTIFICATE-----\n" + "MIIBIjANBgkqhkiG9w0BAQEFAAOCAQ8A" * 2,
        "AKIAIOSFODNN7EXAMPLE",
        "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
        "aws_secret_access_key = os.environ['AWS_SECRET_ACCESS_KEY']",
        "hf_" + "x" * 34,
        "hf_hub_download_and_cache_the_whole_snapshot",
        "sk-learn-is-a-machine-learning-library-for-python",
        "sk-" + "0" * 48,
        "xoxb-your-token-goes-here-please-and-thanks",
        "risk-assessment-of-the-whole-portfolio-Q3-2026",
        "ghp_" + "0" * 36,
        "AKIA" + "X" * 16,
        "task-1A2b3C4d5E6f7G8h9I0j1K2l3M4n5O6p7Q8r",
    ],
)
def test_what_only_looks_like_a_secret_is_left_alone(text: str) -> None:
    assert codes(lint_with({"model/notes.txt": text})) == []


@pytest.mark.parametrize(
    "name",
    [
        ".env",
        "model/.env.production",
        "id_rsa",
        ".ssh/id_ed25519",
        ".netrc",
        ".pypirc",
        ".aws/credentials",
        "home/.docker/config.json",
        "key_file.json",
        "kubeconfig",
        "prod.kubeconfig",
        ".kube/config",
        "cert.p12",
        "ID_RSA",
        ".git-credentials",
    ],
)
def test_a_file_that_is_a_secret_by_its_name_is_found(name: str) -> None:
    assert "M405" in codes(lint_with({name: "anything"}))


@pytest.mark.parametrize(
    "name",
    [".env.example", "environment.py", "model/config.json", "cert.pem", "public.key", "id_rsa.pub", "credentials.md"],
)
def test_a_name_that_is_only_close_is_left_alone(name: str) -> None:
    assert codes(lint_with({name: "x = 1\n"})) == []


@pytest.mark.parametrize("name", ["server.pem", "server.key"])
def test_a_pem_file_is_judged_by_what_it_holds(name: str) -> None:
    assert codes(lint_with({name: TOKENS["a private key"]})) == ["M405"]


def test_the_whole_first_mebibyte_of_a_text_is_searched() -> None:
    token = TOKENS["a Hugging Face token"]
    assert codes(lint_with({"vocabulary.txt": "word\n" * 200_000 + token + "\n"})) == ["M405"]


def test_binary_weights_are_not_searched() -> None:
    token = TOKENS["a Hugging Face token"].encode()
    assert codes(lint_with({"model.weights": b"\0" * 100 + token})) == []


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_random_bytes_are_no_secret(data: bytes) -> None:
    assert "M405" not in codes(lint_with({"model/data": data}))


def test_the_sound_archive_holds_none() -> None:
    assert codes(lint_with(SOUND)) == []
