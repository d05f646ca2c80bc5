"""Text -> token ids: normalise as the checkpoint was trained, tokenise, truncate or split into windows."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
from tokenizers import Encoding, Tokenizer

from handlers.arrays import Float32Array
from handlers.errors import TooLarge
from handlers.settings import TextSettings
from handlers.work import Work

T = TypeVar("T")


USER = re.compile(r"(?<![^ ])@[^ ]+")
LINK = re.compile(r"(?<![^ ])http[^ ]*")


def normalise_tweet(text: str) -> str:
    """Mask user names as `@user` and links as `http`.

    The rule is the one on the model card of cardiffnlp/twitter-roberta-base-sentiment-latest: words are what
    single spaces separate, so the text's other white space stays as it is.
    """
    return LINK.sub("http", USER.sub("@user", text))


# More than words have in any language; a text with longer ones is read further.
CHARACTERS_PER_TOKEN = 16
WORD_END = re.compile(r"(?<=\S)\s")
# Words that a tokenizer may still read otherwise where a text goes on: more than any special token is spelt in.
OPEN_WORDS = 16
# A text of words so long that they do not fill the windows is read again so many times as far, and to its end where
# that is more than one part in SMALL_SHARE of it.
GROWTH = 16
SMALL_SHARE = 4
# Nanoseconds for each byte that is tokenised, also where that is done again with more of the text: 1,300 were measured.
TOKENISE_NS = 1_500
# The same place in a text that is read backwards.
WORD_START = re.compile(r"\s(?=\S)")
TOKENIZER = "tokenizer.json"

NORMALISERS: dict[str, Callable[[str], str]] = {"none": str, "tweet": normalise_tweet}


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a text, and where its tokens stand in the window."""

    text: str
    tokens: slice


@dataclass(frozen=True, slots=True)
class Tokens:
    """One tokenised text, as the windows that the network reads: one, unless a long text is split.

    Each window has its `special` special tokens. `truncated` says whether the text had more tokens than all of them.
    `text` is the text as it was tokenised.
    """

    windows: list[list[int]]
    special: int
    truncated: bool
    text: str = field(default="", compare=False, repr=False)

    @property
    def count(self) -> int:
        """Tokens of the text as far as it is read, special tokens counted once."""
        return sum(len(ids) - self.special for ids in self.windows) + self.special

    def average(self, scores: Sequence[Float32Array]) -> Float32Array:
        """The text's scores float32[labels]: the mean of its windows', weighted by how much of the text is in each."""
        if len(self.windows) == 1:
            return scores[0]
        weights = [len(ids) - self.special for ids in self.windows]
        return np.average(np.asarray(scores, np.float64), axis=0, weights=weights).astype(np.float32)


