"""M2: model-config.yaml."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from marsmith.lint import lint
from marsmith.lint.config import INTEGERS, KEYS, MAX_INTEGER
from tests.packaging.lint.trees import CONFIG, SOUND, codes, lint_with, manifest, only, tree


def with_config(**values: Any) -> list[str]:
    """The codes for the sound configuration with other values; None takes a key out."""
    config = {key: value for key, value in {**CONFIG, **values}.items() if value is not None}
    return codes(lint_with({"model-config.yaml": json.dumps(config)}))


def test_no_configuration_at_all_is_a_warning() -> None:
    """pytorch/serve#2432: then there are as many workers as cores."""
    without = {name: content for name, content in SOUND.items() if name != "model-config.yaml"}
    assert codes(lint(tree({**without, "MAR-INF/MANIFEST.json": manifest(configFile=None)}))) == ["M201"]


def test_a_configuration_that_the_manifest_does_not_name_is_an_error() -> None:
    assert codes(lint_with({}, configFile=None)) == ["M202"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing but a comment\n",
        "- minWorkers: 1",
        "minWorkers",
        "8",
        "minWorkers: [",
        "a: 1\n\tb: 2",
        "1: x",
        "yes: 1",
        "a: &x [*x, *y]",
        "a: !!python/object:os.system {}",
        "a: 2026-99-99",
        "? [a]\n: 1",
        "a: 1\n---\nb: 2",
        "[" * 5_000,
        "a: " + "9" * 5_000,
        "x: &x [a]\ny: [" + "*x, " * 60 + "]",
        b"\xff",
        b"\x00",
    ],
)
def test_what_torchserve_cannot_read_is_found(text: str | bytes) -> None:
    """An empty file ends the registration with a NullPointerException; a worker dies of what PyYAML does not take."""
    assert codes(lint_with({"model-config.yaml": text})) == ["M203"]


def test_a_bomb_of_merged_aliases_is_refused_before_it_grows() -> None:
    levels = "\n".join(f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}]}}" for n in range(1, 40))
    assert codes(lint_with({"model-config.yaml": f"a0: &a0 {{k: 1}}\n{levels}\n"})) == ["M203"]


def test_an_alias_and_a_merge_are_fine() -> None:
    text = "defaults: &d {top_k: 1}\nhandler: {<<: *d, top_k: 2}\n" + yaml.safe_dump(CONFIG)
    findings = lint_with({"model-config.yaml": text})
    assert codes(findings) == ["M206"]
    assert only(findings, "M206").where == "model-config.yaml: defaults"


def test_a_key_that_stands_twice_is_named_with_its_line() -> None:
    text = json.dumps({**CONFIG, "handler": {}})[:-3] + '{"top_k": 1,\n "top_k": 2}}'
    finding = only(lint_with({"model-config.yaml": text}), "M204")
    assert finding.where == "model-config.yaml:2"
    assert "top_k" in finding.message


@pytest.mark.parametrize("key", ["batch_size", "BatchSize", "batchsize", "BATCH_SIZE", "batch-size"])
def test_another_spelling_of_a_key_is_an_error(key: str) -> None:
    """pytorch/serve#2365, pytorch/serve#64, pytorch/serve#1955: TorchServe ignores it without a word."""
    findings = lint_with({"model-config.yaml": json.dumps({**CONFIG, key: 8})})
    assert codes(findings) == ["M205"]
    assert only(findings, "M205").remedy == "Write batchSize."


def test_an_unknown_key_is_a_warning_that_may_guess() -> None:
    findings = lint_with({"model-config.yaml": json.dumps({**CONFIG, "batchSizes": 8, "labels": ["a"]})})
    remedies = {one.where.rpartition(" ")[2]: one.remedy for one in findings if one.code == "M206"}
    assert remedies["batchSizes"] == "Did you mean batchSize?"
    assert "under handler:" in remedies["labels"]


