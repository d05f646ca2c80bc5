"""Tweets from files of all kinds, and rows that are refused by their number and never quoted."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from training.errors import TrainingError
from training.sentiment import LABELS
from training.sentiment.data import Tweets, read, require_classes
from training.sentiment.mending import mended

TEXTS = ["no, just no", "see @user at http", "tab\tand “quotes”"]
SECRET = "do-not-show-me"


def jsonl(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return file


def parquet(file: Path, rows: list[dict[str, Any]]) -> Path:
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_list(rows).to_parquet(str(file))
    return file


def test_tsv_json_lines_and_parquet_are_read_alike(tmp_path: Path) -> None:
    rows = [{"text": text, "label": label} for label, text in enumerate(TEXTS)]
    lines = "".join(f"{row['label']}\t{row['text']}\n" for row in rows)
    (tmp_path / "a.tsv").write_text(lines.replace("\n", "\r\n", 1), "utf-8")
    files = [tmp_path / "a.tsv", jsonl(tmp_path / "a.jsonl", rows), parquet(tmp_path / "a.parquet", rows)]
    found = [read(str(file), "train", LABELS) for file in files]
    assert [tweets.texts for tweets in found] == [TEXTS] * 3
    assert [tweets.labels.tolist() for tweets in found] == [[0, 1, 2]] * 3


def test_a_label_may_be_a_name(tmp_path: Path) -> None:
    rows = [{"text": "x", "label": name} for name in ("positive", "negative")]
    (tmp_path / "a.tsv").write_text("positive\tx\nnegative\ty\n", "utf-8")
    assert read(str(tmp_path / "a.tsv"), "train", LABELS).labels.tolist() == [2, 0]
    assert read(str(jsonl(tmp_path / "a.jsonl", rows)), "train", LABELS).labels.tolist() == [2, 0]


def test_texts_are_normalised_as_the_handler_does_and_mended_only_where_asked(tmp_path: Path) -> None:
    file = tmp_path / "a.tsv"
    file.write_text("1\t@anna it\\u2019s &amp; https://example.org\n", "utf-8")
    assert read(str(file), "train", LABELS).texts == ["@user it\\u2019s &amp; http"]
    assert read(str(file), "train", LABELS, mend=True).texts == ["@user it\u2019s & http"]


def test_mending_undoes_csv_quotes() -> None:
    assert mended('"\\""so\\"" he said &lt;3"') == '"so" he said <3'


def test_the_hub_gives_the_named_split(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    asked = []

    def load_dataset(*names: object, split: str) -> Any:
        asked.append((*names, split))
        return datasets.Dataset.from_dict({"text": ["good @bob"], "label": [2]})

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    found = read("cardiffnlp/tweet_eval:sentiment", "validation", LABELS)
    assert asked == [("cardiffnlp/tweet_eval", "sentiment", "validation")]
    assert (found.texts, found.labels.tolist()) == (["good @user"], [2])


def test_a_hub_that_cannot_be_reached_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")

    def load_dataset(*names: object, split: str) -> Any:
        raise ConnectionError("no network\nmore lines")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(TrainingError, match=r"^The test split of the data set a/b .*\(no network\): check [^\n]*\.$"):
        read("a/b", "test", LABELS)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.tsv", "", "holds no tweets"),
        ("a.jsonl", "", "holds no tweets"),
        ("a.tsv", f"1\tfine\n{SECRET}\n", "row 2, has no tab"),
        ("a.tsv", "1\tfine\n\n0\t  \n", "row 3, has no text"),
        ("a.tsv", f"1\tfine\n7\t{SECRET}\n", "row 2, has a label that is none of 0 negative, 1 neutral, 2 positive"),
        ("a.tsv", f"-1\t{SECRET}\n", "row 1, has a label"),
        ("a.tsv", f"{SECRET}\tfine\n", "row 1, has a label"),
        ("a.jsonl", f'{{"text": "x", "label": 1}}\n{{"text": "{SECRET}"\n', "row 2, is no JSON object"),
        ("a.jsonl", f'{{"text": "x", "label": 1}}\n["{SECRET}"]\n', "row 2, is no JSON object"),
        ("a.jsonl", f'{{"text": "x", "label": 1}}\n{{"text": "{SECRET}", "label": 1.5}}\n', "row 2, has a label"),
        ("a.jsonl", f'{{"tweet": "{SECRET}", "label": 1}}\n', "row 1, is no JSON object"),
        ("a.parquet", SECRET, "cannot be read as parquet"),
        ("a.csv", "1,x", "ends in none of .tsv, .jsonl, .parquet"),
    ],
)
def test_bad_rows_are_named_by_number_and_never_quoted(
    tmp_path: Path, name: str, content: str, says: str, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_text(content, "utf-8")
    with pytest.raises(TrainingError, match=says) as refused:
        read(str(file), "train", LABELS)
    assert SECRET not in str(refused.value)
    assert SECRET not in "".join(capfd.readouterr())
    assert "\n" not in str(refused.value)


def test_what_is_neither_text_nor_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"1\t\xff\xfe\n")
    with pytest.raises(TrainingError, match="not UTF-8"):
        read(str(tmp_path / "a.tsv"), "train", LABELS)
    with pytest.raises(TrainingError, match="There is no file"):
        read(str(tmp_path / "b.tsv"), "train", LABELS)


def test_parquet_without_the_columns_is_refused(tmp_path: Path) -> None:
    file = parquet(tmp_path / "a.parquet", [{"tweet": "x", "label": 1}])
    with pytest.raises(TrainingError, match="no columns label and text"):
        read(str(file), "train", LABELS)


def test_tweets_of_one_class_teach_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("1\tx\n1\ty\n", "utf-8")
    tweets: Tweets = read(str(tmp_path / "a.tsv"), "train", LABELS)
    with pytest.raises(TrainingError, match="All 2 tweets of here are neutral"):
        require_classes(tweets, "here", LABELS)
    require_classes(Tweets(["x", "y"], np.array([0, 1])), "here", LABELS)


def test_reading_needs_no_library_for_tsv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    (tmp_path / "a.tsv").write_text("1\tx\n", "utf-8")
    assert len(read(str(tmp_path / "a.tsv"), "train", LABELS)) == 1
