"""Tiny random checkpoints that transformers saved, and recipes that name them: what the tests build archives from."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AlbertTokenizer,
    AutoConfig,
    AutoModelForImageClassification,
    AutoModelForSequenceClassification,
    BertTokenizer,
    CamembertTokenizer,
    DebertaV2Tokenizer,
    DistilBertTokenizer,
    MPNetTokenizer,
    PreTrainedTokenizerFast,
    RobertaTokenizer,
    T5Tokenizer,
    ViTImageProcessorPil,
    XLMRobertaTokenizer,
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
SIZES: dict[str, Any] = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "initializer_range": SPREAD,
}
CORPUS = (
    "what a great day at the beach with my friends, thank you so much!",
    "no, just no. this is the worst coffee i have ever had and i am tired of it",
    "the train leaves at nine o'clock tomorrow from platform two",
    "I love this! It's wonderful, isn't it? @user http #fail",
)


# The special tokens of each tokenizer's vocabulary, in the order of their ids.
BERT_SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ROBERTA_SPECIAL = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")
# What a family's configuration has beside the common sizes.
TEXT_SETTINGS: dict[str, dict[str, Any]] = {
    "albert": {"embedding_size": 16},
    "bert": {},
    "camembert": {"type_vocab_size": 1},
    # As DeBERTa v3: distances between tokens in logarithmic buckets instead of positions.
    "deberta-v2": {
        "type_vocab_size": 0,
        "position_biased_input": False,
        "relative_attention": True,
        "position_buckets": 8,
        "max_relative_positions": -1,
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "pos_att_type": ["p2c", "c2p"],
    },
    "distilbert": {"hidden_dim": 48, "initializer_range": 0.3},
    "electra": {"embedding_size": 16},
    # Layers that see all tokens, and those that see eight around each.
    "modernbert": {"local_attention": 8, "global_attn_every_n_layers": 2},
    "mpnet": {},
    "roberta": {"type_vocab_size": 1},
    "xlm-roberta": {"type_vocab_size": 1},
}
_TRANSFORMER: dict[str, Any] = {**SIZES, "image_size": IMAGE_SIDE, "patch_size": PATCH_SIDE}
_CONVOLUTIONS: dict[str, Any] = {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 2, 1]}
_WINDOWS: dict[str, Any] = {
    "image_size": IMAGE_SIDE,
    "patch_size": 2,
    "window_size": 4,
    "embed_dim": 16,
    "depths": [2, 1],
    "num_heads": [2, 4],
}
IMAGE_SETTINGS = {
    "beit": _TRANSFORMER,
    "convnext": _CONVOLUTIONS,
    "convnextv2": _CONVOLUTIONS,
    "deit": {**_TRANSFORMER, "architectures": ["DeiTForImageClassification"]},
    "swin": _WINDOWS,
    "swinv2": _WINDOWS,
    "vit": _TRANSFORMER,
}
# Families that no archive is known to come from.
_ENCODER_DECODER: dict[str, Any] = {"d_model": 32, "hidden_size": None, "intermediate_size": None}
STRANGERS: dict[str, dict[str, Any]] = {
    "bart": {
        **_ENCODER_DECODER,
        **{f"{half}_layers": 2 for half in ("encoder", "decoder")},
        **{f"{half}_attention_heads": 2 for half in ("encoder", "decoder")},
        **{f"{half}_ffn_dim": 48 for half in ("encoder", "decoder")},
        "init_std": SPREAD,
    },
    "fnet": {},
    "longformer": {"attention_window": [8, 8]},
    "megatron-bert": {},
    "t5": {
        **_ENCODER_DECODER,
        "max_position_embeddings": None,
        "d_kv": 16,
        "d_ff": 48,
        "initializer_factor": 8.0,
        "decoder_start_token_id": 0,
    },
    "xlnet": {"max_position_embeddings": None, "d_head": 16},
}
# Those that count positions from behind the padding token's id.
OFFSET_POSITIONS = ("camembert", "longformer", "mpnet", "roberta", "xlm-roberta")


def wordpiece(special: Sequence[str] = BERT_SPECIAL) -> Tokenizer:
    """A WordPiece tokenizer as BERT's, lower-casing: what it cannot spell is [UNK]."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.train_from_iterator(CORPUS, _quiet(trainers.WordPieceTrainer, special))
    return tokenizer


def byte_level_bpe(special: Sequence[str] = ROBERTA_SPECIAL) -> Tokenizer:
    """A byte-level BPE tokenizer as RoBERTa's: every byte is a token, so nothing is unknown."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    tokenizer.train_from_iterator(CORPUS, _quiet(trainers.BpeTrainer, special, initial_alphabet=alphabet))
    return tokenizer


def unigram(special: Sequence[str], unknown: str) -> list[tuple[str, float]]:
    """The pieces of a Unigram vocabulary as SentencePiece's, with their logarithmic probabilities."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.train_from_iterator(CORPUS, _quiet(trainers.UnigramTrainer, special, unk_token=unknown))
    return [(piece, score) for piece, score in json.loads(tokenizer.to_str())["model"]["vocab"]]


