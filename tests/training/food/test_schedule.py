from collections.abc import Callable

import pytest
import torch

from training.errors import TrainingError
from training.food.networks import Classifier
from training.food.schedule import parameter_groups, ramp


def rates_of(classifier: Classifier, **options: float) -> dict[str, float]:
    """The learning rate of each parameter that learns, by name."""
    names = {id(parameter): name for name, parameter in classifier.model.named_parameters()}
    groups = parameter_groups(classifier.model, 1e-3, **{"layer_decay": 0.5} | options)  # type: ignore[arg-type]
    return {names[id(p)]: group["lr"] for group in groups for p in group["params"]}


@pytest.fixture
def three(make_vit: Callable[..., Classifier]) -> Classifier:
    return make_vit(layers=3)


def test_the_rate_climbs_to_its_peak_and_falls_to_nothing() -> None:
    rates = [ramp(step, 100, 0.1) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[99] < 0.001


def test_each_layer_learns_half_as_fast_as_the_one_above(three: Classifier) -> None:
    rates = rates_of(three)
    assert rates["vit.embeddings.cls_token"] == pytest.approx(1e-3 / 16)
    for layer, rate in enumerate((1e-3 / 8, 1e-3 / 4, 1e-3 / 2)):
        assert rates[f"vit.layers.{layer}.mlp.fc2.weight"] == pytest.approx(rate)
    assert rates["vit.layernorm.weight"] == rates["classifier.bias"] == pytest.approx(1e-3)
    assert len(rates) == len(list(three.model.parameters()))
    assert all(parameter.requires_grad for parameter in three.model.parameters())


def test_frozen_layers_and_the_embeddings_below_do_not_learn(three: Classifier) -> None:
    rates = rates_of(three, frozen=2)
    assert {name.rpartition(".layers.")[2].split(".")[0] for name in rates} == {"2", "vit", "classifier"}
    assert rates["vit.layers.2.mlp.fc1.weight"] == pytest.approx(0.5e-3)
    assert {name for name, p in three.model.named_parameters() if p.requires_grad} == set(rates)


def test_more_frozen_layers_than_there_are_is_a_mistake(three: Classifier) -> None:
    with pytest.raises(TrainingError, match="3 layers to freeze, not 4: lower --frozen"):
        parameter_groups(three.model, 1e-3, frozen=4)


def test_folded_layers_step_in_proportion_to_their_weights(three: Classifier) -> None:
    with torch.no_grad():
        three.model.vit.layers[2].mlp.fc2.weight.copy_(torch.tensor([0.0014, -0.0014] * 16).expand(16, 32))
        three.model.vit.layers[2].attention.o_proj.weight.fill_(0.028)
    rates = rates_of(three, relative=True)
    assert rates["vit.layers.2.mlp.fc2.weight"] == pytest.approx(0.5e-3 * 0.1)
    assert rates["vit.layers.2.mlp.fc2.bias"] == pytest.approx(0.5e-3 * 0.1)
    assert rates["vit.layers.2.attention.o_proj.weight"] == pytest.approx(0.5e-3 * 2)
    assert rates["vit.layers.2.mlp.fc1.weight"] == rates["vit.layers.2.attention.q_proj.weight"] == 0.5e-3
