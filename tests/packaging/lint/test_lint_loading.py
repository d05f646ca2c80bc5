"""M110: what TorchServe's own handlers can load, judged with files that torch wrote."""

import pytest

from tests.packaging.lint.test_lint_pickles import HARMLESS, PICKLES
from tests.packaging.lint.trees import codes, lint_with, only

Members = dict[str, bytes | str]

MODEL = "import torch\nclass Net(torch.nn.Module):\n    pass\n"
SCRIPT, STATE = HARMLESS["script.pt"], PICKLES["state.pt"]


@pytest.mark.parametrize(
    ("weights", "data", "fine"),
    [
        ("m.pt", SCRIPT, True),
        ("m.onnx", b"\x08\x08", True),
        ("m.so", b"\x7fELF", True),
        ("m.pt", STATE, False),
        ("m.pth", SCRIPT, False),
        ("m.pth", STATE, False),
        ("m.bin", STATE, False),
        ("m.safetensors", HARMLESS["weights.safetensors"], False),
    ],
)
def test_without_a_model_file_the_weights_must_be_torchscript_or_onnx(weights: str, data: bytes, fine: bool) -> None:
    found = codes(lint_with({weights: data}, handler="base_handler", serializedFile=weights))
    assert ("M110" in found) is not fine


@pytest.mark.parametrize(
    ("weights", "data", "fine"), [("m.pth", STATE, True), ("m.bin", STATE, True), ("m.pt", SCRIPT, False)]
)
def test_with_a_model_file_the_weights_must_be_a_state_dict(weights: str, data: bytes, fine: bool) -> None:
    members: Members = {weights: data, "model.py": MODEL}
    found = codes(lint_with(members, handler="image_classifier", serializedFile=weights, modelFile="model.py"))
    assert ("M110" in found) is not fine


def test_a_handler_that_loads_needs_something_to_load() -> None:
    assert only(lint_with({}, handler="object_detector"), "M110").where == "object_detector"
    found = codes(lint_with({"model.py": MODEL}, handler="object_detector", modelFile="model.py"))
    assert found == ["M113"]  # its torchvision and captum are not on every server


def test_a_model_file_has_exactly_one_class_and_one_dot() -> None:
    two: Members = {"model.py": MODEL + "class Block(torch.nn.Module):\n    pass\n", "m.pth": STATE}
    findings = lint_with(two, handler="base_handler", serializedFile="m.pth", modelFile="model.py")
    assert "2 classes" in only(findings, "M110").message
    dotted: Members = {"my.model.py": MODEL, "m.pth": STATE}
    findings = lint_with(dotted, handler="base_handler", serializedFile="m.pth", modelFile="my.model.py")
    assert only(findings, "M110").remedy == "Name it model.py."


def test_the_text_classifier_needs_its_vocabulary() -> None:
    model = {"handler": "text_classifier", "serializedFile": "m.pt"}
    assert "source_vocab.pt" in only(lint_with({"m.pt": SCRIPT}, **model), "M110").message
    assert codes(lint_with({"m.pt": SCRIPT, "source_vocab.pt": STATE}, **model)) == ["M113", "M406"]


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("preprocess(self, data)", ["M110"]),
        ("initialize(self, context)", []),
        ("handle(self, data, context)", ["M110"]),
    ],
)
def test_a_subclass_is_judged_like_its_parent_unless_it_loads_by_itself(method: str, expected: list[str]) -> None:
    base = "from ts.torch_handler.base_handler import BaseHandler\n"
    code = f"{base}class Mine(BaseHandler):\n    def {method}:\n        pass\n"
    assert codes(lint_with({"handler.py": code})) == expected


def test_handlers_that_load_something_else_need_no_serialized_file() -> None:
    assert codes(lint_with({}, handler="trt_llm_handler")) == []
    assert codes(lint_with({})) == []
