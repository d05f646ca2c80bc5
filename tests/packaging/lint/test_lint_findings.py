"""The table of rules, and what a finding may say."""

import re
from pathlib import Path

import pytest

from marsmith.errors import LintError
from marsmith.ground.untrusted import MAX_SHOWN_CHARACTERS
from marsmith.lint.findings import RULES, Finding, refuse, rules_table

ROOT = Path(__file__).parents[3]
SOURCES = sorted((ROOT / "packaging/marsmith/lint").glob("*.py"))

ERROR = Finding("M103", "handler.py:3", "It does not compile.", "Correct it.")
WARNING = Finding("M406", "a.pkl", "It is a pickle.", "Use JSON.")


def test_the_rules_stand_in_the_order_of_their_codes() -> None:
    assert list(RULES) == sorted(RULES)
    assert all(re.fullmatch(r"M\d{3}", code) for code in RULES)


def test_the_readme_holds_the_table_of_the_rules() -> None:
    assert rules_table() in (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_table_has_a_row_for_each_rule_and_no_cell_too_many() -> None:
    head, line, *rows = rules_table().splitlines()
    assert head == "| code | severity | finding |"
    assert line == "|--|--|--|"
    assert [row.split(" | ")[0].removeprefix("| ") for row in rows] == list(RULES)
    assert all(row.count("|") == 4 for row in rows)


def test_every_rule_is_found_somewhere_and_every_code_is_a_rule() -> None:
    text = "".join(file.read_text(encoding="utf-8") for file in SOURCES if file.name != "findings.py")
    assert set(re.findall(r'"(M\d{3})"', text)) == set(RULES)


def test_refuse_names_each_error_with_its_place_and_remedy() -> None:
    with pytest.raises(LintError, match=r"M103 handler\.py:3: It does not compile\. Correct it\.") as caught:
        refuse([WARNING, ERROR], "The archive of mine")
    assert str(caught.value).startswith("The archive of mine would not serve as it should. M")
    assert "M406" not in str(caught.value)


def test_refuse_says_how_many_more_there_are() -> None:
    with pytest.raises(LintError, match=r"M103 .* M103 .* M103 .* And 2 more\.$"):
        refuse([ERROR] * 5, "The archive of mine")


def test_warnings_alone_are_not_refused() -> None:
    refuse([WARNING], "The archive of mine")


def test_a_finding_shows_nothing_that_could_move_a_terminals_cursor() -> None:
    finding = Finding("M401", "a\x1b[2Jb\n.py", "The name \udc80 is odd.", "Rename it.")
    assert finding.where == "a\\x1b[2Jb\\n.py"
    assert finding.message == "The name \\udc80 is odd."
    assert Finding("M401", "姓名 é.py", "", "").where == "姓名 é.py"


def test_a_finding_shows_only_the_beginning_of_an_endless_name() -> None:
    assert Finding("M401", "a" * 10_000, "", "").where == "a" * MAX_SHOWN_CHARACTERS + "…"
