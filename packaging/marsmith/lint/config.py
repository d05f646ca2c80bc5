"""M2: model-config.yaml, as TorchServe 0.12 reads it (ModelConfig.java), which ignores what it does not understand."""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Iterator, Mapping
from typing import Any

from marsmith.ground.limits import MAX_YAML_BYTES
from marsmith.ground.yamls import Document, YamlFault, load
from marsmith.lint.findings import Finding
from marsmith.lint.manifest import named
from marsmith.lint.tree import Tree
from marsmith.mar.members import CONFIG

# The least value of each key that is a whole number. Below it TorchServe takes a default, and for maxBatchDelay 100.
INTEGERS = {
    "minWorkers": 1,
    "maxWorkers": 1,
    "batchSize": 1,
    "maxBatchDelay": 1,
    "responseTimeout": 1,
    "startupTimeout": 1,
    "maxRetryTimeoutInSec": 0,
    "clientTimeoutInMills": 0,
    "jobQueueSize": 1,
    "parallelLevel": 0,
    "sequenceMaxIdleMSec": 0,
    "sequenceTimeoutMSec": 0,
    "maxSequenceJobQueueSize": 1,
    "maxNumSequence": 1,
}
MAX_INTEGER = 2**31 - 1  # Java's Integer; a larger number is another type there, and ignored
BOOLEANS = ("useJobTicket", "continuousBatching", "sequenceBatching", "asyncCommunication", "useVenv")
CHOICES = {"deviceType": ("cpu", "gpu"), "parallelType": ("pp", "tp", "pptp", "custom")}
LISTS = ("deviceIds",)
# Sections that handlers read, of TorchServe and by its conventions; torchrun is the frontend's.
SECTIONS = ("handler", "micro_batching", "torchrun", "pippy", "deepspeed", "dali")
OTHERS = ("pt2",)
KEYS = (*INTEGERS, *BOOLEANS, *CHOICES, *LISTS, *SECTIONS, *OTHERS)
SPELLINGS = {key.replace("_", "").lower(): key for key in KEYS}
# Their defaults differ between config.properties, the registration's query and this file (pytorch/serve#1591, #2851).
WORKERS = frozenset({"minWorkers", "maxWorkers"})
EXPLICIT = ("minWorkers", "maxWorkers", "batchSize", "maxBatchDelay", "responseTimeout", "startupTimeout")
# How alike a key must be to be meant: one slip in ten letters.
CLOSE = 0.8


def lint_config(tree: Tree, manifest: Mapping[str, Any]) -> list[Finding]:
    """What is wrong with the configuration that the manifest names, or with there being none."""
    name = named(manifest, "configFile")
    member = posixpath.normpath(name)
    if not name:
        return [_unnamed(tree)]
    if member not in tree.sizes or tree.sizes[member] > MAX_YAML_BYTES:
        return []  # reported as a file that is missing, or too large
    text = tree.text(member, MAX_YAML_BYTES)
    if text is None:
        return [_broken(member, "it is no UTF-8 text that can be read")]
    try:
        document = load(text)
    except YamlFault as fault:
        return [_broken(member, str(fault))]
    config = document.value
    if not isinstance(config, dict):
        return [_broken(member, "it is empty" if config is None else "it is no mapping of keys to values")]
    if not all(isinstance(key, str) for key in config):
        return [_broken(member, "a key is no text")]
    return [*_lint_twice(document, member), *_lint_mapping(config, member)]


def _unnamed(tree: Tree) -> Finding:
    if CONFIG in tree.sizes:
        return Finding(
            "M202", CONFIG, "Nobody reads it: the manifest does not name it.", "Name it as model.configFile."
        )
    return Finding(
        "M201",
        CONFIG,
        "Without it TorchServe starts one worker for each core, each with a batch size of 1.",
        "Write one with workers, batch and timeouts, and name it as model.configFile.",
    )


def _broken(member: str, reason: str) -> Finding:
    return Finding(
        "M203", member, f"TorchServe cannot read the file: {reason}.", "Write one YAML mapping, such as minWorkers: 1."
    )


