"""Where tweets come from: a TSV, JSON lines or parquet file, or a data set of the Hugging Face hub."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from training.errors import TrainingError

# Number of the row from 1, label and text as they were found; None where there was none.
Row = tuple[int, Any, Any]
COLUMNS = ("label", "text")
HUB_ID = re.compile(r"^[\w.-]+(/[\w.-]+)?(:[\w.-]+)?\Z")


def rows(source: str, split: str) -> Iterator[Row]:
    """Yield the rows of a file, by its ending, or of `split` of a hub data set `owner/name` or `owner/name:config`.

    A TSV has `label<TAB>text` lines, the others have the columns label and text. Raises TrainingError.
    """
    path = Path(source)
    if path.is_file():
        reader = READERS.get(path.suffix.lower())
        if reader is None:
            raise TrainingError(f"{source} ends in none of {', '.join(READERS)}: convert it or rename it.")
        return reader(path)
    if path.suffix.lower() in READERS or path.exists() or not HUB_ID.match(source):
        raise TrainingError(f"There is no file {source}: give one, or a data set of the hub (owner/name:config).")
    return _hub(source, split)


def _tsv(path: Path) -> Iterator[Row]:
    for number, line in _lines(path):
        label, tab, text = line.partition("\t")
        if not tab:
            raise TrainingError(f"{path}, row {number}, has no tab: every line must be label<TAB>text.")
        yield number, label, text


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Lines that are not empty, by their number. Only line feeds end one: tweets hold other separators."""
    try:
        text = path.read_bytes().decode("utf-8-sig")  # read_text would end a line at a lone carriage return
    except UnicodeDecodeError:
        raise TrainingError(f"{path} is not UTF-8 text: save it as UTF-8.") from None
    lines = (line.removesuffix("\r") for line in text.split("\n"))
    return ((number, line) for number, line in enumerate(lines, start=1) if line)


def _json_lines(path: Path) -> Iterator[Row]:
    if path.stat().st_size == 0:
        return iter(())
    try:
        return _columns(_load("json", path), path)
    except TrainingError:
        _explain(path)
        raise


def _explain(path: Path) -> None:
    """Raise TrainingError for the first line that is no JSON object with a label and a text."""
    for number, line in _lines(path):
        try:
            value = json.loads(line)
        except ValueError:
            value = None
        if not isinstance(value, dict) or not set(COLUMNS) <= value.keys():
            raise TrainingError(
                f'{path}, row {number}, is no JSON object with "label" and "text": mend or leave out the line.'
            )


def _parquet(path: Path) -> Iterator[Row]:
    return _columns(_load("parquet", path), path)


def _load(kind: str, path: Path) -> Any:
    """Read a file with `datasets`, whose errors may quote it: they are neither logged nor passed on."""
    datasets = _datasets()
    with tempfile.TemporaryDirectory(prefix="marsmith-") as cache:
        try:
            loaded = datasets.load_dataset(
                kind, data_files=str(path), split="train", cache_dir=cache, keep_in_memory=True
            )
        except OSError:  # the disk's, which the command explains
            raise
        except Exception:
            raise TrainingError(f"{path} cannot be read as {kind}: give another file.") from None
    return loaded


def _hub(source: str, split: str) -> Iterator[Row]:
    name, _, config = source.partition(":")
    try:
        loaded = _datasets().load_dataset(name, config or None, split=split)
    except Exception as error:  # the client raises its own, requests' and OS errors
        reason = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise TrainingError(
            f"The {split} split of the data set {source} cannot be had from the Hugging Face hub ({reason}): "
            "check its name, its config and the network, or give a file."
        ) from None
    return _columns(loaded, source)


def _columns(loaded: Any, source: object) -> Iterator[Row]:
    if not set(COLUMNS) <= set(loaded.column_names):
        raise TrainingError(f"{source} has no columns label and text: rename its columns.")
    return zip(range(1, len(loaded) + 1), loaded["label"], loaded["text"], strict=True)


def _datasets() -> Any:
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    return datasets


READERS: dict[str, Callable[[Path], Iterator[Row]]] = {
    ".tsv": _tsv,
    ".jsonl": _json_lines,
    ".parquet": _parquet,
}
