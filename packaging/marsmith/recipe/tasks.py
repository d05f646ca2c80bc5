"""What each task means to the steps of a build: the recipe's keys, the checkpoint, the members, the requirements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TaskName = Literal["sentiment", "food", "custom"]

CHECKPOINT_KEYS = frozenset({"checkpoint", "revision", "allow_pickle", "precision", "accuracy"})
# What a build writes into model/ whatever the task, and for every checkpoint.
SETTINGS_MEMBERS = frozenset({"serving.json"})
NETWORK_MEMBERS = SETTINGS_MEMBERS | {"config.json", "model.onnx", "program.json", "model.weights"}


@dataclass(frozen=True, slots=True)
class Task:
    """One kind of model. `section` is the part of serving.json that says how its network is fed.

    A task without a section has neither network nor checkpoint, and no handler but the recipe's own. `keys` are those
    of the recipe that not every task takes, `members` the names in model/ that a build may write. `requirements` are
    what the handlers import there, beside the standard library; never torch: the server's own must stay. The
    architecture's class name ends in one of `architectures`, and one of `preprocessing` lies beside it.
    """

    keys: frozenset[str]
    members: frozenset[str]
    requirements: tuple[str, ...]
    section: Literal["text", "image"] | None = None
    architectures: tuple[str, ...] = ()
    preprocessing: tuple[str, ...] = ()


TASKS: dict[TaskName, Task] = {
    "sentiment": Task(
        keys=CHECKPOINT_KEYS | {"normalise", "long_text"},
        members=NETWORK_MEMBERS | {"tokenizer.json"},
        requirements=("numpy", "onnxruntime", "tokenizers"),
        section="text",
        architectures=("ForSequenceClassification",),
        preprocessing=("tokenizer.json", "vocab.txt", "vocab.json", "sentencepiece.bpe.model"),
    ),
    "food": Task(
        keys=CHECKPOINT_KEYS | {"nutrition", "top_k", "decode"},
        members=NETWORK_MEMBERS | {"nutrition.json"},
        requirements=("numpy", "onnxruntime", "pillow"),
        section="image",
        architectures=("ForImageClassification", "ForImageClassificationWithTeacher"),
        preprocessing=("preprocessor_config.json",),
    ),
    "custom": Task(keys=frozenset(), members=SETTINGS_MEMBERS, requirements=("numpy", "onnxruntime")),
}


def owners(key: str) -> list[TaskName]:
    """The tasks that take a recipe's key, where not every task does."""
    return [name for name, task in TASKS.items() if key in task.keys]