class TextEncoder:
    """Tokenises exactly as the checkpoint's Hugging Face tokenizer does.

    The network reads `max_tokens`, special tokens too. What of a longer text? By `long_text`, "truncate" leaves the
    rest out, "error" refuses the text, and "window" splits it into at most `max_windows` windows side by side. The rest
    is the end of the text, or with `truncation_side` "left" its beginning.
    """

    def __init__(
        self,
        tokenizer_file: Path,
        normalise: str,
        max_tokens: int,
        long_text: str = "truncate",
        max_windows: int = 1,
        *,
        truncation_side: str = "right",
        split_special_tokens: bool = False,
    ) -> None:
        self._normalise = NORMALISERS[normalise]
        self._tokenizer = Tokenizer.from_file(str(tokenizer_file))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(max_tokens, direction=truncation_side)
        self._tokenizer.encode_special_tokens = split_special_tokens
        self._from_end = truncation_side == "left"
        self._max_tokens = max_tokens
        self._special = self._tokenizer.num_special_tokens_to_add(is_pair=False)
        self._refuses = long_text == "error"
        self._max_windows = max_windows if long_text == "window" else 1

    @classmethod
    def of(cls, model_dir: Path, text: TextSettings, long_text: str, max_windows: int) -> TextEncoder:
        """The encoder of an unpacked archive."""
        return cls(
            model_dir / TOKENIZER,
            text.normalise,
            text.max_tokens,
            long_text,
            max_windows,
            truncation_side=text.truncation_side,
            split_special_tokens=text.split_special_tokens,
        )

    def encode(self, text: str, work: Work | None = None) -> Tokens:
        """Token ids of one text. Raises TooLarge where a long text is refused, or costs more than its `work`.

        Only as much of a long text is tokenised as fills the windows, and the ids are those of the whole text. It is
        cut before white space, where no token reaches across, or else in a word that is too far behind to matter.
        """
        text = self._normalise(text)
        work = work or Work()
        length = self._max_windows * self._max_tokens * CHARACTERS_PER_TOKEN
        paid = 0
        while True:
            read = _last(text, length) if self._from_end else _first(text, length)
            size = len(read.encode("utf-8"))
            work.spend(size - paid, TOKENISE_NS)
            paid = size
            encoding = self._tokenizer.encode(read)
            encodings = [encoding, *encoding.overflowing]
            if len(read) == len(text) or self._is_full(encodings, in_word=self._cuts_a_word(text, len(read))):
                break
            length *= GROWTH
            if length * SMALL_SHARE > len(text):
                length = len(text)
        windows = [window.ids for window in encodings]
        tokens = Tokens(windows, self._special, truncated=len(windows) > self._max_windows, text=read)
        if self._refuses and tokens.truncated:
            at_least = "at least " if len(read) < len(text) else ""
            raise TooLarge(
                f"The text has {at_least}{tokens.count} tokens, of which the model reads {self._max_tokens}."
            )
        return replace(tokens, windows=self._in_order(windows[: self._max_windows]))

    def _in_order(self, windows: list[T]) -> list[T]:
        """The windows in the order of the text: the tokenizer gives first what it keeps first."""
        return windows[::-1] if self._from_end else windows

    def _cuts_a_word(self, text: str, length: int) -> bool:
        """Whether reading so many characters of the text leaves off in a word; from the end it never does."""
        return not self._from_end and not text[length].isspace()

    def _is_full(self, encodings: Sequence[Encoding], *, in_word: bool) -> bool:
        """Whether what a text's beginning was read as fills the windows as the whole text would."""
        if len(encodings) <= self._max_windows:
            return False
        return not in_word or _last_word(encodings[self._max_windows - 1]) < _last_word(encodings[-1]) - OPEN_WORDS

    def parts(self, tokens: Tokens, most: int) -> list[list[Part]]:
        """The parts of each window, one to `most`: its tokens, joined with their neighbours where they are too many.

        Special tokens belong to no part, and tokens that share a character to one.
        """
        encoding = self._tokenizer.encode(tokens.text)
        windows = self._in_order([encoding, *encoding.overflowing][: len(tokens.windows)])
        return [_parts(window, tokens.text, most) for window in windows]


def _first(text: str, length: int) -> str:
    """At least `length` characters of the beginning of the text, up to the end of a word where one is near."""
    match = WORD_END.search(text, length, 2 * length)
    return text[: match.start() if match else length]


def _last(text: str, length: int) -> str:
    """At least `length` characters of the end of the text, from the white space before a word."""
    match = WORD_START.search(text[::-1], length)
    return text[len(text) - match.end() :] if match else text


def _last_word(encoding: Encoding) -> int:
    return max((word for word in encoding.word_ids if word is not None), default=0)


def _parts(window: Encoding, text: str, most: int) -> list[Part]:
    starts: list[int] = []
    start = end = behind = 0
    for position, (special, (begin, stop)) in enumerate(zip(window.special_tokens_mask, window.offsets, strict=True)):
        if special:
            continue
        # The space before a word may be a token of its own, of no width: it goes with the word.
        if not starts or begin >= end > start:
            starts.append(position)
            start = begin
        end, behind = max(end, stop), position + 1
    if not starts:
        return [Part("", slice(0, 0))]
    if end == start and len(starts) > 1:
        starts.pop()  # nor does one at the end stand alone
    firsts = [int(some[0]) for some in np.array_split(starts, min(most, len(starts)))]
    offsets = window.offsets
    return [
        Part(text[offsets[first][0] : offsets[last - 1][1]], slice(first, last))
        for first, last in pairwise([*firsts, behind])
    ]
