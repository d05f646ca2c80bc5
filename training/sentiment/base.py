"""The checkpoint that fine-tuning starts from: a folder or a hub id, checked before anything is trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training.errors import TrainingError


@dataclass(frozen=True, slots=True)
class Base:
    """A transformers model with a head of as many labels as there are, in fp32, and its fast tokenizer."""

    model: Any
    tokenizer: Any
    name: str

    @property
    def max_tokens(self) -> int:
        """The most tokens that the network reads, special tokens included."""
        config = self.model.config
        padding = getattr(getattr(self.model.base_model, "embeddings", None), "padding_idx", None)
        positions = getattr(config, "max_position_embeddings", 0)
        limit = int(self.tokenizer.model_max_length)
        # RoBERTa counts positions from behind the padding token's id.
        return limit if positions <= 0 else min(positions - (0 if padding is None else padding + 1), limit)


def load(name: str, labels: Sequence[str], *, attention_dropout: float = -1.0) -> Base:
    """Load a base and give it a head for `labels`, a fresh one unless it has one of that size.

    Raises TrainingError where the base, its tokenizer or its weights are missing or do not suit.
    """
    import torch
    from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()
    config = _found(name, "config.json", AutoConfig)
    config.id2label = dict(enumerate(labels))
    config.label2id = {label: index for index, label in enumerate(labels)}
    config.problem_type = "single_label_classification"
    if attention_dropout >= 0:
        config.attention_probs_dropout_prob = attention_dropout
    if type(config) not in AutoModelForSequenceClassification._model_mapping:
        raise TrainingError(f"{name} is a {config.model_type} model, which cannot classify texts: give another base.")
    tokenizer = _found(name, "tokenizer", AutoTokenizer)
    if not tokenizer.is_fast or len(tokenizer) <= len(tokenizer.all_special_ids):
        raise TrainingError(f"{name} has no tokenizer of its own: save the model's tokenizer beside it.")
    model, info = _weights(name, config, torch.float32)
    body = f"{model.base_model_prefix}."
    missing = [key for key in info["missing_keys"] if key.startswith(body) and ".pooler." not in key]
    if missing:
        raise TrainingError(
            f"{name} lacks {len(missing)} of the network's tensors, as {missing[0]}: its weights are of another model."
        )
    if len(tokenizer) > config.vocab_size:
        raise TrainingError(
            f"The tokenizer of {name} knows {len(tokenizer)} tokens, the model {config.vocab_size}: "
            "save both from one training."
        )
    if model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    return Base(model, tokenizer, name)


def _weights(name: str, config: Any, dtype: Any) -> Any:
    from transformers import AutoModelForSequenceClassification

    try:
        return AutoModelForSequenceClassification.from_pretrained(
            name,
            config=config,
            dtype=dtype,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
            trust_remote_code=False,
        )
    except Exception as error:  # safetensors', torch's, the hub's
        raise TrainingError(
            f"The weights of {name} cannot be loaded ({_first_line(error)}): save them again."
        ) from None


def _found(name: str, what: str, loader: Any) -> Any:
    folder = Path(name)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise TrainingError(f"{name} has no config.json: give the folder of a transformers checkpoint.")
    try:
        return loader.from_pretrained(name, trust_remote_code=False)
    except Exception as error:  # the hub client raises its own, requests' and OS errors
        hint = f"save the {what} again" if folder.is_dir() else "check the name and the network, or give a folder"
        raise TrainingError(f"{name} has no {what} that can be loaded ({_first_line(error)}): {hint}.") from None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__).rstrip(".")
