"""Programs of PyTorch's operators, and what is refused as one."""

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from handlers.engine import Engine, open_network
from handlers.operators import OPERATORS, is_allowed
from handlers.program import TRAINING, Program


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


def test_a_step_that_writes_to_a_weight_is_refused_at_load(tmp_path: Path) -> None:
    file = write(tmp_path, {"op": "add_.Tensor", "args": [value("w"), 5], "out": "z"}, ADD)
    with pytest.raises(ValueError, match=r"aten\.add_\.Tensor writes to the weight w"):
        Program(file, 1)


# The last two say nowhere that what they make is what they got.
@pytest.mark.parametrize(
    ("op", "more"),
    [
        ("select.int", [0, 0]),
        ("view.default", [[1, 2]]),
        ("as_strided.default", [[1], [1], 1]),
        ("detach.default", []),
        ("dropout.default", [0.5, False]),
        ("type_as.default", [value("x")]),
    ],
)
def test_no_request_finds_what_another_wrote_to_a_view_of_a_weight(tmp_path: Path, op: str, more: list[Any]) -> None:
    view = {"op": op, "args": [value("w"), *more], "out": "view"}
    program = Program(write(tmp_path, view, {"op": "add_.Tensor", "args": [value("view"), 5], "out": "z"}, ADD), 1)
    for _ in range(2):
        with pytest.raises(ValueError, match="the program writes to a weight"):
            program.run({"x": X})
    assert program._weights["w"].tolist() == [1.0, 2.0]
    assert np.fromfile(tmp_path / "model.weights", np.float32).tolist() == [1.0, 2.0]


def test_what_a_request_made_may_be_written_to(tmp_path: Path) -> None:
    steps = [{**ADD, "out": "sum"}, {"op": "mul_.Tensor", "args": [value("sum"), value("w")]}]
    program = Program(write(tmp_path, *steps), 1)
    for _ in range(2):
        assert program.run({"x": X}).tolist() == [[2.0, 2.0], [1.5, 12.0]]


def test_a_program_without_weights_loads(tmp_path: Path) -> None:
    file = write(tmp_path, {"op": "neg.default", "args": [value("x")]}, weights={})
    (tmp_path / "model.weights").write_bytes(b"")
    assert Program(file, 1).run({"x": X}).tolist() == (-X).tolist()


@pytest.mark.parametrize(
    "name",
    [
        "from_file.default",
        "save.default",
        "load.default",
        "__class__.mro",
        "ops.load_library",
        "add.Tensor.__call__",
        "",
    ],
)
def test_only_operators_on_tensors_can_be_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match=r"is no operator of this version of torch|is not among the operators"):
        Program(write(tmp_path, {"op": name, "args": ["secret", True, 8]}), 1)
    assert not (tmp_path / "secret").exists()


NOT_AMONG = "is not among the operators that these handlers run"
NO_TENSORS = "does not make tensors or numbers of tensors and numbers alone"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        # What prints, makes text of numbers, or changes the process.
        ("_print.default", NOT_AMONG),
        ("warn.default", NOT_AMONG),
        ("chr.default", NOT_AMONG),
        ("format.default", NOT_AMONG),
        ("manual_seed.default", NOT_AMONG),
        ("set_grad_enabled.default", NOT_AMONG),
        ("Delete.Dict_str", NOT_AMONG),
        ("add.str", NO_TENSORS),
        # What reads or writes memory that is not its own.
        ("_sparse_coo_tensor_unsafe.default", NOT_AMONG),
        ("to_sparse.default", NOT_AMONG),
        ("_unsafe_index.Tensor", NOT_AMONG),
        ("set_.source_Tensor", NOT_AMONG),
        ("resize_.default", NOT_AMONG),
        ("fbgemm_linear_fp16_weight.default", NOT_AMONG),
        ("empty.memory_format", NOT_AMONG),
        ("new_empty.default", NOT_AMONG),
        ("native_dropout.default", NOT_AMONG),
        ("add.out", "writes to more than its first argument"),
        ("rand.default", NOT_AMONG),
        ("add.Nothing", "is no operator of this version of torch"),
    ],
)
def test_what_no_network_needs_is_refused_at_load(tmp_path: Path, name: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        Program(write(tmp_path, {"op": name, "args": []}), 1)


def test_every_operator_that_is_allowed_exists() -> None:
    known = {schema.name.removeprefix("aten::") for schema in torch._C._jit_get_all_schemas()}
    assert sorted(OPERATORS - known) == []


@pytest.mark.slow
def test_no_operator_that_is_left_makes_text_or_answers_by_chance(tmp_path: Path) -> None:
    """Of all overloads that this version of torch has of the packets that are allowed."""
    accepted = []
    for schema in torch._C._jit_get_all_schemas():
        name = f"{schema.name.removeprefix('aten::')}.{schema.overload_name or 'default'}"
        if schema.name.startswith("aten::") and is_allowed(schema.name.removeprefix("aten::")):
            with suppress(ValueError):
                Program(write(tmp_path, {"op": name, "args": [0]}), 1)
                accepted.append((name, schema))
    assert len(accepted) > len(OPERATORS)
    for name, schema in accepted:
        assert schema.returns
        assert not re.search(r"str|Dict|Any|\bt\b|complex", " ".join(str(one.type) for one in schema.returns))
        assert not {"Generator", "filename"} & set(re.split(r"\W+", str(schema)))
        packet, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, packet), overload)
        by_chance = torch.Tag.nondeterministic_seeded in operator.tags
        assert not by_chance or TRAINING & {argument.name for argument in schema.arguments}, name


@pytest.mark.parametrize(
    ("op", "args", "kwargs"),
    [
        ("dropout.default", [value("x"), 0.5, True], {}),
        ("dropout.default", [value("x"), 0.5], {"train": True}),
        ("dropout.default", [value("x"), 0.5, value("x")], {}),
        ("batch_norm.default", [value("x"), None, None, value("w"), value("w"), True, 0.1, 1e-5, False], {}),
        ("scaled_dot_product_attention.default", [value("x"), value("x"), value("x"), None, 0.5], {}),
    ],
)
def test_a_call_as_in_training_is_refused_at_load(
    tmp_path: Path, op: str, args: list[Any], kwargs: dict[str, Any]
) -> None:
    """Dropout answers by chance, and a batch norm that learns writes to weights without a word in its schema."""
    with pytest.raises(ValueError, match="is called as in training"):
        Program(write(tmp_path, {"op": op, "args": args, "kwargs": kwargs}), 1)


def test_what_is_written_to_is_named_first(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is called without its first argument"):
        Program(write(tmp_path, {"op": "relu_.default", "args": [], "kwargs": {"self": value("w")}}), 1)


@pytest.mark.parametrize("args", [[[100], [1], 0], [[2], [1], 1_000_000], [[2], [-1], 1], [[2], [1], -1]])
def test_a_view_stays_within_its_tensor(tmp_path: Path, args: list[Any]) -> None:
    """PyTorch checks that itself."""
    program = Program(write(tmp_path, {"op": "as_strided.default", "args": [value("w"), *args]}), 1)
    with pytest.raises(RuntimeError, match=r"out of bounds|Negative strides|invalid storage offset"):
        program.run({"x": X})


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
