import pytest
import torch
from transformers import ViTConfig, ViTForImageClassification

from training.grocery import Photos
from training.tuning import BATCH, Accuracy, Plan, batches, fit, parameter_groups, predict, ramp


def plan(**changes: float) -> Plan:
    settings = {"epochs": 2, "lr": 1e-3, "layer_decay": 0.5, "frozen": 0, "relative": False, "seed": 1}
    return Plan(**(settings | changes))  # type: ignore[arg-type]


def rates_of(model: ViTForImageClassification, settings: Plan) -> dict[str, float]:
    """The learning rate of each parameter that learns, by name."""
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    groups = parameter_groups(model, settings)
    return {names[id(p)]: group["lr"] for group in groups for p in group["params"]}  # type: ignore[attr-defined,misc]


def photos(count: int) -> Photos:
    """Dark photos are class 0, bright ones class 1; size 16."""
    labels = torch.arange(count) % 2
    noise = torch.randint(0, 60, (count, 3, 16, 16), generator=torch.Generator().manual_seed(9))
    return Photos((noise + 180 * labels.view(-1, 1, 1, 1)).to(torch.uint8), labels)


@pytest.fixture
def model() -> ViTForImageClassification:
    torch.manual_seed(4)
    config = ViTConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=2,
        image_size=8,
        patch_size=4,
        num_labels=6,
    )
    return ViTForImageClassification(config).eval()


def test_accuracy_of_known_logits() -> None:
    logits = torch.tensor(
        [[9.0, 1, 2, 3, 4, 5], [9, 1, 2, 3, 4, 5], [9, 1, 2, 3, 4, 5], [0, 9, 0, 0, 0, 0], [0, 9, 1, 2, 3, 4]]
    )
    found = Accuracy.of(logits, torch.tensor([0, 0, 1, 1, 2]))
    assert found.top1 == pytest.approx(3 / 5)
    assert found.top5 == pytest.approx(4 / 5)
    assert found.macro_recall == pytest.approx((1 + 1 / 2 + 0 + 0 + 0 + 0) / 6)


def test_the_rate_climbs_to_its_peak_and_falls_to_nothing() -> None:
    rates = [ramp(step, 100) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert rates[9] == rates[10] == 1.0
    assert rates[55] == pytest.approx(0.5)
    assert rates[10:] == sorted(rates[10:], reverse=True)
    assert 0 < rates[99] < 0.001


def test_each_layer_learns_half_as_fast_as_the_one_above(model: ViTForImageClassification) -> None:
    rates = rates_of(model, plan())
    assert rates["vit.embeddings.cls_token"] == pytest.approx(1e-3 / 16)
    for layer, rate in enumerate((1e-3 / 8, 1e-3 / 4, 1e-3 / 2)):
        assert rates[f"vit.layers.{layer}.mlp.fc2.weight"] == pytest.approx(rate)
    assert rates["vit.layernorm.weight"] == rates["classifier.bias"] == pytest.approx(1e-3)
    assert len(rates) == len(list(model.parameters()))
    assert all(parameter.requires_grad for parameter in model.vit.layers.parameters())


def test_frozen_layers_and_the_embeddings_below_do_not_learn(model: ViTForImageClassification) -> None:
    rates = rates_of(model, plan(frozen=2))
    assert {name.rpartition(".layers.")[2].split(".")[0] for name in rates} == {"2", "vit", "classifier"}
    assert rates["vit.layers.2.mlp.fc1.weight"] == pytest.approx(0.5e-3)
    assert {name for name, p in model.named_parameters() if p.requires_grad} == set(rates)


def test_folded_layers_step_in_proportion_to_their_weights(model: ViTForImageClassification) -> None:
    with torch.no_grad():
        model.vit.layers[2].mlp.fc2.weight.copy_(torch.tensor([0.0014, -0.0014] * 16).expand(16, 32))
        model.vit.layers[2].attention.o_proj.weight.fill_(0.028)
    rates = rates_of(model, plan(relative=True))
    assert rates["vit.layers.2.mlp.fc2.weight"] == pytest.approx(0.5e-3 * 0.1)
    assert rates["vit.layers.2.mlp.fc2.bias"] == pytest.approx(0.5e-3 * 0.1)
    assert rates["vit.layers.2.attention.o_proj.weight"] == pytest.approx(0.5e-3 * 2)
    assert rates["vit.layers.2.mlp.fc1.weight"] == rates["vit.layers.2.attention.q_proj.weight"] == 0.5e-3


def test_every_photo_is_seen_once_an_epoch() -> None:
    count = BATCH + 8
    shuffled = Photos(photos(count).pixels, torch.arange(count))
    seen = [labels for _, labels in batches(shuffled, 8, plan())]
    assert [len(labels) for labels in seen] == [BATCH, 8, BATCH, 8]
    first, second = torch.cat(seen[:2]).tolist(), torch.cat(seen[2:]).tolist()
    assert sorted(first) == sorted(second) == list(range(count))
    assert first != second


def test_outputs_come_in_the_order_of_the_photos() -> None:
    data = photos(130)
    found = predict(lambda pixels: pixels.mean(dim=(1, 2, 3), keepdim=True).flatten(1), data)
    assert found.shape == (130, 1)
    assert ((found[:, 0] > 0).long() == data.labels).all()


def test_fitting_learns_dark_from_bright_and_saves_every_epoch(model: ViTForImageClassification) -> None:
    train, val = photos(64), Photos(photos(16).pixels[:, :, ::2, ::2], photos(16).labels)
    saved = list[float]()
    settings = plan(epochs=5, lr=1e-2, frozen=1, layer_decay=1.0)
    before = model.vit.layers[0].mlp.fc1.weight.clone()

    def loss(views: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(views).logits, labels)

    fit(model, train, val, loss, settings, lambda: saved.append(model.classifier.bias[0].item()))
    assert len(set(saved)) == 5
    assert Accuracy.of(predict(lambda pixels: model(pixels).logits, val), val.labels).top1 == 1.0
    assert torch.equal(model.vit.layers[0].mlp.fc1.weight, before)