@pytest.mark.parametrize("value", ["8", 8.0, True, [], {}])
@pytest.mark.parametrize("key", INTEGERS)
def test_a_whole_number_of_another_type_is_ignored_by_torchserve(key: str, value: object) -> None:
    assert "M207" in with_config(**{key: value})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("useVenv", "true"),
        ("useJobTicket", 1),
        ("deviceType", 1),
        ("deviceIds", 0),
        ("deviceIds", ["0"]),
        ("deviceIds", [True]),
        ("handler", "x"),
        ("handler", []),
        ("torchrun", 2),
        ("pt2", 2),
    ],
)
def test_a_value_of_another_type_is_found(key: str, value: object) -> None:
    assert with_config(**{key: value}) == ["M207"]


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("batchSize", "Make it a whole number without quotes or point."),
        ("useVenv", "Make it true or false."),
        ("deviceType", "Make it a text."),
        ("deviceIds", "Make it a list of whole numbers."),
        ("handler", "Make it a section with keys of its own."),
        ("pt2", "Make it a text or a section."),
    ],
)
def test_the_remedy_names_the_type_that_is_wanted(key: str, remedy: str) -> None:
    findings = lint_with({"model-config.yaml": json.dumps({**CONFIG, key: 1.5})})
    assert only(findings, "M207").remedy == remedy


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("useVenv", False),
        ("deviceType", "CPU"),
        ("parallelType", "pp"),
        ("deviceIds", [0, 1]),
        ("handler", {"top_k": 5}),
        ("micro_batching", {"micro_batch_size": 4}),
        ("torchrun", {"nproc-per-node": 2}),
        ("pippy", {"chunks": 1}),
        ("pt2", "inductor"),
        ("pt2", {"compile": {"enable": True}}),
        ("clientTimeoutInMills", 0),
        ("maxRetryTimeoutInSec", 0),
    ],
)
def test_what_torchserve_and_its_handlers_know_is_fine(key: str, value: object) -> None:
    assert with_config(**{key: value}) == []


@pytest.mark.parametrize("key", INTEGERS)
def test_a_number_out_of_range_is_found_and_the_least_one_is_fine(key: str) -> None:
    """maxBatchDelay: 0 is read as 100 milliseconds."""
    both = {"minWorkers": INTEGERS[key], "maxWorkers": INTEGERS[key]} if key.endswith("Workers") else {}
    assert with_config(**{**both, key: INTEGERS[key]}) == []
    assert "M208" in with_config(**{key: INTEGERS[key] - 1})
    assert "M208" in with_config(**{key: MAX_INTEGER + 1})


@pytest.mark.parametrize(("key", "value"), [("deviceType", "tpu"), ("parallelType", "dp")])
def test_a_choice_that_torchserve_does_not_know_is_found(key: str, value: str) -> None:
    assert with_config(**{key: value}) == ["M208"]


@pytest.mark.parametrize(
    ("least", "most", "expected"),
    [(4, 2, ["M209"]), (1, None, ["M209"]), (None, 1, ["M209"]), (1, 4, ["M210"]), (2, 2, []), (None, None, ["M211"])],
)
def test_workers_must_fit_together(least: int | None, most: int | None, expected: list[str]) -> None:
    """pytorch/serve#2038: min above max, or one without the other, is ignored.

    pytorch/serve#3339: there is no scaling by load.
    """
    assert with_config(minWorkers=least, maxWorkers=most) == expected


def test_keys_left_to_defaults_are_named_in_one_warning() -> None:
    """pytorch/serve#1591, pytorch/serve#2851: which default holds depends on who registers the model."""
    findings = lint_with({"model-config.yaml": json.dumps({"minWorkers": 1, "maxWorkers": 1, "batchSize": 2})})
    assert codes(findings) == ["M211"]
    assert only(findings, "M211").message.endswith(": maxBatchDelay, responseTimeout, startupTimeout.")


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=12), JSON_VALUES, max_size=8))
def test_any_mapping_is_judged_without_a_crash(config: dict[str, Any]) -> None:
    found = codes(lint_with({"model-config.yaml": json.dumps(config)}))
    assert all(code.startswith("M2") for code in found)


@settings(deadline=None)
@given(st.text(max_size=60) | st.binary(max_size=60))
def test_any_text_is_judged_without_a_crash(text: str | bytes) -> None:
    found = codes(lint_with({"model-config.yaml": text.encode("utf-8", "replace") if isinstance(text, str) else text}))
    assert all(code.startswith(("M2", "M406")) for code in found)