def tokenizer_of(model_type: str) -> Any:
    """The family's own transformers tokenizer, with a vocabulary of CORPUS."""
    match model_type:
        case "bert" | "electra" | "fnet" | "megatron-bert" | "xlnet":
            return BertTokenizer(vocab=_vocabulary(wordpiece()), do_lower_case=True, model_max_length=MAX_TOKENS)
        case "distilbert":
            return DistilBertTokenizer(vocab=_vocabulary(wordpiece()), model_max_length=MAX_TOKENS)
        case "mpnet":
            vocabulary = _vocabulary(wordpiece(("<s>", "<pad>", "</s>", "[UNK]", "<mask>")))
            return MPNetTokenizer(vocab=vocabulary, model_max_length=MAX_TOKENS)
        case "modernbert":
            bpe = byte_level_bpe(BERT_SPECIAL)
            ends = [(token, BERT_SPECIAL.index(token)) for token in ("[CLS]", "[SEP]")]
            bpe.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
            names = dict(
                zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), BERT_SPECIAL, strict=True)
            )
            return PreTrainedTokenizerFast(tokenizer_object=bpe, model_max_length=MAX_TOKENS, **names)
        case "bart" | "longformer" | "roberta":
            state = json.loads(byte_level_bpe().to_str())["model"]
            merges = [tuple(merge) for merge in state["merges"]]
            return RobertaTokenizer(vocab=state["vocab"], merges=merges, model_max_length=MAX_TOKENS)
        case "albert":
            pieces = unigram(("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), "<unk>")
            return AlbertTokenizer(vocab=pieces, model_max_length=MAX_TOKENS)
        case "deberta-v2":
            pieces = unigram(("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"), "[UNK]")
            return DebertaV2Tokenizer(vocab=pieces, unk_id=3, model_max_length=MAX_TOKENS)
        case "t5":
            pieces = unigram(("<pad>", "</s>", "<unk>"), "<unk>")
            return T5Tokenizer(vocab=pieces, extra_ids=0, model_max_length=MAX_TOKENS)
        case "camembert":
            return CamembertTokenizer(vocab=unigram(ROBERTA_SPECIAL, "<unk>"), model_max_length=MAX_TOKENS)
        case "xlm-roberta":
            return XLMRobertaTokenizer(vocab=unigram(ROBERTA_SPECIAL, "<unk>"), model_max_length=MAX_TOKENS)
    raise ValueError(model_type)


def sentiment_checkpoint(
    directory: Path, model_type: str = "bert", labels: Sequence[str] = SENTIMENTS, **settings: Any
) -> Path:
    """Save a text classifier of 2 layers with its tokenizer into `directory`, which is returned.

    `model_type` is a key of TEXT_SETTINGS or STRANGERS; `settings` are laid over the model's configuration, where None
    leaves a key out.
    """
    torch.manual_seed(SEED)
    tokenizer = tokenizer_of(model_type)
    offset = tokenizer.pad_token_id + 1 if model_type in OFFSET_POSITIONS else 0
    values = {
        **SIZES,
        "vocab_size": len(tokenizer),
        "max_position_embeddings": MAX_TOKENS + offset,
        "pad_token_id": tokenizer.pad_token_id,
        "bos_token_id": tokenizer.cls_token_id,
        "eos_token_id": tokenizer.sep_token_id,
        **_named(labels),
        **{**TEXT_SETTINGS, **STRANGERS}[model_type],
        **settings,
    }
    config = AutoConfig.for_model(model_type, **{key: value for key, value in values.items() if value is not None})
    model: Any = AutoModelForSequenceClassification.from_config(config, trust_remote_code=False)
    model.eval().save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    return directory


def food_checkpoint(
    directory: Path,
    labels: Sequence[str] = DISHES,
    processor: Mapping[str, Any] | None = None,
    model_type: str = "vit",
    kind: Any = ViTImageProcessorPil,
    **settings: Any,
) -> Path:
    """Save an image classifier of few layers with its image processor into `directory`, which is returned.

    `model_type` is a key of IMAGE_SETTINGS. `processor` is laid over the settings of the processor, which is of class
    `kind`, and `settings` over the model's configuration.
    """
    torch.manual_seed(SEED)
    values = {"initializer_range": SPREAD, **_named(labels), **IMAGE_SETTINGS[model_type], **settings}
    model: Any = AutoModelForImageClassification.from_config(
        AutoConfig.for_model(model_type, **values), trust_remote_code=False
    )
    model.eval().save_pretrained(directory)
    kind(**{"size": {"height": IMAGE_SIDE, "width": IMAGE_SIDE}, **(processor or {})}).save_pretrained(directory)
    return directory


def _named(labels: Sequence[str]) -> dict[str, Any]:
    """A configuration's names of the logits."""
    return {"id2label": dict(enumerate(labels)), "label2id": {label: index for index, label in enumerate(labels)}}


def _vocabulary(tokenizer: Tokenizer) -> dict[str, int]:
    vocabulary: dict[str, int] = json.loads(tokenizer.to_str())["model"]["vocab"]
    return vocabulary


def write_recipe(directory: Path, **keys: Any) -> Path:
    """Write `directory`/recipe.toml with `keys` (a dict is a table, ... leaves a key out) and return it.

    Name, task and checkpoint have defaults: `write_recipe(sentiment_checkpoint(tmp_path))` can be built.
    """
    values: dict[str, Any] = {"name": "tiny", "task": "sentiment", "checkpoint": ".", **keys}
    values = {key: value for key, value in values.items() if value is not ...}
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
    """JSON's spelling of strings, numbers and booleans is TOML's too."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)


def _quiet(trainer: Any, special: Sequence[str], **options: Any) -> Any:
    return trainer(vocab_size=VOCABULARY, special_tokens=list(special), show_progress=False, **options)
