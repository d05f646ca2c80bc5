import torch
from torch import nn

from training.food.fitting import fit


def test_a_fit_is_the_least_squares_with_a_bias() -> None:
    tokens = torch.randn(40, 5, 6, generator=torch.Generator().manual_seed(3))
    truth, linear = nn.Linear(6, 2), nn.Linear(6, 2)
    with torch.no_grad():
        fit(linear, tokens, truth(tokens))
        torch.testing.assert_close(linear(tokens), truth(tokens), atol=0.01, rtol=0)
    assert all(parameter.requires_grad for parameter in linear.parameters())


def test_inputs_that_say_the_same_do_no_harm() -> None:
    tokens = torch.randn(200, 1, generator=torch.Generator().manual_seed(3)).repeat(1, 4)
    linear = nn.Linear(4, 1)
    fit(linear, tokens, 8 * tokens[:, :1] + 1)
    torch.testing.assert_close(linear.weight, torch.full((1, 4), 2.0), atol=0.01, rtol=0)
    torch.testing.assert_close(linear.bias, torch.ones(1), atol=0.01, rtol=0)
