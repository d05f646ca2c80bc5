"""Make a small base: the vocabulary of a BERT cut to what the training tweets use, with a fresh head."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from training.errors import TrainingError
from training.sentiment import LABELS
from training.sentiment.base import load
from training.sentiment.vocabulary import choose_pieces, count_pieces, prune_tokenizer


def prune(base: str, texts: Sequence[str], out: Path, pieces: int, seed: int, *, force: bool) -> int:
    """Write the pruned checkpoint (fp32 safetensors, tokenizer) into `out`; return how many pieces it kept.

    `texts` are normalised. Row i of the new embedding is the old row of the i-th piece kept. `seed` is the head's.
    Raises TrainingError where the base has no WordPiece vocabulary or `pieces` are too few.
    """
    if out.exists() and not force and (not out.is_dir() or any(out.iterdir())):
        raise TrainingError(f"{out} is there already: name another folder, or overwrite it with --force.")
    torch.manual_seed(seed)
    source = load(base, LABELS, attention_dropout=0.0)  # with dropout, attention has no fused kernel
    full: Tokenizer = source.tokenizer.backend_tokenizer
    if json.loads(full.to_str())["model"]["type"] != "WordPiece":
        raise TrainingError(f"{base} has no WordPiece vocabulary: only that can be pruned, so train it as it is.")
    try:
        kept = choose_pieces(full, count_pieces(full, texts), pieces)
    except ValueError as error:
        raise TrainingError(f"{error}: give --pieces more.") from None
    model: Any = source.model
    rows = torch.tensor([full.token_to_id(piece) for piece in kept])
    old = model.get_input_embeddings().weight.detach()
    pad = kept.index(source.tokenizer.pad_token)
    model.set_input_embeddings(torch.nn.Embedding(len(kept), old.shape[1], pad, _weight=old[rows]))
    model.config.vocab_size, model.config.pad_token_id = len(kept), pad
    out.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(out)
    save_tokenizer(source.tokenizer, prune_tokenizer(full, kept), source.max_tokens, out)
    return len(kept)


def save_tokenizer(old: Any, pruned: Tokenizer, max_tokens: int, out: Path) -> None:
    """Write tokenizer.json, and a tokenizer_config.json that says of it what the base's said."""
    pruned.save(str(out / "tokenizer.json"), pretty=False)
    special = {name: str(token) for name, token in old.special_tokens_map.items() if name.endswith("_token")}
    settings = {
        "tokenizer_class": type(old).__name__,
        "do_lower_case": bool(getattr(old, "do_lower_case", True)),
        "model_max_length": max_tokens,
        **special,
    }
    (out / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", "utf-8")
