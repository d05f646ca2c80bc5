"""Golden requests of a handler of one's own: what the recipe expects, else what the archive itself answers.

What is recorded at the build, every later worker must repeat, on this machine or another.
"""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from math import isfinite, log10
from pathlib import Path
from typing import Any

from marsmith.errors import GoldenError
from marsmith.evidence import golden
from marsmith.evidence.golden import DECIMALS, Golden, Question
from marsmith.evidence.replay import prediction_of
from marsmith.mar.members import Members
from marsmith.mar.writer import write_archive
from marsmith.recipe.recipe import Recipe
from marsmith.torchserve.worker import Worker, WorkerRequest


def record(recipe: Recipe, members: Members, scratch: Path) -> Golden:
    """The recipe's samples, or the probes of a task that has any, with what is expected of the archive of `members`.

    It is packed into the directory `scratch` and asked one by one what the recipe does not say; the build replays in
    batches, so an answer that depends on its neighbours or on chance shows. Raises RecipeError, ServerError when it
    does not load, and GoldenError for a sample that it refuses.
    """
    questions = list(golden.questions(recipe))
    unknown = [question for question in questions if question.expect is None]
    answers = iter(_ask(unknown, members, scratch / f"{recipe.name}.mar") if unknown else [])
    tolerance = golden.tolerance_of(recipe)
    return Golden(
        requests=[
            question.request(next(answers), whole=True, tolerance=tolerance)
            if question.expect is None
            else question.request(question.expect, tolerance=tolerance)
            for question in questions
        ]
    )


def _ask(questions: Sequence[Question], members: Members, path: Path) -> list[Any]:
    write_archive(path, members)
    with Worker(path) as worker:
        return [_answer(question, worker) for question in questions]


def _answer(question: Question, worker: Worker) -> Any:
    prediction = prediction_of(worker.predict([WorkerRequest.raw(*question.payload())])[0])
    if prediction.status != HTTPStatus.OK:
        raise GoldenError(
            f"The handler answers {question.name} with status {prediction.status} ({prediction.message}): correct the "
            "sample or the handler."
        )
    try:
        if prediction.body is not None:
            return _rounded(prediction.body)
    except ValueError:
        pass
    raise GoldenError(f"The handler answers {question.name} with null or no JSON: let it answer with a value.")


def _rounded(value: Any) -> Any:
    """The answer with as many digits as the tolerance can tell apart: the last ones differ between CPUs.

    Raises ValueError for a number that JSON does not have.
    """
    if isinstance(value, dict):
        return {key: _rounded(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, float):
        if not isfinite(value):
            raise ValueError(value)
        return round(value, DECIMALS - max(0, int(log10(abs(value) or 1))))
    return value
