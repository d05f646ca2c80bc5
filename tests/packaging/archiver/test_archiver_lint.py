"""What would not serve is refused before anything is written, as `marsmith lint` would."""

from pathlib import Path
from typing import Any

import pytest

from tests.packaging.archiver.packing import HANDLER, names, pack, refused, write

CLASSIFIER = (
    "from ts.torch_handler.image_classifier import ImageClassifier\n\n\nclass Mine(ImageClassifier):\n    pass\n"
)
TWO_CLASSES = "class One:\n    pass\n\n\nclass Two:\n    pass\n"


@pytest.mark.parametrize(
    ("files", "flags", "says"),
    [
        ({"broken.py": "def handle(:\n"}, {"handler": "broken.py"}, "broken.py"),
        ({"torch.py": HANDLER}, {"handler": "torch.py"}, "torch.py"),
        ({"extra/json.py": ""}, {"extra_files": "extra"}, "json.py"),
        ({"a.b.py": HANDLER}, {"handler": "a.b.py"}, "a.b"),
        ({"two.py": TWO_CLASSES}, {"handler": "two.py"}, "One, Two"),  # pytorch/serve#1260
        # pytorch/serve#1010
        (
            {"absent.py": f"import no_such_module\n\n\n{HANDLER}", "r.txt": "numpy\n"},
            {"handler": "absent.py", "requirements_file": "r.txt"},
            "no_such_module",
        ),
        ({}, {"handler": "handler.py:predict"}, "predict"),  # pytorch/serve#463
        ({}, {"model_name": "a..b"}, "a..b"),
        ({}, {"version": "../x y"}, "../x y"),
        ({}, {"version": ""}, "version"),
        ({"c.yaml": "a: [1"}, {"config_file": "c.yaml"}, "c.yaml"),
        ({"c.yaml": "minWorkers: 2\nmaxWorkers: 1\n"}, {"config_file": "c.yaml"}, "maxWorkers"),  # pytorch/serve#2038
        ({"model-config.yaml": "batchSize: 4\n"}, {"extra_files": "model-config.yaml"}, "model-config.yaml"),
        ({"r.txt": "numpy ==\n"}, {"requirements_file": "r.txt"}, "r.txt:1"),  # pytorch/serve#751
        ({"r.txt": "torch==2.4.0\n"}, {"requirements_file": "r.txt"}, "torch"),  # pytorch/serve#2238
        ({}, {"handler": "image_classifier"}, "serialized"),
        ({"model.bin": "w"}, {"handler": "image_classifier", "serialized_file": "model.bin"}, "model.bin"),
        ({"model.pth": "w"}, {"handler": "image_classifier", "serialized_file": "model.pth"}, "model.pth"),
        (
            {"model.safetensors": "w"},
            {"handler": "base_handler", "serialized_file": "model.safetensors"},
            ".safetensors",
        ),
        ({"mine.py": CLASSIFIER, "m.bin": "w"}, {"handler": "mine.py", "serialized_file": "m.bin"}, "m.bin"),
        ({"extra/.env": "KEY=1\n"}, {"extra_files": "extra"}, ".env"),
    ],
)
@pytest.mark.parametrize("archive_format", ["default", "no-archive"])
def test_what_would_not_serve_is_refused(
    here: Path, files: dict[str, str], flags: dict[str, Any], says: str, archive_format: str
) -> None:
    """torch-model-archiver packs every one of them without a word."""
    for name, content in files.items():
        write(here / name, content)
    sentence = refused(archive_format=archive_format, export_path="store", **flags)
    assert "would not serve as it should" in sentence
    assert says in sentence


@pytest.mark.parametrize(
    ("files", "flags"),
    [
        ({"my-handler.py": HANDLER}, {"handler": "my-handler.py"}),
        ({"mine.py": CLASSIFIER, "model.pt": "w"}, {"handler": "mine.py", "serialized_file": "model.pt"}),
        ({"model.onnx": "w"}, {"handler": "image_classifier", "serialized_file": "model.onnx"}),
        ({}, {"version": "v1-rc_2"}),
        ({}, {"model_name": "a.b_c-d"}),
    ],
)
def test_what_serves_is_packed(here: Path, files: dict[str, str], flags: dict[str, Any]) -> None:
    for name, content in files.items():
        write(here / name, content)
    assert names(pack(**flags).path) == ({*files} or {"handler.py"})


def test_what_may_be_meant_is_a_warning(here: Path) -> None:
    (warning,) = pack().warnings
    assert warning.where == "model-config.yaml"
