from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import DeiTForImageClassificationWithTeacher, ViTForImageClassification

from training.errors import TrainingError
from training.food.networks import Classifier
from training.food.photos import Photos
from training.food.preprocessing import Preprocessing
from training.food.run_folder import export
from training.food.student import cut, from_checkpoint, from_shape, from_teacher, importance

Make = Callable[..., Classifier]


@pytest.fixture
def teacher(make_vit: Make) -> Classifier:
    return make_vit(layers=4)


def pixels() -> Tensor:
    return torch.randn(2, 3, 28, 28, generator=torch.Generator().manual_seed(7))


@torch.no_grad()
def answers(classifier: Classifier) -> Tensor:
    logits: Tensor = classifier.model(pixels()).logits
    return logits


def test_a_student_of_all_layers_is_its_teacher(teacher: Classifier) -> None:
    assert torch.equal(answers(cut(teacher, range(4))), answers(teacher))


def test_a_student_has_the_chosen_layers_in_the_chosen_order(teacher: Classifier) -> None:
    student = cut(teacher, (3, 1))
    assert student.model.config.num_hidden_layers == len(student.model.vit.layers) == 2
    assert teacher.model.config.num_hidden_layers == 4
    for new, index in zip(student.model.vit.layers, (3, 1), strict=True):
        assert torch.equal(new.mlp.fc1.weight, teacher.model.vit.layers[index].mlp.fc1.weight)
        assert torch.equal(new.attention.q_proj.weight, teacher.model.vit.layers[index].attention.q_proj.weight)
    assert torch.equal(student.model.classifier.weight, teacher.model.classifier.weight)
    assert student.labels == teacher.labels
    assert student.model.config.id2label == teacher.model.config.id2label


def test_training_a_student_leaves_its_teacher_alone(teacher: Classifier) -> None:
    student = cut(teacher, (0,))
    before = teacher.model.vit.layers[0].mlp.fc1.weight.clone()
    with torch.no_grad():
        student.model.vit.layers[0].mlp.fc1.weight.zero_()
    assert torch.equal(teacher.model.vit.layers[0].mlp.fc1.weight, before)


def test_neurons_that_add_nothing_go_first(teacher: Classifier, photos: Photos) -> None:
    idle = torch.arange(0, 32, 2)
    with torch.no_grad():
        for number, layer in enumerate(teacher.model.vit.layers):
            layer.mlp.fc2.weight[:, (idle + number) % 32] = 0
    scores = importance(teacher, photos)
    assert [score.topk(16).indices.sort().values.tolist() for score in scores[:2]] == [
        list(range(1, 32, 2)),
        list(range(0, 32, 2)),
    ]
    narrow = from_teacher(teacher, photos, 4, 16)
    assert narrow.model.config.intermediate_size == narrow.model.vit.layers[0].mlp.fc1.out_features == 16
    torch.testing.assert_close(answers(narrow), answers(teacher))


def test_importance_is_mean_activation_times_output_norm(teacher: Classifier, photos: Photos) -> None:
    layer = teacher.model.vit.layers[0]
    with torch.no_grad():
        layer.mlp.fc1.weight.zero_()
        layer.mlp.fc1.bias.fill_(2.0)
    tokens, gelu_of_two = 24 * 5, 1.9545  # photos x tokens; 2 Phi(2)
    wanted = tokens * gelu_of_two * layer.mlp.fc2.weight.norm(dim=0)
    torch.testing.assert_close(importance(teacher, photos)[0], wanted, rtol=1e-4, atol=1e-4)


def test_a_cut_student_starts_its_last_norm_anew(teacher: Classifier, photos: Photos) -> None:
    teacher.model.vit.layernorm.weight.data.fill_(3.0)
    assert from_teacher(teacher, photos, 2, None).model.vit.layernorm.weight.unique().tolist() == [1.0]
    assert teacher.model.vit.layernorm.weight.unique().tolist() == [3.0]


@pytest.mark.parametrize(("layers", "width", "said"), [(5, None, "--layers must be 1 to 4"), (2, 40, "1 to 32")])
def test_more_than_the_teacher_has_is_a_mistake(
    teacher: Classifier, photos: Photos, layers: int, width: int | None, said: str
) -> None:
    with pytest.raises(TrainingError, match=said):
        from_teacher(teacher, photos, layers, width)


def test_shapes_have_the_published_sizes(make_vit: Make) -> None:
    labels = tuple(f"dish {number}" for number in range(1000))
    classifier = make_vit()
    teacher = Classifier(classifier.model, labels, Preprocessing(224))
    # timm's vit_tiny_patch16_224 and deit_tiny_distilled_patch16_224.
    vit = from_shape("vit-tiny", teacher)
    assert vit.model.num_parameters() == 5_717_416
    assert vit.labels == labels
    assert vit.model.config.id2label[7] == "dish 7"
    deit = from_shape("deit-tiny", teacher).model
    assert isinstance(deit, DeiTForImageClassificationWithTeacher)
    assert deit.num_parameters() == 5_910_800


def test_a_config_folder_is_a_shape(teacher: Classifier, make_vit: Make, tmp_path: Path) -> None:
    make_vit(layers=3, labels=("a", "b")).model.config.save_pretrained(tmp_path)
    student = from_shape(str(tmp_path), teacher)
    assert isinstance(student.model, ViTForImageClassification)
    assert (len(student.model.vit.layers), student.model.classifier.out_features) == (3, 3)


def test_a_shape_that_nobody_knows_is_a_mistake(teacher: Classifier) -> None:
    with pytest.raises(TrainingError, match="vit-huge is none of deit-tiny"):
        from_shape("vit-huge", teacher)


def test_a_student_with_other_labels_needs_a_new_head(teacher: Classifier, make_vit: Make, tmp_path: Path) -> None:
    export(make_vit(labels=("Cat", "Dog")), tmp_path, torch.float32)
    with pytest.raises(TrainingError, match=r"answer different labels \(2 and 3\): pass --new-head"):
        from_checkpoint(str(tmp_path), teacher, new_head=False)
    student = from_checkpoint(str(tmp_path), teacher, new_head=True)
    assert student.labels == teacher.labels
    assert answers(student).tolist() == [[0.0] * 3] * 2
    export(student, tmp_path / "again", torch.float32)
    assert from_checkpoint(str(tmp_path / "again"), teacher, new_head=False).labels == teacher.labels
