"""Programs of PyTorch's operators, and what is refused as one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from handlers.engine import Engine, open_network
from handlers.program import Program


def write(directory: Path, *steps: dict[str, Any], **changes: Any) -> Path:
    """A program of `steps` on `x` with the weight [1, 2], whose logits are the value `y`."""
    np.array([1, 2], np.float32).tofile(directory / "model.weights")
    program = {
        "format": 1,
        "inputs": ["x"],
        "weights": {"w": {"dtype": "float32", "shape": [2], "offset": 0}},
        "steps": [{"kwargs": {}, "out": "y", **step} for step in steps],
        "output": {"value": "y"},
        **changes,
    }
    file = directory / "program.json"
    file.write_text(json.dumps(program), encoding="utf-8")
    return file


def value(name: str) -> dict[str, str]:
    return {"value": name}


ADD = {"op": "add.Tensor", "args": [value("x"), value("w")]}
X = np.array([[1.0, -1.0], [0.5, 4.0]], np.float32)


def test_steps_run_in_order_with_weights_numbers_and_lists(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        {"op": "split.Tensor", "args": [value("x"), 1, 1], "out": ["a", "b"]},
        {"op": "cat.default", "args": [[value("b"), value("a")], -1], "out": "swapped"},
        {"op": "add.Tensor", "args": [value("swapped"), value("w")], "kwargs": {"alpha": 2}, "out": "sum"},
        {"op": "clamp.default", "args": [value("sum"), {"float": "-inf"}, 6.5]},
    )
    logits = Program(file, 1).run({"x": X})
    assert logits.dtype == np.float32
    assert logits.tolist() == [[1.0, 5.0], [6.0, 4.5]]


def test_the_archive_decides_the_engine(tmp_path: Path) -> None:
    with pytest.raises(Exception, match=r"model\.onnx"):
        open_network(tmp_path, 1)
    write(tmp_path, ADD)
    network = open_network(tmp_path, 1)
    assert not isinstance(network, Engine)
    assert network.run({"x": X}).tolist() == [[2.0, 1.0], [1.5, 6.0]]


@pytest.mark.parametrize("threads", [1, 2])
def test_torch_has_the_threads_of_the_plan(tmp_path: Path, threads: int) -> None:
    before = torch.get_num_threads()
    try:
        Program(write(tmp_path, ADD), threads)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_an_operator_that_writes_to_a_weight_never_changes_the_file(tmp_path: Path) -> None:
    file = write(tmp_path, {"op": "add_.Tensor", "args": [value("w"), 5], "out": "z"}, ADD)
    assert Program(file, 1).run({"x": X}).tolist() == [[7.0, 6.0], [6.5, 11.0]]
    assert np.fromfile(tmp_path / "model.weights", np.float32).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    "name",
    [
        "from_file.default",
        "from_file.out",
        "save.default",
        "load.default",
        "add.Nothing",
        "__class__.mro",
        "ops.load_library",
        "add.Tensor.__call__",
        "",
    ],
)
def test_only_operators_on_tensors_can_be_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"is no operator of this version of torch|reaches files"):
        Program(write(tmp_path, {"op": name, "args": ["secret", True, 8]}), 1)
    assert not (tmp_path / "secret").exists()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": 2}, r"program\.json has format 2, and these handlers read 1"),
        ({"weights": {"w": {"dtype": "object", "shape": [1], "offset": 0}}}, "the weight w is of type object"),
        ({"weights": {"w": {"dtype": "float32", "shape": [3], "offset": 0}}}, "buffer is smaller than requested"),
        ({"weights": {"w": {"dtype": "float32", "shape": [2], "offset": 4}}}, "buffer is smaller than requested"),
        ({"weights": {"w": {"dtype": "float32", "shape": [-1], "offset": 0}}}, "the weight w has the shape"),
    ],
)
def test_a_program_that_does_not_fit_is_refused_at_load(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Program(write(tmp_path, ADD, **changes), 1)
