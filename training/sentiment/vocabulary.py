"""Prune a WordPiece vocabulary to the pieces that a corpus uses.

Half of a small BERT's bytes are embedding rows, most of them for words that tweets rarely use. WordPiece
takes the longest piece that fits, so a word whose piece went away falls back on shorter ones, in the end on
single characters: those are kept, so that no word of characters from the corpus becomes unknown.
"""

from __future__ import annotations

import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import Tokenizer

CONTINUATION = "##"  # WordPiece's mark of a piece inside a word


def count_pieces(tokenizer: Tokenizer, texts: Sequence[str]) -> Counter[str]:
    """How often each piece occurs in `texts`, without special tokens, truncation or padding."""
    plain = Tokenizer.from_str(tokenizer.to_str())
    plain.no_truncation()
    plain.no_padding()
    counts: Counter[str] = Counter()
    for encoding in plain.encode_batch(list(texts), add_special_tokens=False):
        counts.update(encoding.tokens)
    return counts


def choose_pieces(tokenizer: Tokenizer, counts: Counter[str], size: int) -> list[str]:
    """Choose the `size` pieces to keep, in the order of their old ids.

    First come the special tokens, every letter seen, and every sign of the base (digit, punctuation mark or
    symbol: a cleaned corpus lacks some that people write); each as a word's start and inside one, where the
    base has both. Then come the most frequent pieces, ties in the order of old ids. Gives fewer than `size`
    when the corpus uses fewer; raises ValueError when `size` has no room for what comes first.
    """
    ids = tokenizer.get_vocab(with_added_tokens=True)
    special = {token.content for token in tokenizer.get_added_tokens_decoder().values()}
    seen = set("".join(map(_body, counts.keys() - special)))
    kept = special | {piece for piece in ids if _body(piece) in seen or _is_sign(_body(piece))}
    if len(kept) > size:
        raise ValueError(f"{size} pieces are too few: special tokens, letters and signs need {len(kept)}")
    for piece, _ in sorted(counts.items(), key=lambda item: (-item[1], ids[item[0]])):
        if len(kept) == size:
            break
        kept.add(piece)
    return sorted(kept, key=ids.__getitem__)


def prune_tokenizer(tokenizer: Tokenizer, pieces: Iterable[str]) -> Tokenizer:
    """Rebuild the tokenizer over `pieces`, numbered from 0 in their order, without truncation or padding.

    Row i of the pruned embedding is the old row of the i-th piece.
    """
    description: dict[str, Any] = json.loads(tokenizer.to_str())
    new_ids = {piece: index for index, piece in enumerate(pieces)}
    description["model"]["vocab"] = new_ids
    description["truncation"] = description["padding"] = None
    for token in description["added_tokens"]:
        token["id"] = new_ids[token["content"]]
    processor = description["post_processor"] or {}
    for token in processor.get("special_tokens", {}).values():  # TemplateProcessing
        token["ids"] = [new_ids[name] for name in token["tokens"]]
    for end in ("cls", "sep"):  # BertProcessing
        if end in processor:
            processor[end] = [processor[end][0], new_ids[processor[end][0]]]
    return Tokenizer.from_str(json.dumps(description))


def _body(piece: str) -> str:
    return piece.removeprefix(CONTINUATION)


def _is_sign(body: str) -> bool:
    return len(body) == 1 and unicodedata.category(body)[0] in "NPS"