def _lint_twice(document: Document, member: str) -> Iterator[Finding]:
    for key, line in document.twice:
        yield Finding(
            "M204", f"{member}:{line}", f"The key {key} stands twice, and the last one wins.", "Keep one of them."
        )


def _lint_mapping(config: Mapping[str, Any], member: str) -> Iterator[Finding]:
    for key, value in config.items():
        yield from _lint_value(key, value, member) if key in KEYS else _lint_unknown(key, member)
    yield from _lint_workers(config, member)
    missing = [key for key in EXPLICIT if key not in config]
    if not WORKERS.isdisjoint(config):
        missing = [key for key in missing if key not in WORKERS]  # one without the other is a finding of its own
    if missing:
        yield Finding(
            "M211",
            member,
            f"Left to defaults that differ by how the model is registered: {', '.join(missing)}.",
            "Give each of them a value.",
        )


def _lint_unknown(key: str, member: str) -> Iterator[Finding]:
    meant = SPELLINGS.get(key.replace("_", "").replace("-", "").lower())
    if meant:
        yield Finding("M205", f"{member}: {key}", f"TorchServe ignores {key} without a word.", f"Write {meant}.")
        return
    close = difflib.get_close_matches(key, KEYS, n=1, cutoff=CLOSE)
    yield Finding(
        "M206",
        f"{member}: {key}",
        f"TorchServe does not know the key {key} and ignores it.",
        f"Did you mean {close[0]}?" if close else "Move it under handler: if the handler reads it, or take it out.",
    )


def _lint_value(key: str, value: object, member: str) -> Iterator[Finding]:
    where = f"{member}: {key}"
    wanted = _wanted(key)
    if not _fits(key, value):
        yield Finding(
            "M207", where, f"{key} must be {wanted}, and TorchServe ignores anything else.", f"Make it {wanted}."
        )
    elif key in INTEGERS and isinstance(value, int) and not INTEGERS[key] <= value <= MAX_INTEGER:
        yield Finding(
            "M208",
            where,
            f"TorchServe does not take the {key} that is given, and uses a default.",
            f"Give it a value from {INTEGERS[key]} to {MAX_INTEGER}.",
        )
    elif key in CHOICES and isinstance(value, str) and value.lower() not in CHOICES[key]:
        yield Finding(
            "M208", where, f"TorchServe ignores this {key}.", f"Use one of {', '.join(CHOICES[key])}, or leave it out."
        )


def _wanted(key: str) -> str:
    if key in INTEGERS:
        return "a whole number without quotes or point"
    if key in BOOLEANS:
        return "true or false"
    if key in CHOICES:
        return "a text"
    if key in LISTS:
        return "a list of whole numbers"
    return "a section with keys of its own" if key in SECTIONS else "a text or a section"


def _fits(key: str, value: object) -> bool:
    if key in INTEGERS:
        return type(value) is int  # True is an int too
    if key in BOOLEANS:
        return isinstance(value, bool)
    if key in CHOICES:
        return isinstance(value, str)
    if key in LISTS:
        return isinstance(value, list) and all(type(one) is int for one in value)
    return isinstance(value, dict) or (key in OTHERS and isinstance(value, str))


def _lint_workers(config: Mapping[str, Any], member: str) -> Iterator[Finding]:
    """pytorch/serve#2038, #3339."""
    least, most = config.get("minWorkers"), config.get("maxWorkers")
    where = f"{member}: maxWorkers"
    if len(WORKERS & config.keys()) == 1:
        given, lacking = ("minWorkers", "maxWorkers") if "minWorkers" in config else ("maxWorkers", "minWorkers")
        yield Finding("M209", where, f"TorchServe ignores {given} without {lacking}.", "Give both the same value.")
    elif type(least) is int and type(most) is int and least > most:
        yield Finding("M209", where, "maxWorkers is below minWorkers.", "Give both the same value.")
    elif type(least) is int and type(most) is int and least < most:
        yield Finding(
            "M210",
            where,
            f"TorchServe starts {least} workers and never more by itself.",
            "Give both the number of workers that you want.",
        )
