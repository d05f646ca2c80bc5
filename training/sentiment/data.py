"""Tweets with labels, from files or from the hub, normalised as the handler will normalise them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from handlers.text import normalise_tweet
from training.errors import TrainingError
from training.metrics import Int64Array
from training.sentiment.mending import mended
from training.sentiment.sources import Row, rows


@dataclass(frozen=True, slots=True)
class Tweets:
    """N texts as the tokenizer reads them, and their labels int64[N]."""

    texts: list[str]
    labels: Int64Array

    def __len__(self) -> int:
        return len(self.texts)

    def counts(self, classes: int) -> Int64Array:
        """Tweets of each class, int64[`classes`]."""
        return np.bincount(self.labels, minlength=classes)


def read(source: str, split: str, labels: Sequence[str], *, mend: bool = False) -> Tweets:
    """Read tweets in tweet_eval's format: a file, or the `split` of a hub data set (see `sources.rows`).

    A label is its number or its name. `mend` undoes what SemEval's files did to their tweets; off where published
    figures are compared. Raises TrainingError, which names a row by its number and never quotes it.
    """
    numbers = {label: index for index, label in enumerate(labels)}
    texts, found = list[str](), list[int]()
    for row in rows(source, split):
        text, label = _checked(row, numbers, source)
        texts.append(normalise_tweet(mended(text) if mend else text))
        found.append(label)
    if not texts:
        raise TrainingError(f"{source} holds no tweets: give a file with a label and a text in every row.")
    return Tweets(texts, np.array(found, np.int64))


def require_classes(tweets: Tweets, source: str, labels: Sequence[str]) -> None:
    """Raise TrainingError where all tweets are of one class: there would be nothing to learn."""
    occurring = np.flatnonzero(tweets.counts(len(labels)))
    if len(occurring) < 2:
        raise TrainingError(
            f"All {len(tweets):,} tweets of {source} are {labels[occurring[0]]}: training needs at least two classes."
        )


def _checked(row: Row, numbers: dict[str, int], source: str) -> tuple[str, int]:
    number, label, text = row
    if not isinstance(text, str) or not text.strip():
        raise TrainingError(f"{source}, row {number}, has no text: give every row a label and a text.")
    if isinstance(label, str):
        label = label.strip()
    elif isinstance(label, float) and label.is_integer():  # what a column of numbers becomes, if one has a fraction
        label = int(label)
    if isinstance(label, str) and label in numbers:
        return text, numbers[label]
    try:
        index = int(str(label))
    except ValueError:
        index = -1
    if isinstance(label, bool) or not 0 <= index < len(numbers):
        known = ", ".join(f"{index} {name}" for name, index in numbers.items())
        raise TrainingError(f"{source}, row {number}, has a label that is none of {known}: mend or leave out the row.")
    return text, index
