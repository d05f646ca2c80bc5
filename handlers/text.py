"""Text -> token ids: normalise as the checkpoint was trained, tokenise, truncate, pack."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

Int64Array = npt.NDArray[np.int64]


def normalise_tweet(text: str) -> str:
    """Mask user names as `@user` and links as `http`.

    The rule is the one on the model card of cardiffnlp/twitter-roberta-base-sentiment-latest: words are what
    single spaces separate, so the text's other white space stays as it is.
    """
    return " ".join(_mask(word) for word in text.split(" "))


def _mask(word: str) -> str:
    if word.startswith("@") and len(word) > 1:
        return "@user"
    return "http" if word.startswith("http") else word


# More than words have in any language; a text with longer ones is read further.
CHARACTERS_PER_TOKEN = 16
WORD_END = re.compile(r"(?<=\S)\s")

NORMALISERS: dict[str, Callable[[str], str]] = {"none": str, "tweet": normalise_tweet}


@dataclass(frozen=True, slots=True)
class Tokens:
    """One tokenised text: `ids` with the special tokens, and whether the text had more than fits."""

    ids: list[int]
    truncated: bool


class TextEncoder:
    """Tokenises exactly as the checkpoint's Hugging Face tokenizer does.

    `max_tokens` counts the special tokens too.
    """

    def __init__(self, tokenizer_file: Path, normalise: str, max_tokens: int) -> None:
        self._normalise = NORMALISERS[normalise]
        self._tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens)
        self._max_tokens = max_tokens

    def encode(self, text: str) -> Tokens:
        """Token ids of one text, at most `max_tokens` of them.

        Only as much of a long text is tokenised as fills the model; it is cut before white space, where no token
        reaches across, so the ids are those of the whole text.
        """
        text = self._normalise(text)
        length = self._max_tokens * CHARACTERS_PER_TOKEN
        while True:
            match = WORD_END.search(text, length)
            encoding = self._tokenizer.encode(text[: match.start()] if match else text)
            if encoding.overflowing or match is None:
                return Tokens(encoding.ids, bool(encoding.overflowing))
            length *= 4


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Several texts laid end to end as one sequence of T tokens.

    `input_ids`, `position_ids` and `segment_ids` are int64[T], `starts` is int64[B]. Positions start again at
    `first_position` with each text, and a token attends only to tokens of its own segment, so every text gets the
    logits it would get alone, without a single padding token.
    """

    input_ids: Int64Array
    position_ids: Int64Array
    segment_ids: Int64Array
    starts: Int64Array

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]], first_position: int) -> PackedBatch:
        """Lay the token ids of at least one text end to end."""
        lengths = [len(ids) for ids in texts]
        return cls(
            input_ids=np.concatenate([np.asarray(ids, np.int64) for ids in texts]),
            position_ids=np.concatenate([np.arange(n, dtype=np.int64) for n in lengths]) + first_position,
            segment_ids=np.repeat(np.arange(len(texts), dtype=np.int64), lengths),
            starts=np.cumsum([0, *lengths[:-1]], dtype=np.int64),
        )

    def feeds(self) -> dict[str, Int64Array]:
        """The network's inputs by name."""
        return {name: getattr(self, name) for name in ("input_ids", "position_ids", "segment_ids", "starts")}


def pack(texts: Sequence[Sequence[int]], token_budget: int, first_position: int) -> Iterator[tuple[slice, PackedBatch]]:
    """Split `texts` in order into packed batches of at most `token_budget` tokens (one longer text goes alone).

    The budget bounds the T x T attention mask. Yields each batch with the slice of `texts` that it holds.
    """
    begin, tokens = 0, 0
    for end, ids in enumerate(texts):
        if end > begin and tokens + len(ids) > token_budget:
            yield slice(begin, end), PackedBatch.of(texts[begin:end], first_position)
            begin, tokens = end, 0
        tokens += len(ids)
    if begin < len(texts):
        yield slice(begin, len(texts)), PackedBatch.of(texts[begin:], first_position)
