"""M3: requirements.txt."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marsmith.lint.requirements import lines
from tests.packaging.lint.trees import codes, lint_with, only


def with_requirements(text: str, **members: str) -> list[str]:
    return codes(lint_with({"requirements.txt": text, **members}))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n\n   \n",
        "numpy==2.4.6 # why\n",
        "numpy===2.4.6",
        "uvicorn[standard]==0.30.0",
        'tomli==2.0 ; python_version < "3.11"',
        "numpy==2.4.6 \\\n  --hash=sha256:aa \\\n  --hash=sha256:bb\n",
        'numpy==1.26 ; python_version < "3.12"\nnumpy==2.4.6 ; python_version >= "3.12"\n',
    ],
)
def test_pinned_requirements_have_no_finding(text: str) -> None:
    assert with_requirements(text) == []


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("numpy==", "M301"),
        ("numpy 2.4.6", "M301"),
        ("== 1", "M301"),
        ("!!!", "M301"),
        ("--no-such-option", "M301"),
        ("-r absent.txt", "M301"),
        ("./wheels/absent.whl", "M301"),
        ("import numpy", "M301"),
        ("a; " + "(" * 5000, "M301"),
        ("-e .", "M302"),
        ("--index-url https://example.org/index", "M302"),
        ("--extra-index-url=https://example.org/index", "M302"),
        ("-r more.txt", "M302"),
        ("./wheels/mine.whl", "M302"),
        ("https://example.org/mine.whl", "M302"),
        ("git+https://example.org/mine.git", "M302"),
        ("mine @ https://example.org/mine.whl", "M302"),
        ("numpy", "M303"),
        ("numpy>=2", "M303"),
        ("numpy==2.*", "M303"),
        ("numpy==2.4.6,!=2.4.5", "M303"),
        ("torch==2.13.0", "M304"),
        ("Torch", "M304"),
        ("torchvision==0.28.0", "M304"),
        ("torchserve", "M304"),
        ("torch_model_archiver==0.12.0", "M304"),
        ("nvidia-cublas-cu12==12.1", "M304"),
    ],
)
def test_a_line_that_pip_or_production_would_stumble_over_is_found(line: str, code: str) -> None:
    """pytorch/serve#2238: torch is downloaded again.

    pytorch/serve#751, pytorch/serve#2713: pip fails and TorchServe does not say why.
    """
    findings = lint_with({"requirements.txt": f"# first\n{line}\n", "more.txt": "", "wheels/mine.whl": "PK"})
    assert codes(findings) == [code]
    assert only(findings, code).where == "requirements.txt:2"


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("numpy==1.0\nNumPy==2.0\n", "M305"),
        ("a-b==1.0\na_b>=2\n", "M305"),
        ("a===odd\na==1.0\n", "M305"),
        ("numpy==1.0\nnumpy==1.0\n", "M306"),
        ("numpy==1.5\nnumpy>=1\n", "M306"),
    ],
)
def test_a_package_that_stands_twice_is_found(text: str, code: str) -> None:
    findings = lint_with({"requirements.txt": text})
    assert code in codes(findings)
    assert "lines 1, 2" in only(findings, code).message


def test_a_password_in_a_line_is_not_repeated() -> None:
    lines_ = "--index-url https://user:hunter2@example.org\nhttps://user:hunter2@example.org/a.whl\n--odd hunter2\n"
    findings = lint_with({"requirements.txt": lines_})
    assert len(findings) == 3
    assert not any("hunter2" in f"{one.where}{one.message}{one.remedy}" for one in findings)


def test_requirements_that_the_manifest_does_not_name_are_never_installed() -> None:
    """pytorch/serve#1130, pytorch/serve#970, pytorch/serve#1168."""
    assert codes(lint_with({}, requirementsFile=None)) == ["M307"]


def test_a_file_that_is_no_text_is_found() -> None:
    assert codes(lint_with({"requirements.txt": b"\xff\xfen\0u"})) == ["M301"]
    assert codes(lint_with({"requirements.txt": b"numpy\xe9==1.0"})) == ["M301"]


def test_continued_lines_are_numbered_by_their_first() -> None:
    found = list(lines("# c\nnumpy==1 \\\n --hash=sha256:a\n\npillow==2\n"))
    assert [(line.number, line.requirement and line.requirement.name) for line in found] == [
        (2, "numpy"),
        (5, "pillow"),
    ]


@settings(deadline=None)
@given(st.text(max_size=80))
def test_any_text_is_judged_without_a_crash(text: str) -> None:
    found = codes(lint_with({"requirements.txt": text.encode("utf-8", "replace")}))
    assert all(code.startswith(("M3", "M406")) for code in found)
