"""What in a checkpoint would have transformers run other code than its own, or read other files than the checkpoint's.

Nothing of that is ever run, asked about or fetched: a checkpoint that needs it is refused before anything is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from marsmith.errors import CheckpointError
from marsmith.ground.files import is_file
from marsmith.recipe.json_file import entries, read_object
from marsmith.recipe.weights import is_plain

# The settings that transformers reads of a checkpoint, for its model, tokenizer and processors.
SETTINGS = (
    "config.json",
    "generation_config.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
)
ADAPTER = "adapter_config.json"
# Python modules and repositories, whose code is imported.
CODE_KEYS = frozenset({"auto_map", "custom_pipelines", "custom_generate"})
# Attention and kernels: what is not transformers' own on a CPU comes from a repository of the hub.
IMPLEMENTATION_KEYS = frozenset(
    {"attn_implementation", "_attn_implementation", "_attn_implementation_internal"}
    | {"experts_implementation", "_experts_implementation"}
)
OWN_IMPLEMENTATIONS = frozenset({"", "eager", "sdpa", "grouped_mm", "batched_mm"})
KERNEL_KEYS = frozenset({"use_kernels", "kernel_config"})
# Weights that come from elsewhere.
BACKBONE_KEYS = frozenset({"use_pretrained_backbone", "use_timm_backbone"})
QUANTISATION_KEYS = frozenset({"quantization_config", "compression_config"})
# Keys that name files, beside those that end in FILE_ENDINGS.
FILE_KEYS = frozenset({"vocab", "merges", "init_inputs", "transformers_weights"})
FILE_ENDINGS = ("_file", "_files")


@dataclass(frozen=True, slots=True)
class Foreign:
    """A key of a settings file: what it would do, and what to do about it."""

    file: str
    key: str
    does: str
    remedy: str

    def __str__(self) -> str:
        return f"The key {self.key} of {self.file} {self.does}. {self.remedy}"


def refuse_foreign(path: Path) -> None:
    """Raise CheckpointError for a checkpoint that needs other code than transformers' own, or other files."""
    for found in foreign(path):
        raise CheckpointError(f"The checkpoint {path} cannot be built from. {found}")


def foreign(path: Path) -> Iterator[Foreign]:
    """What the settings of the checkpoint in a directory would have run or read. Raises CheckpointError.

    The checkpoint's files are read as data; nothing is imported.
    """
    for name in SETTINGS:
        if is_file(path / name):
            found = {
                key: Foreign(name, key, *said)
                for key, value, depth in entries(read_object(path / name))
                if value and (said := _does(key, value, path, top=depth == 1))
            }
            yield from found.values()
    if is_file(path / ADAPTER):
        yield Foreign(
            ADAPTER,
            "base_model_name_or_path",
            "makes it an adapter of another checkpoint, which would be fetched",
            "Merge the adapter into its base model (merge_and_unload of peft), and save the whole model.",
        )


def _does(key: str, value: Any, path: Path, *, top: bool) -> tuple[str, str] | None:
    """What a key with this value does, and the remedy; None where it is harmless."""
    if key in CODE_KEYS and isinstance(value, (dict, list, str)):
        return (
            "names Python code of the checkpoint's own, which is never run",
            "Choose a checkpoint whose classes are transformers' own; if these are too, remove the key, and the build "
            "compares the answers.",
        )
    if key in IMPLEMENTATION_KEYS and not set(_strings(value)) <= OWN_IMPLEMENTATIONS:
        return (
            "names an implementation that is not transformers' own on a CPU, and would be fetched as code",
            "Remove the key.",
        )
    if key in KERNEL_KEYS and value is not False:
        return "asks for kernels, which would be fetched as code", "Remove the key."
    if key in BACKBONE_KEYS and value is not False:
        return "takes a part of the network from elsewhere", "Save the whole model with save_pretrained."
    if key in QUANTISATION_KEYS:
        return (
            "says that the weights are quantised, for code of other packages",
            'Name the checkpoint before it was quantised, and set precision = "int8" in the recipe.',
        )
    if key == "configuration_files":
        return "names other configurations for other versions of transformers", "Keep one config.json without the key."
    if top and (key in FILE_KEYS or key.endswith(FILE_ENDINGS)):
        for name in _strings(value):
            if _leads_out(name, path, key):
                return (
                    f"names {name[:100]!r}, which is not a file in the checkpoint's directory",
                    "Put the file there, and name it without a path, or remove the key.",
                )
    return None


def _leads_out(name: str, path: Path, key: str) -> bool:
    """Whether it names a file outside the directory that is there.

    Old versions of transformers noted where they had found a file: what leads nowhere, no version reads.
    """
    if is_plain(name):
        return False
    try:
        return key == "transformers_weights" or (path / name).exists()
    except (OSError, ValueError):
        return False


def _strings(value: Any) -> Iterator[str]:
    """All strings of a JSON value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _strings(one)
