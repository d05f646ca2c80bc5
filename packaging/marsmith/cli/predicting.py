"""`marsmith predict`: many inputs, one line each, nothing lost when one of them fails."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from marsmith.cli.tables import answer
from marsmith.errors import ClientError
from marsmith.ground.files import atomic
from marsmith.ground.untrusted import json_line
from marsmith.rest.client import Client, Prediction, text_lines

# What answers texts and files, in order.
Ask = Callable[[Sequence[str | Path]], Generator[Prediction, None, None]]


def predict_to(
    model: str,
    images: Sequence[Path],
    texts: Path | None,
    output: Path | None,
    url: str,
    headers: dict[str, str],
    *,
    ca: Path | None = None,
    as_json: bool,
    out: Console,
    err: Console,
) -> int:
    """`ask_to` about image files or the lines of `texts`, of a model on a TorchServe whose CA's certificate is `ca`."""
    client = Client(url, headers, ca)
    return ask_to(
        model,
        lambda inputs: client.predict_many(model, inputs),
        images,
        texts,
        output,
        as_json=as_json,
        out=out,
        err=err,
    )


def ask_to(
    model: str,
    ask: Ask,
    files: Sequence[Path],
    texts: Path | None,
    output: Path | None,
    *,
    as_json: bool,
    out: Console,
    err: Console,
) -> int:
    """Ask about files or the lines of `texts`; JSON lines go to `output` or, `as_json`, to `out`; else a table.

    A line names its input by file or line number, never by the text. Returns how many inputs failed. Raises
    ClientError, and then leaves no `output` behind, and KeyboardInterrupt: then what was answered is shown or written.
    """
    names, inputs = _inputs(files, texts)
    table = Table("input", "answer", "score", "note")
    done, failed, interrupted = 0, 0, False
    with _sink(output) as sink, _bar(err) as bar, closing(ask(inputs)) as answers:
        task = bar.add_task(f"asking {escape(model)}", total=len(inputs))
        try:
            for name, prediction in zip(names, answers, strict=True):
                line = json_line(_item(name, prediction), "utf-8" if sink else out.encoding) + "\n"
                if sink:
                    sink.write(line.encode("utf-8"))
                elif as_json:
                    out.file.write(line)
                else:
                    table.add_row(escape(str(name)), *map(escape, answer(prediction)))
                done, failed = done + 1, failed + (not prediction.ok)
                bar.advance(task)
        except KeyboardInterrupt:
            interrupted = True
    if not output and not as_json:
        out.print(table)
    if interrupted:
        err.print(f"Stopped after {done} of {len(inputs)} inputs.", soft_wrap=True, markup=False)
    if output:
        err.print(f"{done - failed} answered, {failed} failed: {output}", soft_wrap=True, markup=False)
    if interrupted:
        raise KeyboardInterrupt
    return failed


def _inputs(files: Sequence[Path], texts: Path | None) -> tuple[list[str | int], list[str | Path]]:
    if bool(files) == bool(texts):
        raise ClientError("Name either image files, or a text file with --file.")
    if texts is None:
        return [str(file) for file in files], list(files)
    texts_of = text_lines(texts)
    return list(range(1, len(texts_of) + 1)), list(texts_of)


def _item(name: str | int, prediction: Prediction) -> dict[str, Any]:
    result = {"result": prediction.body} if prediction.ok else {"error": prediction.message}
    key = "line" if isinstance(name, int) else "file"
    return {key: name, "status": prediction.status, **result}


@contextmanager
def _sink(output: Path | None) -> Iterator[IO[bytes] | None]:
    """A stream that becomes `output` when all went well. Raises ClientError when it cannot be written."""
    if output is None:
        yield None
        return
    try:
        with atomic(output) as stream:
            yield stream
    except OSError as error:
        raise ClientError(f"{output} cannot be written: {error.strerror}.") from None


def _bar(err: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(*columns, console=err, transient=True)
