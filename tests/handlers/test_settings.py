"""serving.json, the `handler:` section and the environment, in that order of precedence."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from handlers import settings as theirs
from handlers.settings import CHOICES, ImageSettings, Options, Settings, SettingsError, TextSettings, TokenTypes
from marsmith.ground import serving as ours

SERVING: dict[str, Any] = {
    "format": 1,
    "name": "tiny",
    "version": "1.0",
    "precision": "fp32",
    "labels": ["no", "姓名"],
    "options": {"top_k": 3},
    "text": {"normalise": "tweet", "max_tokens": 40, "first_position": 2},
    "image": None,
}
IMAGE = {
    "size": [32, 48],
    "resample": 3,
    "rescale_factor": 0.5,
    "mean": [0.1, 0.2, 0.3],
    "std": [1.0, 2.0, 4.0],
    "shortest_edge": 36,
    "crop": [32, 48],
}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path)


def write(directory: Path, **keys: Any) -> Path:
    path = directory / "serving.json"
    path.write_text(json.dumps({**SERVING, **keys}, ensure_ascii=False), encoding="utf-8")
    return path


def test_the_file_is_read_whole(file: Path) -> None:
    assert Settings.load(file, None, {}) == Settings(
        name="tiny",
        version="1.0",
        labels=("no", "姓名"),
        precision="fp32",
        options=Options(top_k=3),
        text=TextSettings(normalise="tweet", max_tokens=40, first_position=2),
        image=None,
    )


def test_token_types_become_tuples(tmp_path: Path) -> None:
    text = {**SERVING["text"], "token_types": {"before": [0], "text": 1, "after": [1, 2]}, "truncation_side": "left"}
    read = Settings.load(write(tmp_path, text=text), None, {}).text
    assert read is not None
    assert read.token_types == TokenTypes((0,), 1, (1, 2))
    assert read.token_types.of(5) == [0, 1, 1, 1, 2]
    assert read.token_types.of(3) == [0, 1, 2]
    assert (read.truncation_side, read.split_special_tokens) == ("left", False)
    with pytest.raises(SettingsError, match="truncation_side is 'middle'"):
        Settings.load(write(tmp_path, text={**text, "truncation_side": "middle"}), None, {})


@pytest.mark.parametrize("name", ["TextSettings", "ImageSettings", "TokenTypes"])
def test_both_halves_have_the_same_schema(name: str) -> None:
    fields = {field.name: field for field in dataclasses.fields(getattr(theirs, name))}
    written = getattr(ours, name).model_fields
    assert list(fields) == list(written)
    for key, field in fields.items():
        assert (field.default is dataclasses.MISSING) == written[key].is_required()
        assert field.default is dataclasses.MISSING or field.default == written[key].default


@pytest.mark.parametrize("length", [3, 4, 9])
def test_both_halves_count_token_types_alike(length: int) -> None:
    keys: dict[str, Any] = {"before": (0,), "text": 1, "after": (1, 2)}
    assert TokenTypes(**keys).of(length) == ours.TokenTypes(**keys).of(length)


def test_lists_of_the_image_section_become_tuples(tmp_path: Path) -> None:
    assert Settings.load(write(tmp_path, text=None, image=IMAGE), None, {}).image == ImageSettings(
        size=(32, 48),
        resample=3,
        rescale_factor=0.5,
        mean=(0.1, 0.2, 0.3),
        std=(1.0, 2.0, 4.0),
        shortest_edge=36,
        crop=(32, 48),
    )


@pytest.mark.parametrize(
    ("section", "environ", "top_k"),
    [
        (None, {}, 3),
        ({}, {}, 3),
        ({"top_k": 7}, {}, 7),
        ({}, {"MARSMITH_TOP_K": "9"}, 9),
        ({"top_k": 7}, {"MARSMITH_TOP_K": "9"}, 9),
        ({"top_k": 7}, {"MARSMITH_THREADS": "2"}, 7),
        ({"top_k": "8"}, {}, 8),
        ({"top_k": 7}, {"MARSMITH_TOP_K": "1"}, 1),
    ],
)
def test_the_environment_beats_the_section_beats_the_file(
    file: Path, section: Any, environ: dict[str, str], top_k: int
) -> None:
    assert Settings.load(file, section, environ).options.top_k == top_k


def test_every_option_has_a_variable(file: Path) -> None:
    names = [
        "top_k",
        "threads",
        "max_instances",
        "max_text_bytes",
        "max_image_bytes",
        "max_pixels",
        "token_budget",
        "image_batch",
        "max_windows",
        "explain_runs",
        "work_ms",
    ]
    environ = {f"MARSMITH_{name.upper()}": str(100 + place) for place, name in enumerate(names)}
    options = Settings.load(
        file, None, {**environ, "MARSMITH_LONG_TEXT": "window", "MARSMITH_SHARE_WEIGHTS": "no"}
    ).options
    assert options == dataclasses.replace(Options(*range(100, 111)), long_text="window", share_weights="no")
    assert {field.name for field in dataclasses.fields(Options)} == {*names, *CHOICES}


def test_a_word_of_the_section_gives_way_to_one_of_the_environment(file: Path) -> None:
    assert Settings.load(file, {}, {}).options.long_text is None
    assert Settings.load(file, {"long_text": "error"}, {}).options.long_text == "error"
    environ = {"MARSMITH_LONG_TEXT": "window"}
    assert Settings.load(file, {"long_text": "error"}, environ).options.long_text == "window"


@pytest.mark.parametrize("value", ["", "cut", "WINDOW", " error", 1, None, True, ["error"]])
def test_a_word_must_be_one_of_its_choices(file: Path, value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(file, {"long_text": value}, {})
    assert str(caught.value) == (f"handler option long_text is {value!r}: set it to one of truncate, error, window")


@pytest.mark.parametrize(("written", "meant"), [("yes", "yes"), ("no", "no"), ("auto", "auto"), ("true", "yes")])
def test_words_that_yaml_takes_for_switches_are_meant_as_words(file: Path, written: str, meant: str) -> None:
    section = yaml.safe_load(f"handler:\n  share_weights: {written}\n")["handler"]
    assert Settings.load(file, section, {}).options.share_weights == meant


def test_archives_that_say_nothing_of_long_texts_cut_them(tmp_path: Path) -> None:
    """The file's format stays 1: those of earlier builds load as they did."""
    text = Settings.load(write(tmp_path), None, {}).text
    assert text is not None
    assert text.long_text == "truncate"
    changed = Settings.load(write(tmp_path, text={**SERVING["text"], "long_text": "window"}), None, {}).text
    assert changed is not None
    assert changed.long_text == "window"


