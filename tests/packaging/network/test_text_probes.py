"""The tokens that the handlers feed the network are those of the checkpoint's own tokenizer, or it is refused."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import processors
from transformers import (
    AutoModelForSequenceClassification,
    AutoTokenizer,
    PreTrainedTokenizerFast,
)

from handlers.batching import run_in_batches
from handlers.engine import Engine
from handlers.settings import Settings
from handlers.text import TextEncoder
from marsmith.builder import build
from marsmith.errors import CheckpointError
from marsmith.ground.serving import LongText
from marsmith.mar.members import SERVING
from marsmith.mar.reader import read_json
from marsmith.network.choose import TOLERANCE
from marsmith.network.export import GRAPH
from marsmith.network.prepared import asking as asking_packed
from marsmith.network.text_probes import check_texts
from marsmith.network.text_reference import TextReference
from marsmith.recipe.checkpoint import resolve
from marsmith.recipe.recipe import Recipe
from marsmith.resources import handlers_tree
from tests.packaging.preprocessing import asking
from tests.tiny import BERT_SPECIAL, MAX_TOKENS, sentiment_checkpoint, write_recipe

LONG = " ".join(f"day {number} of the great coffee" for number in range(400))
BERT_ENDS = [("[CLS]", 2), ("[SEP]", 3)]


def configure_tokenizer(directory: Path, **settings: Any) -> None:
    file = directory / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))


def give_types(directory: Path, template: str) -> None:
    """Put a tokenizer of BERT's vocabulary, which makes other token types than 0, in the place of the family's own."""
    backend = AutoTokenizer.from_pretrained(directory, trust_remote_code=False).backend_tokenizer
    backend.post_processor = processors.TemplateProcessing(single=template, special_tokens=BERT_ENDS)
    names = dict(
        zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), BERT_SPECIAL, strict=True),
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )
    PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=MAX_TOKENS, **names).save_pretrained(directory)


def text_reference(directory: Path, long_text: LongText = "truncate") -> TextReference:
    return TextReference(resolve(Recipe.load(write_recipe(directory))), "none", long_text)


def checked(reference: TextReference, directory: Path) -> Path:
    """The model/ directory of an archive, whose handlers make the tokens that the checkpoint's tokenizer does."""
    check_texts(reference, asking(directory, reference.settings, reference.preprocessing()))
    return directory


def encoded(model_dir: Path, text: str, max_windows: int = 32) -> list[list[int]]:
    settings = Settings.load(model_dir / "serving.json", environ={}).text
    assert settings is not None
    return TextEncoder.of(model_dir, settings, settings.long_text, max_windows).encode(text).windows


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "t5"])
@pytest.mark.parametrize("long_text", ["truncate", "window"])
def test_a_tokenizer_that_keeps_the_end_of_a_text(tmp_path: Path, family: str, long_text: LongText) -> None:
    configure_tokenizer(sentiment_checkpoint(tmp_path, family), truncation_side="left")
    reference = text_reference(tmp_path, long_text)
    windows = encoded(checked(reference, tmp_path / "model"), LONG)
    expected = reference.tokenizer(LONG, truncation=True, max_length=MAX_TOKENS)["input_ids"]
    assert (
        expected
        != AutoTokenizer.from_pretrained(tmp_path, truncation_side="right", trust_remote_code=False)(
            LONG, truncation=True, max_length=MAX_TOKENS
        )["input_ids"]
    )
    assert windows[-1] == expected
    # In the order of the text, the last of them its end: together they are the end of all its tokens.
    special = reference.tokenizer.num_special_tokens_to_add()
    every = reference.tokenizer(LONG, add_special_tokens=False)["input_ids"]
    before = 1 if family != "t5" else 0
    inner = [token for window in windows for token in window[before : len(window) - special + before]]
    assert inner == every[len(every) - len(inner) :]
    assert len(windows) == (1 if long_text == "truncate" else 32)


def test_a_text_that_fits_is_whole_whichever_end_is_kept(tmp_path: Path) -> None:
    configure_tokenizer(sentiment_checkpoint(tmp_path), truncation_side="left")
    model_dir = checked(text_reference(tmp_path), tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, trust_remote_code=False)
    assert encoded(model_dir, "a great day") == [tokenizer("a great day")["input_ids"]]


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_special_tokens_that_a_text_spells_out(tmp_path: Path, family: str, split: bool) -> None:
    configure_tokenizer(sentiment_checkpoint(tmp_path, family), split_special_tokens=split)
    reference = text_reference(tmp_path)
    assert reference.settings.split_special_tokens is split
    separator = reference.tokenizer.sep_token
    text = f"a {separator} b"
    (ids,) = encoded(checked(reference, tmp_path / "model"), text)
    assert ids == reference.tokenizer(text)["input_ids"]
    assert ids.count(reference.tokenizer.sep_token_id) == (1 if split else 2)


