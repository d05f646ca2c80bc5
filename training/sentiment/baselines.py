"""What a model has to beat: the commonest class, a lexicon, and another model's published answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from training.errors import TrainingError
from training.metrics import Int64Array
from training.sentiment import LABELS
from training.sentiment.data import Tweets

VADER_NEUTRAL = 0.05  # the thresholds that its authors advise


def vader(texts: Sequence[str]) -> Int64Array:
    """Labels of the VADER lexicon (Hutto and Gilbert 2014), compound score within +-0.05 being neutral."""
    from vaderSentiment.vaderSentiment import SentimentIntensityAnalyzer

    analyser = SentimentIntensityAnalyzer()
    compound = np.array([analyser.polarity_scores(text)["compound"] for text in texts])
    return 1 + (compound >= VADER_NEUTRAL).astype(np.int64) - (compound <= -VADER_NEUTRAL)


def published(file: Path, tweets: int) -> Int64Array:
    """Another model's labels of the test tweets, int64[N], one a line. Raises TrainingError."""
    try:
        found = np.array(file.read_text("utf-8").split(), np.int64)
    except (OSError, ValueError):
        raise TrainingError(f"{file} is no list of label numbers: give a file with one in each line.") from None
    if len(found) != tweets or not ((found >= 0) & (found < len(LABELS))).all():
        raise TrainingError(f"{file} needs {tweets:,} labels from 0 to {len(LABELS) - 1}, one for each test tweet.")
    return found


def baselines(test: Tweets, other: Int64Array | None) -> dict[str, Int64Array]:
    """Answers int64[N] on the test tweets, by name; the published ones where given."""
    commonest = int(test.counts(len(LABELS)).argmax())
    rows = {
        f"majority class (always {LABELS[commonest]})": np.full(len(test), commonest),
        f"VADER, neutral within ±{VADER_NEUTRAL}": vader(test.texts),
    }
    return rows if other is None else rows | {"published": other}
