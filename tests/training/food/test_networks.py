import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from PIL import Image
from transformers import AutoConfig

from training.errors import TrainingError
from training.food.evaluate import predict
from training.food.heads import start_heads
from training.food.networks import Classifier, features_of, heads_of, layers_of, logits_of
from training.food.photos import Photos, decode
from training.food.preprocessing import Preprocessing, whole
from training.food.run_folder import export
from training.food.student import build


def test_a_stored_checkpoint_is_half_precision_and_loads_as_fp32(vit: Classifier, tmp_path: Path) -> None:
    export(vit, tmp_path, torch.float16)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
    }
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o644 for path in tmp_path.iterdir())
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float16"
    loaded = Classifier.read(str(tmp_path))
    assert loaded.model.dtype == vit.model.dtype == torch.float32
    assert (loaded.labels, loaded.see) == (vit.labels, vit.see)
    for name, tensor in vit.model.state_dict().items():
        assert torch.equal(loaded.model.state_dict()[name], tensor.half().float()), name


def test_the_stored_preprocessing_is_the_one_that_training_used(vit: Classifier, data: Path, tmp_path: Path) -> None:
    pil = pytest.importorskip("transformers.models.vit.image_processing_pil_vit")
    export(vit, tmp_path / "out", torch.float16)
    photo = data / "train/Apple/0.png"
    processor = pil.ViTImageProcessorPil.from_pretrained(tmp_path / "out", trust_remote_code=False)
    wanted = processor(Image.open(photo), return_tensors="pt").pixel_values
    found = vit.see(whole(decode(photo.read_bytes(), 28)[None]))
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-6)


def write_processor(folder: Path, **changes: object) -> None:
    (folder / "preprocessor_config.json").write_text(json.dumps({"size": {"height": 28, "width": 28}} | changes))


@pytest.mark.parametrize(
    ("changes", "wanted"),
    [
        ({}, Preprocessing(28, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))),
        ({"image_mean": [0.1, 0.2, 0.3], "image_std": [1, 2, 3]}, Preprocessing(28, (0.1, 0.2, 0.3), (1, 2, 3))),
        ({"size": 56}, Preprocessing(56, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))),
        (
            {"size": {"shortest_edge": 32}, "do_center_crop": True, "crop_size": {"height": 28, "width": 28}},
            Preprocessing(28, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
        ),
    ],
)
def test_a_checkpoints_own_preprocessing_is_honoured(
    vit: Classifier, tmp_path: Path, changes: dict[str, object], wanted: Preprocessing
) -> None:
    export(vit, tmp_path, torch.float32)
    write_processor(tmp_path, **changes)
    assert Classifier.read(str(tmp_path)).see == wanted


def test_pictures_that_are_not_square_are_refused(vit: Classifier, tmp_path: Path) -> None:
    export(vit, tmp_path, torch.float32)
    write_processor(tmp_path, size={"height": 28, "width": 42})
    with pytest.raises(TrainingError, match=r"cannot be used. Its pictures are not square \(\[28, 42\]\)"):
        Classifier.read(str(tmp_path))


@pytest.mark.parametrize("broken", ["missing", "cut"])
def test_a_checkpoint_that_is_not_whole_is_told(vit: Classifier, tmp_path: Path, broken: str) -> None:
    export(vit, tmp_path, torch.float32)
    weights = tmp_path / "model.safetensors"
    weights.unlink() if broken == "missing" else weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(TrainingError, match=r"The checkpoint .* cannot be read"):
        Classifier.read(str(tmp_path))


def test_the_head_is_a_linear_layer_on_the_features(vit: Classifier) -> None:
    pixels = torch.randn(2, 3, 28, 28)
    assert features_of(vit.model, pixels).shape == (2, 16)
    torch.testing.assert_close(vit.model.classifier(features_of(vit.model, pixels)), logits_of(vit.model, pixels))


def test_the_first_head_tells_apart_what_the_network_already_sees(vit: Classifier, photos: Photos) -> None:
    before = vit.model.vit.layers[0].mlp.fc1.weight.clone()
    start_heads(vit, photos)
    answers = predict(lambda pixels: logits_of(vit.model, pixels), vit.see, photos)
    assert (answers.argmax(dim=1) == photos.labels).all()
    assert torch.equal(vit.model.vit.layers[0].mlp.fc1.weight, before)


@pytest.mark.parametrize("labels", [(0, 2), (0, 1)])
def test_a_label_without_photos_keeps_its_head(vit: Classifier, photos: Photos, labels: tuple[int, int]) -> None:
    rows = torch.isin(photos.labels, torch.tensor(labels)).nonzero()[:, 0]
    some = Photos(photos.memory[rows], photos.labels[rows], photos.classes)
    (rest,) = {0, 1, 2} - set(labels)
    before = vit.model.classifier.weight.detach().clone()
    start_heads(vit, some)
    assert torch.equal(vit.model.classifier.weight[rest], before[rest])
    answers = predict(lambda pixels: logits_of(vit.model, pixels), vit.see, some)[:, list(labels)]
    assert (torch.tensor(labels)[answers.argmax(dim=1)] == some.labels).all()


def test_both_of_deits_heads_are_found_and_its_layers(make_vit: Callable[..., Classifier]) -> None:
    config = AutoConfig.for_model(
        "deit", **{key: getattr(make_vit().model.config, key) for key in ("hidden_size", "intermediate_size")}
    )
    config.num_attention_heads, config.num_hidden_layers, config.num_labels = 2, 3, 4
    config.architectures = ["DeiTForImageClassificationWithTeacher"]
    model = build(config)
    assert set(heads_of(model)) == {"cls_classifier", "distillation_classifier"}
    layers = layers_of(model)
    assert layers is not None
    assert len(layers) == 3
