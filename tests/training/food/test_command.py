import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification

from training.food import distillation_loss, features, forward_seconds, load, logits, save, start_head
from training.grocery import Photos, normalise, read_photo
from training.tuning import predict


@pytest.fixture
def model() -> ViTForImageClassification:
    torch.manual_seed(6)
    config = ViTConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=28,
        patch_size=14,
        id2label={0: "Apple", 1: "Sour Cream", 2: "Red Beet"},
        label2id={"Apple": 0, "Sour Cream": 1, "Red Beet": 2},
    )
    return ViTForImageClassification(config).eval()


def test_a_saved_checkpoint_is_half_precision_and_loads_as_fp32(
    model: ViTForImageClassification, tmp_path: Path
) -> None:
    save(model, tmp_path, torch.float16)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
    }
    assert json.loads((tmp_path / "config.json").read_text())["dtype"] == "float16"
    loaded = load(tmp_path)
    assert loaded.dtype == model.dtype == torch.float32
    assert loaded.config.id2label == {0: "Apple", 1: "Sour Cream", 2: "Red Beet"}
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor.half().float()), name


def test_the_saved_preprocessing_is_the_one_that_training_used(
    model: ViTForImageClassification, tmp_path: Path
) -> None:
    pil = pytest.importorskip("transformers.models.vit.image_processing_pil_vit")
    save(model, tmp_path, torch.float16)
    noise = np.random.default_rng(2).integers(0, 256, (50, 31, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "photo.png")
    processor = pil.ViTImageProcessorPil.from_pretrained(tmp_path)
    wanted = processor(Image.open(tmp_path / "photo.png"), return_tensors="pt").pixel_values[0]
    torch.testing.assert_close(normalise(read_photo(tmp_path / "photo.png", 28)), wanted, rtol=0, atol=1e-6)


def test_the_head_is_a_linear_layer_on_the_features(model: ViTForImageClassification) -> None:
    pixels = torch.randn(2, 3, 28, 28)
    assert features(model, pixels).shape == (2, 16)
    torch.testing.assert_close(model.classifier(features(model, pixels)), logits(model, pixels))


def test_a_student_that_agrees_with_its_teacher_pays_only_for_the_true_labels() -> None:
    answers = torch.tensor([[2.0, 0.0]])
    loss = distillation_loss(answers, answers, torch.tensor([0]))
    assert float(loss) == pytest.approx(0.3 * np.log(1 + np.exp(-2)))


def test_the_soft_part_is_the_divergence_at_temperature_two_times_four() -> None:
    student, teacher = torch.tensor([[0.0, 0.0]]), torch.tensor([[2 * np.log(3.0), 0.0]])
    # Softened teacher: 3/4, 1/4; student: 1/2, 1/2.
    divergence = 0.75 * np.log(1.5) + 0.25 * np.log(0.5)
    wanted = 0.7 * 4 * divergence + 0.3 * np.log(2)
    assert float(distillation_loss(student, teacher, torch.tensor([0]))) == pytest.approx(wanted, rel=1e-5)


def test_the_first_head_tells_apart_what_the_network_already_sees(model: ViTForImageClassification) -> None:
    labels = torch.arange(30) % 3
    noise = torch.randint(0, 40, (30, 3, 28, 28), generator=torch.Generator().manual_seed(8))
    photos = Photos((noise + 100 * labels.view(-1, 1, 1, 1)).to(torch.uint8), labels)
    backbone = model.vit.layers[0].mlp.fc1.weight.clone()
    start_head(model, photos)
    answers = predict(lambda pixels: model(pixels).logits, photos)
    assert (answers.argmax(dim=1) == labels).all()
    assert torch.equal(model.vit.layers[0].mlp.fc1.weight, backbone)
    assert model.dtype == torch.float32


def test_a_photo_takes_some_time(model: ViTForImageClassification) -> None:
    assert forward_seconds(model) > 0
