"""The files of a checkpoint's weights: which transformers would load, and proof that each is whole."""

from __future__ import annotations

from pathlib import Path

from safetensors import SafetensorError, safe_open

from marsmith.errors import CheckpointError, first_line
from marsmith.ground.names import unsafe
from marsmith.ground.placeholders import what_stands_at
from marsmith.recipe.json_file import read_object

WEIGHTS = "model.safetensors"
WEIGHTS_INDEX = "model.safetensors.index.json"
PICKLED_WEIGHTS = "pytorch_model.bin"


def weight_files(path: Path, *, allow_pickle: bool) -> list[str]:
    """The names of what transformers loads weights from, in the directory `path`, in its order of preference.

    Of shards the index and the files that it names, in the order of their names; empty where there is none to load.
    Raises CheckpointError for an index that names anything but files beside it.
    """
    if (path / WEIGHTS).is_file():
        return [WEIGHTS]
    if (path / WEIGHTS_INDEX).is_file():
        return [WEIGHTS_INDEX, *_shards(path / WEIGHTS_INDEX)]
    return [PICKLED_WEIGHTS] if allow_pickle and (path / PICKLED_WEIGHTS).is_file() else []


def check_weights(path: Path, *, allow_pickle: bool) -> None:
    """Prove that the weights of a checkpoint are there and whole. Raises CheckpointError."""
    names = weight_files(path, allow_pickle=allow_pickle)
    if not names and (path / PICKLED_WEIGHTS).is_file():
        raise CheckpointError(
            f"{path} has its weights as a pickle only, which can run code. "
            "Save them with save_pretrained as safetensors, "
            "or set allow_pickle = true to read them with torch's restricted unpickler."
        )
    if not names:
        raise CheckpointError(f"{path} has no {WEIGHTS}: the checkpoint is not whole. Download or save it again.")
    for name in names:
        if name.endswith(".safetensors"):
            check_safetensors(path / name)
        elif name == PICKLED_WEIGHTS and (kind := what_stands_at(path / name)):
            raise CheckpointError(f"{path / name} is {kind}.")


def is_plain(name: object) -> bool:
    """Whether it names a file in the directory that it is looked for in, on every system."""
    return isinstance(name, str) and not unsafe(name) and "/" not in name


def check_safetensors(file: Path) -> None:
    """Prove that a safetensors file has a valid header, and every tensor whole. Raises CheckpointError."""
    if kind := what_stands_at(file):
        raise CheckpointError(f"{file} is {kind}.")
    try:
        with safe_open(file, "numpy") as tensors:
            count = len(list(tensors.keys()))
    except FileNotFoundError:
        raise CheckpointError(f"{file} is missing: the checkpoint is not whole. Download it again.") from None
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(
            f"{file} is not a whole safetensors file ({first_line(error)}): it is damaged, or its download was cut "
            "off. Download it again."
        ) from None
    if not count:
        raise CheckpointError(f"{file} holds no weights: save or download the checkpoint again.")


def _shards(index: Path) -> list[str]:
    weight_map = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{index} has no weight_map that names the files: save or download it again.")
    for shard in weight_map.values():
        if not is_plain(shard) or not str(shard).endswith(".safetensors"):
            raise CheckpointError(
                f"{index} names {str(shard)[:100]!r}, which is not a safetensors file beside it: weights are read from "
                "the checkpoint's own directory only. Put the file there, and correct the index."
            )
    return sorted(set(weight_map.values()))
