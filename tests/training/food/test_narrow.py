from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from transformers import DeiTForImageClassification

from training.errors import TrainingError
from training.food.narrow import narrow, pick, principal_basis, residual_states, thin_scores, thin_values
from training.food.networks import Classifier
from training.food.photos import Photos, spread
from training.food.preprocessing import whole

Make = Callable[..., Classifier]


@pytest.fixture
def teacher(make_vit: Make) -> Classifier:
    return make_vit(layers=3)


@pytest.fixture
def tokens() -> Tensor:
    """40 pictures of 5 tokens of 6 values."""
    return torch.randn(40, 5, 6, generator=torch.Generator().manual_seed(3))


def missed(student: Classifier, teacher: Classifier, photos: Photos) -> float:
    """The student's mean square distance from the teacher's answers, as a share of their variance."""
    wanted = answers(teacher, photos)
    return float((answers(student, photos) - wanted).square().mean() / (wanted - wanted.mean(0)).square().mean())


@torch.no_grad()
def answers(classifier: Classifier, photos: Photos) -> Tensor:
    logits: Tensor = classifier.model(classifier.see(whole(photos.pixels(torch.arange(len(photos)))))).logits
    return logits


def test_at_full_width_a_student_answers_as_its_teacher(teacher: Classifier, photos: Photos) -> None:
    assert missed(narrow(teacher, photos, 16, 32), teacher, photos) < 0.01


def test_a_narrow_student_is_a_plain_smaller_vit_close_to_its_teacher(teacher: Classifier, photos: Photos) -> None:
    before = {name: value.clone() for name, value in teacher.model.state_dict().items()}
    student = narrow(teacher, photos, 8, 12)
    config = student.model.config
    assert (config.hidden_size, config.intermediate_size, config.num_hidden_layers) == (8, 12, 3)
    assert not hasattr(config, "head_dim")
    assert student.labels == teacher.labels
    assert student.model.config.id2label == teacher.model.config.id2label
    assert all(parameter.requires_grad and not parameter.is_inference() for parameter in student.model.parameters())
    assert all(torch.equal(value, before[name]) for name, value in teacher.model.state_dict().items())
    assert missed(student, teacher, photos) < 0.1


def test_mlps_keep_their_proportion_unless_told_otherwise(teacher: Classifier, photos: Photos) -> None:
    assert narrow(teacher, photos, 8).model.config.intermediate_size == 16


@pytest.mark.parametrize(
    ("width", "mlp_width", "said"),
    [
        (7, None, "--width must be a multiple of 2 and no more than that"),
        (18, None, "The teacher's width is 16, with 2 heads"),
        (8, 33, "--mlp-width must be 1 to 32"),
        (8, 0, "--mlp-width must be 1 to 32"),
    ],
)
def test_widths_that_do_not_suit_are_told(
    teacher: Classifier, photos: Photos, width: int, mlp_width: int | None, said: str
) -> None:
    with pytest.raises(TrainingError, match=said):
        narrow(teacher, photos, width, mlp_width)


@pytest.mark.parametrize(("count", "most"), [(10, 6), (2640, 512), (5, 8)])
def test_photos_are_spread_from_the_first_class_to_the_last(count: int, most: int) -> None:
    places = spread(count, most)
    assert len(set(places.tolist())) == len(places) == min(count, most)
    assert (int(places[0]), int(places[-1])) == (0, count - 1)


def test_only_a_vit_is_narrowed(teacher: Classifier, photos: Photos) -> None:
    other = Classifier(DeiTForImageClassification(teacher.model.config), teacher.labels, teacher.see)
    with pytest.raises(TrainingError, match="Only a ViT can be narrowed, not a DeiTForImageClassification"):
        narrow(other, photos, 8)


def test_states_are_those_before_within_and_after_the_layers(teacher: Classifier, photos: Photos) -> None:
    pixels = teacher.see(whole(photos.pixels(torch.arange(3))))
    with torch.no_grad():
        states = residual_states(teacher.model, pixels)
        hidden = teacher.model(pixels, output_hidden_states=True).hidden_states
    assert len(states) == 7
    for mine, theirs in zip(states[::2], hidden, strict=True):
        assert torch.equal(mine, theirs)


def test_the_basis_survives_a_layer_norm(tokens: Tensor) -> None:
    """Tokens of two directions, in three coordinates: normalising commutes with changing the basis."""
    plane = torch.linalg.qr(torch.cat([torch.ones(6, 1), torch.eye(6)[:, :2]], 1)).Q[:, 1:]
    states = tokens @ plane @ plane.T
    basis = principal_basis([states], 3)
    torch.testing.assert_close(basis.sum(1), torch.zeros(6), atol=1e-6, rtol=0)
    narrowed = states @ basis
    torch.testing.assert_close(narrowed @ basis.T, states, atol=1e-5, rtol=0)
    normed = nn.functional.layer_norm(states, (6,), eps=0.0)
    again = nn.functional.layer_norm(narrowed, (3,), eps=0.0) @ basis.T
    torch.testing.assert_close(again * 2**0.5, normed, atol=1e-4, rtol=0)  # variance 1 over 3 values, not 6


def test_scores_of_few_directions_are_kept_by_as_few(tokens: Tensor) -> None:
    line = torch.randn(6, 2, generator=torch.Generator().manual_seed(4))
    queries, keys = tokens @ line @ line.T, tokens.flip(1) + 3
    to_queries, to_keys = thin_scores(queries, keys, 2)
    scores = (queries @ keys.mT).softmax(-1)
    torch.testing.assert_close(((queries @ to_queries) @ (keys @ to_keys).mT).softmax(-1), scores, atol=1e-3, rtol=0)


def test_thinner_scores_are_nearer_than_the_first_directions(tokens: Tensor) -> None:
    keys = tokens.roll(1, 0) * torch.tensor([1.0, 1, 1, 4, 4, 4])
    scores = tokens @ keys.mT
    to_queries, to_keys = thin_scores(tokens, keys, 3)

    def off(found: Tensor) -> float:
        difference = found - scores
        return float((difference - difference.mean(-1, keepdim=True)).square().mean())

    first = off(tokens[..., :3] @ keys[..., :3].mT)
    assert off((tokens @ to_queries) @ (keys @ to_keys).mT) < 0.2 * first


def test_values_keep_what_the_output_reads(tokens: Tensor) -> None:
    output = torch.zeros(4, 6)
    output[:, 2], output[:, 5] = 1.0, torch.arange(4.0)
    to_values = thin_values(tokens, output, 2)
    thin = tokens @ to_values
    back = torch.linalg.lstsq(thin.flatten(0, 1), (tokens @ output.T).flatten(0, 1)).solution
    torch.testing.assert_close(thin @ back, tokens @ output.T, atol=1e-4, rtol=0)
    assert float(thin.std()) == pytest.approx(float(tokens.std()), rel=0.1)


def test_neurons_are_picked_for_what_they_add_together() -> None:
    """A neuron twice there is picked once, and a loud one that nothing wants not before the rest."""
    neurons = torch.randn(200, 6, generator=torch.Generator().manual_seed(5))
    neurons[:, 4] = neurons[:, 1]
    neurons[:, 0] *= 50
    neurons[:, 5] = 0
    wanted = torch.stack([neurons[:, 1] + 0.5 * neurons[:, 3], neurons[:, 2]], 1)
    assert pick(neurons, wanted, 3).tolist() == [1, 2, 3]
    assert sorted(pick(neurons, wanted, 6).tolist()) == list(range(6))
