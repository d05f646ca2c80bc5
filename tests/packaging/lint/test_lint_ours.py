"""M5: Marsmith's own files, in archives that exist and in those about to be packed."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from marsmith.ground.serving import Options, Serving, TextSettings
from marsmith.lint import lint
from marsmith.lint.tree import Tree
from tests.packaging.lint.trees import MANIFEST, SOUND, codes, only, tree

SERVING = Serving(
    name="mine",
    version="1.0",
    precision="fp32",
    labels=["no", "yes"],
    options=Options(top_k=2),
    text=TextSettings(normalise="none", max_tokens=8, first_position=0),
).to_json()
OURS: dict[str, bytes | str] = {
    **SOUND,
    "MAR-INF/MANIFEST.json": json.dumps({**MANIFEST, "marsmith": {"version": "1"}}),
    "MAR-INF/digests.json": b"{}",
    "MAR-INF/golden.json": b'{"requests": [{"name": "text 1"}]}',
    "model/serving.json": SERVING,
}


def sealed(members: dict[str, bytes | str]) -> Tree:
    """As in an archive that exists."""
    packed = tree(members)
    return Tree(packed.names, packed.sizes, packed.read, sealed=True)


def without(name: str) -> dict[str, bytes | str]:
    return {key: value for key, value in OURS.items() if key != name}


def test_a_whole_archive_has_no_finding() -> None:
    assert lint(sealed(OURS)) == []


@pytest.mark.parametrize(
    ("name", "code"),
    [("MAR-INF/digests.json", "M503"), ("MAR-INF/golden.json", "M504"), ("model/serving.json", "M501")],
)
def test_what_an_archive_of_marsmith_lacks_is_found_only_when_it_is_whole(name: str, code: str) -> None:
    assert codes(lint(sealed(without(name)))) == [code]
    assert codes(lint(tree(without(name)))) == []


@pytest.mark.parametrize(
    "text", [b"", b"\xff", b"[]", b"[" * 10_000, b"{}", b'{"requests": []}', b'{"requests": {"a": 1}}']
)
def test_golden_requests_of_which_there_is_none_are_found(text: bytes) -> None:
    assert codes(lint(sealed({**OURS, "MAR-INF/golden.json": text}))) == ["M504"]


def test_an_archive_of_somebody_else_lacks_nothing() -> None:
    assert lint(sealed({**SOUND})) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value | {"format": 2},
        lambda value: value | {"labels": "no"},
        lambda value: value | {"surprise": 1},
        lambda value: {key: one for key, one in value.items() if key != "options"},
        lambda value: [value],
    ],
)
@pytest.mark.parametrize("whole", [sealed, tree])
def test_a_serving_json_that_is_not_valid_is_found(
    change: Callable[[dict[str, object]], object], whole: Callable[[dict[str, bytes | str]], Tree]
) -> None:
    changed = json.dumps(change(json.loads(SERVING)))
    assert codes(lint(whole({**OURS, "model/serving.json": changed}))) == ["M501"]


@pytest.mark.parametrize("text", [b"", b"\xff", b"{", b"[" * 10_000])
def test_a_serving_json_that_is_no_json_is_found(text: bytes) -> None:
    assert codes(lint(tree({**OURS, "model/serving.json": text}))) == ["M501"]


def test_the_finding_names_the_parts_and_quotes_none() -> None:
    changed = json.dumps(json.loads(SERVING) | {"precision": ["private words"]})
    finding = only(lint(tree({**OURS, "model/serving.json": changed})), "M501")
    assert "precision" in finding.message
    assert "private words" not in finding.message


def test_no_labels_are_found() -> None:
    changed = json.dumps(json.loads(SERVING) | {"labels": []})
    assert codes(lint(tree({**OURS, "model/serving.json": changed}))) == ["M502"]


def test_a_sample_too_large_for_the_handlers_is_too_large_for_lint() -> None:
    from handlers.settings import Options as HandlerOptions
    from marsmith.ground.limits import MAX_SAMPLE_BYTES

    assert HandlerOptions().max_image_bytes == MAX_SAMPLE_BYTES
    assert Path("model/serving.json").name == "serving.json"