@pytest.mark.build
@pytest.mark.parametrize("family", ["bert", "megatron-bert"])
def test_token_types_are_carried_packed_and_padded(tmp_path: Path, family: str) -> None:
    give_types(sentiment_checkpoint(tmp_path, family), "[CLS]:0 $A:1 [SEP]:1")
    reference = text_reference(tmp_path)
    types = reference.settings.token_types
    assert types is not None
    assert (types.before, types.text, types.after) == ((0,), 1, (1,))
    model_dir = checked(reference, tmp_path / "model")
    reference.export(model_dir)
    settings = Settings.load(model_dir / "serving.json", environ={}).text
    assert settings is not None
    texts = ["ok", "what a great day at the beach", LONG, ""]
    ids = [encoded(model_dir, text)[0] for text in texts]
    answers = np.stack(run_in_batches(Engine(model_dir / GRAPH, threads=1).run, ids, 60, settings))
    tokenizer = AutoTokenizer.from_pretrained(tmp_path, trust_remote_code=False)
    model = AutoModelForSequenceClassification.from_pretrained(tmp_path, trust_remote_code=False).eval()
    with torch.inference_mode():
        inputs = [tokenizer(text, truncation=True, return_tensors="pt") for text in texts]
        expected = np.concatenate([model(**one).logits.numpy() for one in inputs])
        without = np.concatenate([model(input_ids=one["input_ids"]).logits.numpy() for one in inputs])
    assert abs(answers - expected).max() < TOLERANCE
    assert abs(without - expected).max() > 100 * TOLERANCE


@pytest.mark.build
def test_an_archive_with_token_types_and_the_end_of_texts_answers_in_the_real_worker(tmp_path: Path) -> None:
    """XLNet's tokenizer gives its last token a type of its own, and XLNet runs in PyTorch, one text at a time."""
    give_types(sentiment_checkpoint(tmp_path, "xlnet"), "[CLS]:0 $A:0 [SEP]:2")
    configure_tokenizer(tmp_path, truncation_side="left")
    built = build(write_recipe(tmp_path, samples=[{"text": LONG}, {"text": "a great day"}]), tmp_path / "out")
    assert (built.engine, built.golden) == ("PyTorch", 2)
    text = read_json(built.path, SERVING)["text"]
    assert text["token_types"] == {"before": [0], "text": 0, "after": [2]}
    assert text["truncation_side"] == "left"


def test_token_types_that_the_network_does_not_take_are_refused(tmp_path: Path) -> None:
    give_types(sentiment_checkpoint(tmp_path, "distilbert"), "[CLS]:0 $A:1 [SEP]:1")
    with pytest.raises(CheckpointError, match="makes token_type_ids, which the network does not take"):
        checked(text_reference(tmp_path), tmp_path / "model")


class Adding:
    """A tokenizer whose call does more than its tokenizer.json."""

    def __init__(self, tokenizer: Any, change: Mapping[str, Any]) -> None:
        self._tokenizer = tokenizer
        self._change = change

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        made = self._tokenizer(*args, **kwargs)
        return {
            name: [self._change[name](one) for one in made[name]] if name in self._change else made[name]
            for name in made
        }


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"input_ids": lambda ids: [*ids[:-1], 7]}, "token .* is 7, and the handler's 3"),
        (
            {"input_ids": lambda ids: [9, *ids], "token_type_ids": lambda ids: [0, *ids]},
            "makes 5 tokens, and the handler 4",
        ),
        ({"token_type_ids": lambda types: [*types[:-1], 1]}, "its token type .* is 1, and the handler's 0"),
        ({"attention_mask": lambda mask: [0, *mask[1:]]}, "leaves out tokens with an attention mask"),
    ],
)
def test_a_tokenizer_that_does_more_is_refused_by_its_name(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    reference = text_reference(sentiment_checkpoint(tmp_path))
    reference.tokenizer = Adding(reference.tokenizer, change)
    with pytest.raises(CheckpointError, match=f"Adding of .* cannot be carried by an archive: of one word, .*{says}"):
        checked(reference, tmp_path / "model")


def test_other_inputs_than_tokens_are_refused(tmp_path: Path) -> None:
    reference = text_reference(sentiment_checkpoint(tmp_path))
    reference.tokenizer = Adding(reference.tokenizer, {})
    with pytest.raises(CheckpointError, match="makes inputs_embeds beside the token ids"):
        reference.fed({"input_ids": [1], "inputs_embeds": [1]})


def test_the_packed_handlers_are_asked_in_a_process_of_their_own(tmp_path: Path) -> None:
    reference = text_reference(sentiment_checkpoint(tmp_path / "checkpoint"))
    here = asking(tmp_path / "here", reference.settings, reference.preprocessing())
    files = {f"model/{file.name}": file.read_bytes() for file in (tmp_path / "here").iterdir()}
    code = {f"handlers/{file.relative_to(handlers_tree())}": file for file in handlers_tree().rglob("*.py")}
    inputs = {"texts": ["what a day", LONG]}
    (tmp_path / "there").mkdir()
    members = {Path(name): source for name, source in {**files, **code}.items()}
    assert asking_packed(members, tmp_path / "there")(inputs) == here(inputs)  # type: ignore[arg-type]
