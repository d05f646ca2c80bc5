"""Tiny random checkpoints that transformers saved, and recipes that name them: what the tests build archives from."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizer,
    RobertaConfig,
    RobertaForSequenceClassification,
    RobertaTokenizer,
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessorPil,
)

SENTIMENTS = ("negative", "neutral", "positive")
# In no alphabet's order, so that an answer that sorts its labels is wrong.
DISHES = ("ramen", "apple pie", "姓名", "sushi")
# Tokens that a tiny text model reads, special tokens included.
MAX_TOKENS = 40
IMAGE_SIDE, PATCH_SIDE = 32, 8
SEED = 11
# Wide weights: logits that differ between inputs by far more than any tolerance.
SPREAD = 0.4
VOCABULARY = 320
CORPUS = (
    "what a great day at the beach with my friends, thank you so much!",
    "no, just no. this is the worst coffee i have ever had and i am tired of it",
    "the train leaves at nine o'clock tomorrow from platform two",
    "I love this! It's wonderful, isn't it? @user http #fail",
)


def wordpiece() -> Tokenizer:
    """A WordPiece tokenizer as BERT's, lower-casing: what it cannot spell is [UNK]."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(CORPUS, _quiet(trainers.WordPieceTrainer, special))
    return tokenizer


def byte_level_bpe() -> Tokenizer:
    """A byte-level BPE tokenizer as RoBERTa's: every byte is a token, so nothing is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(CORPUS, _quiet(trainers.BpeTrainer, special, initial_alphabet=alphabet))
    return tokenizer


def sentiment_checkpoint(
    directory: Path,
    model_type: Literal["bert", "roberta"] = "bert",
    labels: Sequence[str] = SENTIMENTS,
) -> Path:
    """Save a text classifier of 2 layers with its tokenizer into `directory`, which is returned."""
    common: dict[str, Any] = {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "initializer_range": SPREAD,
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
    }
    torch.manual_seed(SEED)
    if model_type == "bert":
        state = json.loads(wordpiece().to_str())["model"]
        tokenizer: Any = BertTokenizer(vocab=state["vocab"], do_lower_case=True, model_max_length=MAX_TOKENS)
        config: Any = BertConfig(vocab_size=len(tokenizer), max_position_embeddings=MAX_TOKENS, **common)
        model: Any = BertForSequenceClassification(config)
    else:
        state = json.loads(byte_level_bpe().to_str())["model"]
        merges = [tuple(merge) for merge in state["merges"]]
        tokenizer = RobertaTokenizer(vocab=state["vocab"], merges=merges, model_max_length=MAX_TOKENS)
        pad = tokenizer.pad_token_id
        config = RobertaConfig(
            vocab_size=len(tokenizer),
            max_position_embeddings=MAX_TOKENS + pad + 1,
            type_vocab_size=1,
            pad_token_id=pad,
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            **common,
        )
        model = RobertaForSequenceClassification(config)
    model.eval().save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def food_checkpoint(
    directory: Path, labels: Sequence[str] = DISHES, processor: Mapping[str, Any] | None = None
) -> Path:
    """Save an image classifier of 2 layers with its image processor into `directory`, which is returned.

    `processor` is laid over the processor's settings.
    """
    torch.manual_seed(SEED)
    config = ViTConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=48,
        image_size=IMAGE_SIDE,
        patch_size=PATCH_SIDE,
        initializer_range=SPREAD,
        id2label=dict(enumerate(labels)),
        label2id={label: index for index, label in enumerate(labels)},
    )
    model: Any = ViTForImageClassification(config)
    model.eval().save_pretrained(directory)
    settings: dict[str, Any] = {"size": {"height": IMAGE_SIDE, "width": IMAGE_SIDE}, **(processor or {})}
    image_processor: Any = ViTImageProcessorPil(**settings)
    image_processor.save_pretrained(directory)
    return directory


def write_recipe(directory: Path, **keys: Any) -> Path:
    """Write `directory`/recipe.toml with `keys` (a dict is a table) and return it.

    Name, task and checkpoint have defaults: `write_recipe(sentiment_checkpoint(tmp_path))` can be built.
    """
    values: dict[str, Any] = {"name": "tiny", "task": "sentiment", "checkpoint": ".", **keys}
    lines = [f"{key} = {_toml(value)}" for key, value in values.items() if not _is_table(value)]
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{key}]", *(f"{name} = {_toml(entry)}" for name, entry in value.items())]
        elif _is_table(value):
            for row in value:
                lines += ["", f"[[{key}]]", *(f"{name} = {_toml(entry)}" for name, entry in row.items())]
    file = directory / "recipe.toml"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def _is_table(value: object) -> bool:
    rows = value if isinstance(value, (list, tuple)) and value else [value]
    return all(isinstance(row, Mapping) for row in rows)


def _toml(value: object) -> str:
    """JSON's spelling of strings, numbers, booleans and lists is TOML's too."""
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


def _quiet(trainer: Any, special: list[str], **options: Any) -> Any:
    return trainer(vocab_size=VOCABULARY, special_tokens=special, show_progress=False, **options)
