"""Pickles are told by their first bytes. The files are real ones, written by pickle, torch, numpy and joblib."""

import io
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import joblib  # type: ignore[import-untyped]
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import save as save_safetensors

from marsmith.ground.limits import MAX_HEAD_BYTES
from marsmith.lint.pickles import kind_of
from tests.packaging.lint.trees import codes, lint_with, only


def written(write: Callable[[io.BytesIO], Any]) -> bytes:
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.jit is deprecated, and TorchServe's handlers load nothing else
        write(buffer)
    return buffer.getvalue()


class Double(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


def traced() -> Any:
    trace: Any = torch.jit.trace
    return trace(torch.nn.Linear(2, 2), torch.zeros(1, 2))


def exported() -> torch.export.ExportedProgram:
    return torch.export.export(torch.nn.Linear(2, 2), (torch.zeros(1, 2),))


STATE = {"weight": torch.arange(3000.0)}
PICKLES = {
    "state.pt": written(lambda stream: torch.save(STATE, stream)),
    "old.pth": written(lambda stream: torch.save(STATE, stream, _use_new_zipfile_serialization=False)),
    "module.bin": written(lambda stream: torch.save(torch.nn.Linear(2, 2), stream)),
    "data": pickle.dumps({"a": list(range(5000))}),
    "small": pickle.dumps(None),
    "large": pickle.dumps({"a": b"\1" * 100_000}),
    "oldest.pkl": pickle.dumps({"a": 1}, protocol=0),
    "objects.npy": written(lambda stream: np.save(stream, np.array([{}, 1], dtype=object))),
    "objects.npz": written(lambda stream: np.savez(stream, a=np.array([{}], dtype=object))),
    "forest.joblib": written(lambda stream: joblib.dump({"a": np.zeros(3)}, stream, compress=3)),
    "program.pt2": written(lambda stream: torch.export.save(exported(), stream)),
    "training_args.bin": written(lambda stream: torch.save({"lr": 1e-4}, stream)),
}
HARMLESS = {
    "weights.safetensors": save_safetensors(STATE),
    "array.npy": written(lambda stream: np.save(stream, np.zeros(3))),
    "arrays.npz": written(lambda stream: np.savez(stream, a=np.zeros(3))),
    "script.pt": written(lambda stream: torch.jit.save(torch.jit.script(Double()), stream)),
    "extra.pt": written(lambda stream: torch.jit.save(torch.jit.script(Double()), stream, _extra_files={"a": b"1"})),
    "traced.pt": written(lambda stream: torch.jit.save(traced(), stream)),
    "text.txt": b"\x80",
    "zeros.bin": bytes(8),
    "empty": b"",
}


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_with_a_mark_is_told_by_content(protocol: int) -> None:
    assert kind_of("anything", pickle.dumps({"a": [1, 2.0, "x"]}, protocol=protocol)) == "pickle"


@pytest.mark.parametrize("name", PICKLES)
def test_a_pickle_is_a_warning_with_a_remedy(name: str) -> None:
    finding = only(lint_with({name: PICKLES[name]}), "M406")
    assert (finding.where, finding.severity) == (name, "warning")
    assert "safetensors" in finding.remedy


@pytest.mark.parametrize("name", HARMLESS)
def test_what_is_no_pickle_is_left_alone(name: str) -> None:
    assert codes(lint_with({name: HARMLESS[name]})) == []


@pytest.mark.parametrize("name", ["script.pt", "pickled.pt"])
def test_torchscript_is_told_from_a_pickle_by_its_first_record(name: str) -> None:
    data = {"script.pt": HARMLESS["script.pt"], "pickled.pt": PICKLES["state.pt"]}[name]
    assert kind_of("model.pt", data[:MAX_HEAD_BYTES]) == ("torchscript" if name == "script.pt" else "pickle")


STARTS = st.sampled_from([b"", b"\x80\x04", b"\x80\x02", b"PK\3\4", b"\x93NUMPY", b"\x80\x05\x95"])


@settings(deadline=None)
@given(st.binary(max_size=300), STARTS)
def test_any_bytes_are_judged_without_a_crash(data: bytes, start: bytes) -> None:
    assert kind_of("data", start + data) in (None, "pickle", "torchscript")