def test_the_process_environment_is_read_by_default(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MARSMITH_IMAGE_BATCH", "2")
    assert Settings.load(file).options.image_batch == 2


def test_other_variables_are_nobodys_business(file: Path) -> None:
    environ = {"MARSMITH_WORKERS": "many", "MARSMITH_": "x", "TOP_K": "x", "marsmith_top_k": "x"}
    assert Settings.load(file, None, environ).options == Options(top_k=3)


def test_options_that_nobody_reads_are_refused(file: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(file, {"topk": 3, "batch": 1, "top_k": 2}, {})
    assert str(caught.value) == "model-config.yaml has handler options nobody reads: batch, topk"


@pytest.mark.parametrize("value", ["", "three", "-1", -1, 2.5, "1e3", None, True, [3], {"a": 1}])
def test_an_option_must_be_a_whole_number(file: Path, value: Any) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(file, {"top_k": value}, {})
    assert str(caught.value) == f"handler option top_k is {value!r}: set it to a whole number, 1 or more"


@pytest.mark.parametrize("value", ["", "three", "-1", "0", "2.5"])
def test_a_variable_must_be_a_whole_number(file: Path, value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(file, None, {"MARSMITH_MAX_PIXELS": value})
    assert str(caught.value) == f"MARSMITH_MAX_PIXELS is {value!r}: set it to a whole number, 1 or more"


def test_another_format_asks_for_a_new_build(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        Settings.load(write(tmp_path, format=2), None, {})
    assert str(caught.value) == "serving.json has format 2, these handlers read 1: build the archive again"


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'"text"',
        b"{}",
        json.dumps({**SERVING, "labels": None}).encode(),
        json.dumps({**SERVING, "options": None}).encode(),
        json.dumps({**SERVING, "options": {"topk": 1}}).encode(),
        json.dumps({**SERVING, "text": {"normalise": "tweet"}}).encode(),
        json.dumps({**SERVING, "text": {**SERVING["text"], "long_text": "cut"}}).encode(),
        json.dumps({**SERVING, "image": [1]}).encode(),
        json.dumps({key: value for key, value in SERVING.items() if key != "name"}).encode(),
    ],
    ids=lambda content: repr(content)[:20],
)
def test_a_file_that_cannot_be_used_is_one_sentence_with_the_remedy(tmp_path: Path, content: bytes | None) -> None:
    """pytorch/serve#1010, pytorch/serve#2030: fail at load, with the cause."""
    path = tmp_path / "serving.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=r"^serving\.json cannot be used \(.+\): build the archive again$"):
        Settings.load(path, None, {})


def test_torchserves_worker_reports_a_settings_error() -> None:
    """It answers RuntimeError and MemoryError at load; any other exception ends the worker without a word."""
    assert issubclass(SettingsError, RuntimeError)
