"""Whatever stands in a checkpoint's settings, it loads or is refused with one sentence, never with a traceback."""

import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from marsmith.errors import CheckpointError
from marsmith.network.image_reference import ImageReference
from marsmith.network.text_reference import TextReference
from marsmith.recipe.checkpoint import resolve
from marsmith.recipe.recipe import Recipe
from tests.tiny import food_checkpoint, sentiment_checkpoint, write_recipe

# A message repeats a value of the file, as far as `printable` shows it, and the path.
LONGEST_MESSAGE = 1_500
NESTED: Any = 1
for _ in range(200):
    NESTED = {"a": [NESTED]}
# A value of every type, where most keys are strings, numbers or switches.
VALUES: tuple[Any, ...] = (
    None,
    -1,
    3.5,
    True,
    "x" * 10_000,
    "nonsense",
    [],
    ["a", None],
    {},
    {"a": 1},
    NESTED,
    10**30,
    [[1]],
    0,
    "../x",
)
# Keys that a file of these tiny checkpoints need not have.
OTHER_KEYS = {
    "config.json": (
        *("return_dict", "num_labels", "problem_type", "attn_implementation", "output_hidden_states", "is_decoder"),
        *("id2label", "architectures", "conv_kernel_size", "is_encoder_decoder", "chunk_size_feed_forward"),
    ),
    "tokenizer_config.json": (
        *("truncation_side", "padding_side", "split_special_tokens", "model_max_length", "added_tokens_decoder"),
        *("extra_special_tokens", "model_input_names", "tokenizer_file", "vocab_file", "chat_template"),
    ),
    "preprocessor_config.json": ("crop_size", "do_center_crop", "crop_pct", "image_processor_type", "do_convert_rgb"),
}
FILES = {
    "config.json": "sentiment",
    "tokenizer_config.json": "sentiment",
    "preprocessor_config.json": "food",
}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return {
        "sentiment": sentiment_checkpoint(tmp_path_factory.mktemp("sentiment")),
        "food": food_checkpoint(tmp_path_factory.mktemp("food")),
    }


def load(directory: Path, task: str) -> str:
    """What a build does with a checkpoint before it exports it: "loads", or why not."""
    try:
        checkpoint = resolve(Recipe.load(write_recipe(directory, task=task)))
        reference: Any = ImageReference(checkpoint) if task == "food" else TextReference(checkpoint, "none")
        next(iter(reference.cases()))
        reference.preprocessing()
    except CheckpointError as error:
        return str(error)
    return "loads"


def changed(original: dict[str, Any], name: str, turn: int) -> Iterator[dict[str, Any]]:
    """The settings with one key of another value each, which turns with `turn`."""
    values = cycle((*VALUES[turn:], *VALUES[:turn]))
    for key in dict.fromkeys((*original, *OTHER_KEYS[name])):
        yield {**original, key: next(values)}


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")  # torch's, of a size that is 0
@pytest.mark.parametrize("turn", [0, 4, 9])
@pytest.mark.parametrize("name", FILES)
def test_a_value_of_another_type_is_one_sentence(checkpoints: dict[str, Path], name: str, turn: int) -> None:
    directory = checkpoints[FILES[name]]
    file = directory / name
    original = file.read_text()
    said = []
    try:
        for settings in changed(json.loads(original), name, turn):
            file.write_text(json.dumps(settings))
            said.append(load(directory, FILES[name]))
    finally:
        file.write_text(original)
    assert all("\n" not in one and len(one) < LONGEST_MESSAGE for one in said)
    assert any(one != "loads" for one in said)
    assert load(directory, FILES[name]) == "loads"


CONTENTS: dict[str, tuple[bytes, str]] = {
    "a byte order mark": (b"\xef\xbb\xbf{}", "is not valid JSON .*BOM"),
    "UTF-16": ("{}".encode("utf-16"), "is not UTF-8"),
    "Latin-1": ('{"a": "ü"}'.encode("latin-1"), "is not UTF-8"),
    "NaN": (b'{"a": NaN}', "is not valid JSON .NaN is not a JSON number"),
    "Infinity": (b'{"a": [-Infinity]}', "-Infinity is not a JSON number"),
    "a duplicate key": (b'{"a": 1, "b": {"c": 1, "c": 2}}', "duplicate key 'c'"),
    "half a pair of surrogates": (b'{"id2label": {"0": "\\ud800"}}', "is not UTF-8"),
    "a number of 5,000 digits": (b'{"a": ' + b"1" * 5_000 + b"}", "is not valid JSON"),
    "100,000 brackets": (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
    "60 brackets": (b'{"a": ' + b"[" * 60 + b"]" * 60 + b"}", "nested too deeply"),
    "a list": (b"[]", "is not a JSON object"),
    "null": (b"null", "is not a JSON object"),
    "half of it": (b'{"architectures": ["Bert', "is not valid JSON"),
    "nothing": (b"", "is an empty file: download or copy it again"),
    "a Git LFS pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n", "run git lfs pull"),
    "a page": (b"<!DOCTYPE html><html><body>404</body></html>", "is an HTML page"),
    "a server's message": (b'{"error": "Repository not found"}', "is a JSON error message of a server"),
}


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "model.safetensors.index.json"])
@pytest.mark.parametrize("kind", CONTENTS)
def test_a_file_that_is_no_plain_json_object_is_one_sentence(tmp_path: Path, name: str, kind: str) -> None:
    for file in ("config.json", "tokenizer_config.json", "tokenizer.json"):
        (tmp_path / file).write_text(
            '{"architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b"}}'
        )
    content, says = CONTENTS[kind]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{name} .*{says}") as raised:
        resolve(Recipe.load(write_recipe(tmp_path)))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"architectures": 7}, "architectures is 7, but architectures must be a list of class names"),
        ({"architectures": [7]}, "architectures must be a list of class names"),
        ({"id2label": ["a", "b"]}, "id2label must be an object of labels by number"),
        ({"id2label": {"0": {"a": 1}, "1": "b"}}, "each label must be a string"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000, but a network has 1,000 at most"),
        ({"num_labels": 10**9}, "num_labels is 1000000000, but a network has 1,000,000 at most"),
        ({"model_type": "no such family"}, "The model of .* cannot be loaded: .*no such family"),
        ({"hidden_size": 7}, "The model of .* cannot be loaded"),
        (
            {"max_position_embeddings": 2},
            "The model reads 2 tokens at once, and no text fits|cannot be loaded|lacks weights",
        ),
    ],
)
def test_config_json_is_refused_by_its_key(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    file = sentiment_checkpoint(tmp_path) / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    with pytest.raises(CheckpointError, match=says) as raised:
        TextReference(resolve(Recipe.load(write_recipe(tmp_path))), "none")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("kind", ["text", "image"])
def test_a_checkpoint_that_would_answer_with_a_tuple_answers_as_any_other(tmp_path: Path, kind: str) -> None:
    directory = sentiment_checkpoint(tmp_path) if kind == "text" else food_checkpoint(tmp_path)
    file = directory / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "return_dict": False}))
    assert load(directory, "sentiment" if kind == "text" else "food") == "loads"


@pytest.mark.parametrize(
    "content", [b"{}", b'{"model": 7}', b"[" * 100_000, b'{"version": "1.0", "model": {"type": "WordPiece"}}']
)
def test_a_tokenizer_that_is_none_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    sentiment_checkpoint(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(content)
    assert "tokenizer of" in load(tmp_path, "sentiment")
