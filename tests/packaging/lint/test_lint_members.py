"""M4: names, doubles, sizes and leftovers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from marsmith.ground.limits import MAX_MEMBERS, MAX_TEXT_BYTES, MAX_TOTAL_BYTES, MAX_YAML_BYTES
from marsmith.ground.names import unsafe
from marsmith.lint import lint
from marsmith.lint.findings import RULES
from marsmith.lint.members import lint_members
from marsmith.lint.tree import Tree
from tests.packaging.lint.trees import codes, lint_with, only


def of_names(*names: str) -> Tree:
    return Tree(names, dict.fromkeys(names, 0), lambda name, count: b"")


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd",
        "../evil.py",
        "a/../../b",
        "a\\b.py",
        "C:/a.py",
        "c:a.py",
        "",
        "/",
        "//",
        "a//b.py",
        "./a.py",
        "a/./b.py",
        "a\nb.py",
        "a\x00.py",
        "a\x7f.py",
        "a\u2028b.py",
        "a\udcff.py",
        "é" * 128,
    ],
)
def test_a_name_that_no_archive_should_hold_is_found(name: str) -> None:
    assert "M401" in codes(lint_members(of_names(name)))


@pytest.mark.parametrize("name", ["a.py", "model/a b.txt", "model/", "姓名/é.json", "..a/b..c", "a" * 255, "ab:c"])
def test_an_odd_name_that_unpacks_as_it_is_is_fine(name: str) -> None:
    assert unsafe(name) is None


def test_a_doubled_member_is_found_once_with_its_number() -> None:
    finding = only(lint_members(of_names("a.py", "b.py", "a.py", "a.py")), "M402")
    assert (finding.where, "3 members" in finding.message) == ("a.py", True)


@pytest.mark.parametrize("names", [("a", "a/b"), ("a/b/c", "a/b"), ("a", "a/")])
def test_a_name_that_is_a_file_and_a_folder_is_found(names: tuple[str, ...]) -> None:
    assert codes(lint_members(of_names(*names))) == ["M403"]


@pytest.mark.parametrize(
    "names", [("Model.py", "model.py"), ("A/b.json", "a/B.json"), ("é.txt", "e\u0301.txt"), ("ß.txt", "SS.txt")]
)
def test_names_that_only_some_file_systems_tell_apart_are_a_warning(names: tuple[str, ...]) -> None:
    finding = only(lint_members(of_names(*names)), "M404")
    assert finding.where == names[1]
    assert names[0] in finding.message


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("handlers/__pycache__/a.cpython-311.pyc", "handlers/__pycache__"),
        (".git/objects/ab/cdef", ".git"),
        ("model/.DS_Store", "model/.DS_Store"),
        ("__MACOSX/._a", "__MACOSX"),
        (".ipynb_checkpoints/a.ipynb", ".ipynb_checkpoints"),
        ("old.pyc", "old.pyc"),
    ],
)
def test_a_leftover_is_a_warning(name: str, where: str) -> None:
    assert only(lint_members(of_names(name, "a.py")), "M407").where == where


def test_a_folder_of_leftovers_is_one_warning() -> None:
    names = [f".git/objects/{number}" for number in range(50)]
    assert [one.where for one in lint_members(of_names(*names))] == [".git"]


def test_more_bytes_than_verify_accepts_are_found() -> None:
    tree = Tree(["a", "b"], {"a": MAX_TOTAL_BYTES, "b": 1}, lambda name, count: b"")
    assert codes(lint_members(tree)) == ["M408"]
    assert codes(lint_members(Tree(["a"], {"a": MAX_TOTAL_BYTES}, lambda name, count: b""))) == []


def test_of_too_many_members_nothing_else_is_said() -> None:
    def read(name: str, count: int) -> bytes:
        raise AssertionError("nothing is read")

    names = [f"../{number}" for number in range(MAX_MEMBERS + 1)]
    assert codes(lint(Tree(names, dict.fromkeys(names, 0), read))) == ["M408"]


def test_as_many_members_as_verify_accepts_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("marsmith.lint.members.MAX_MEMBERS", 2)
    assert codes(lint_members(of_names("a", "../b"))) == ["M401"]
    assert codes(lint_members(of_names("a", "../b", "c"))) == ["M408"]


@pytest.mark.parametrize(
    ("name", "size", "expected"),
    [
        ("big.py", MAX_TEXT_BYTES, []),
        ("big.py", MAX_TEXT_BYTES + 1, ["M409"]),
        ("big.yaml", MAX_YAML_BYTES + 1, ["M409"]),
        ("big.onnx", MAX_TEXT_BYTES + 1, []),
    ],
)
def test_a_text_too_large_to_be_parsed_is_a_warning(name: str, size: int, expected: list[str]) -> None:
    assert codes(lint_with({name: b"#" * size})) == expected


def test_a_configuration_too_large_to_be_parsed_is_a_warning() -> None:
    assert codes(lint_with({"model-config.yaml": "#" * (MAX_YAML_BYTES + 1)})) == ["M409"]
    assert codes(lint_with({"model-config.yaml": "#" * MAX_YAML_BYTES})) == ["M203"]


def test_code_too_large_to_be_parsed_is_not_judged_by_its_beginning() -> None:
    assert codes(lint_with({"big.py": "x = (" + "\n" * MAX_TEXT_BYTES + ")"})) == ["M409"]
    assert codes(lint_with({"big.py": "x = (" + "\n" * (MAX_TEXT_BYTES - 5)})) == ["M103"]


NAMES = st.text(alphabet=st.sampled_from("aA/.\\ :\0é\udc80"), max_size=8) | st.text(max_size=8)


@settings(deadline=None)
@given(st.dictionaries(NAMES, st.binary(max_size=40), max_size=6), st.booleans())
def test_any_members_are_judged_without_a_crash(members: dict[str, bytes], doubled: bool) -> None:
    sizes = {name: len(content) for name, content in members.items()}
    tree = Tree([*members] * (1 + doubled), sizes, lambda name, count: members[name][:count])
    findings = lint(tree)
    assert {one.code for one in findings} <= RULES.keys()
    assert all("".join((one.where, one.message, one.remedy)).isprintable() for one in findings)
    assert findings == sorted(findings, key=lambda one: (one.code, one.where, one.message))
