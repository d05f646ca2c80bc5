"""A student with all of a ViT's layers, each narrower, and fitted to the teacher before any training.

Leaving out layers costs a ViT more than leaving out the directions that these photos hardly use. So the residual stream
keeps its principal components (SliceGPT: Ashkboos et al., ICLR 2024), each head the components that matter most to its
scores and to what it adds, and each MLP the neurons that explain its output best. Then every linear layer is refitted
in turn, on what the narrower layers before it hand on, to what the teacher has at that place: least squares, no step of
gradient descent.
"""

from __future__ import annotations

from typing import Any

import torch
from scipy.linalg import helmert
from torch import Tensor, nn
from transformers import ViTForImageClassification

from training.errors import TrainingError
from training.food.fitting import fit
from training.food.networks import Classifier, set_labels
from training.food.photos import Photos, spread
from training.food.preprocessing import whole
from training.food.progress import track

STUDIED_TOKENS = 512 * 101  # of training photos; their states are kept: 2 GB for a ViT-S, 4 GB for a ViT-B
STUDIED_BATCH = 64
FAINTEST = 1e-8  # share of the largest variance below which a direction is taken for noise


@torch.no_grad()
def narrow(teacher: Classifier, photos: Photos, width: int, mlp_width: int | None = None) -> Classifier:
    """Return a ViT of the teacher's layers and heads with hidden states of `width` and MLPs of `mlp_width` neurons.

    The MLPs keep the teacher's proportion when `mlp_width` is None. Raises TrainingError when the teacher is no ViT,
    or the widths do not suit it.
    """
    model = teacher.model
    if not isinstance(model, ViTForImageClassification):
        raise TrainingError(f"Only a ViT can be narrowed, not a {type(model).__name__}: leave out --width.")
    config = model.config
    heads, neurons = config.num_attention_heads, mlp_width
    if neurons is None:
        neurons = config.intermediate_size * width // config.hidden_size
    if not 0 < width <= config.hidden_size or width % heads:
        raise TrainingError(
            f"The teacher's width is {config.hidden_size}, with {heads} heads: --width must be a multiple of {heads} "
            "and no more than that."
        )
    if not 0 < neurons <= config.intermediate_size:
        raise TrainingError(
            f"The teacher's MLPs are {config.intermediate_size} wide: --mlp-width must be 1 to "
            f"{config.intermediate_size}."
        )
    sizes = {"hidden_size": width, "pooler_output_size": width, "intermediate_size": neurons, "qkv_bias": True}
    student = ViTForImageClassification(type(config).from_dict(config.to_dict() | sizes)).eval()
    set_labels(student, teacher.labels)

    count = STUDIED_TOKENS // model.vit.embeddings.position_embeddings.shape[1]
    pixels = teacher.see(whole(photos.pixels(spread(len(photos), count))))
    states = residual_states(model, pixels)
    basis = principal_basis(states, width)
    _embed(student, model, basis)
    now: Tensor = student.vit.embeddings(pixels)
    layers = list(zip(student.vit.layers, model.vit.layers, strict=True))
    for index, (small, full) in enumerate(track(layers, "narrow", len(layers))):
        before, between, after = states[2 * index : 2 * index + 3]
        now = _fit_attention(small, full, before, between @ basis, now, basis)
        now = _fit_mlp(small, full, between, after @ basis, now)
    wanted = model.classifier(model.vit.layernorm(states[-1][:, 0]))
    fit(student.classifier, student.vit.layernorm(now[:, 0]), wanted)
    return Classifier(student, teacher.labels, teacher.see)


def residual_states(model: ViTForImageClassification, pixels: Tensor) -> list[Tensor]:
    """Return the residual stream [N, T, C] before and within each layer, and after the last: 2 x layers + 1 states."""
    layers = model.vit.layers
    places = [part for layer in layers for part in (layer.layernorm_before, layer.layernorm_after)]
    places.append(model.vit.layernorm)
    seen: list[list[Tensor]] = [[] for _ in places]
    hooks = [
        place.register_forward_pre_hook(lambda _, inputs, index=index: seen[index].append(inputs[0]))
        for index, place in enumerate(places)
    ]
    for part in torch.split(pixels, STUDIED_BATCH):
        model(part)
    for hook in hooks:
        hook.remove()
    return [torch.cat(parts) for parts in seen]


def principal_basis(states: list[Tensor], width: int) -> Tensor:
    """Return orthonormal directions [C, width - 1] of most variance, in `width` coordinates that sum to 0: [C, width].

    A layer norm takes the mean off a token and scales it to variance 1. So variance is that of tokens treated thus,
    and with coordinates that sum to 0 a layer norm of the narrow tokens does the same to them.
    """
    total = torch.zeros(states[0].shape[-1], states[0].shape[-1], dtype=torch.float64)
    for state in states:
        tokens = nn.functional.layer_norm(state, state.shape[-1:]).flatten(0, -2)
        total += (tokens.T @ tokens).double() / len(tokens)
    directions = torch.linalg.eigh(total).eigenvectors[:, total.shape[0] - (width - 1) :]
    basis: Tensor = directions @ torch.from_numpy(helmert(width))
    return basis.float()


def _embed(student: ViTForImageClassification, model: ViTForImageClassification, basis: Tensor) -> None:
    mine, full = student.vit.embeddings, model.vit.embeddings
    mine.cls_token.copy_(full.cls_token @ basis)
    mine.position_embeddings.copy_(full.position_embeddings @ basis)
    patches, source = mine.patch_embeddings.projection, full.patch_embeddings.projection
    patches.weight.copy_(torch.einsum("cw,cijk->wijk", basis, source.weight))
    patches.bias.copy_(source.bias @ basis)


def _fit_attention(small: Any, full: Any, before: Tensor, wanted: Tensor, now: Tensor, basis: Tensor) -> Tensor:
    """Fit the attention of a layer; return the student's states [N, T, W] after it, meant to be `wanted`."""
    mine, theirs = small.attention, full.attention
    seen = full.layernorm_before(before)
    shape = (theirs.num_attention_heads, theirs.head_dim)
    query, key, value = (part(seen).unflatten(-1, shape) for part in (theirs.q_proj, theirs.k_proj, theirs.v_proj))
    attention = torch.einsum("nqhd,nkhd->nhqk", query, key).mul_(theirs.scaling).softmax(-1)
    context = torch.einsum("nhqk,nkhd->nqhd", attention, value)
    outputs = (basis.T @ theirs.o_proj.weight).unflatten(-1, shape)
    thinner: dict[str, list[Tensor]] = {"q_proj": [], "k_proj": [], "v_proj": []}
    for head in range(shape[0]):
        queries, keys, contexts = (part[:, :, head] for part in (query, key, context))
        to_query, to_key = thin_scores(queries, keys, mine.head_dim)
        grow = (theirs.scaling / mine.scaling) ** 0.5
        thinner["q_proj"].append(queries @ to_query * grow)
        thinner["k_proj"].append(keys @ to_key * grow)
        thinner["v_proj"].append(value[:, :, head] @ thin_values(contexts, outputs[:, head], mine.head_dim))
    inputs = small.layernorm_before(now)
    for name, targets in thinner.items():
        fit(getattr(mine, name), inputs, torch.cat(targets, -1))
    caught = list[Tensor]()
    hook = mine.o_proj.register_forward_pre_hook(lambda _, found: caught.append(found[0]))
    mine(inputs)
    hook.remove()
    fit(mine.o_proj, caught[0], wanted - now)
    result: Tensor = now + mine.o_proj(caught[0])
    return result


def _fit_mlp(small: Any, full: Any, between: Tensor, wanted: Tensor, now: Tensor) -> Tensor:
    """Fit the MLP of a layer; return the student's states [N, T, W] after it, meant to be `wanted`."""
    potentials = full.mlp.fc1(full.layernorm_after(between))
    active, missing = (part - part.mean((0, 1)) for part in (full.mlp.activation_fn(potentials), wanted - now))
    chosen = pick(active.flatten(0, 1), missing.flatten(0, 1), small.mlp.fc1.out_features)
    inputs = small.layernorm_after(now)
    fit(small.mlp.fc1, inputs, potentials[..., chosen])
    active = small.mlp.activation_fn(small.mlp.fc1(inputs))
    fit(small.mlp.fc2, active, wanted - now)
    result: Tensor = now + small.mlp.fc2(active)
    return result


def thin_scores(queries: Tensor, keys: Tensor, rank: int) -> tuple[Tensor, Tensor]:
    """Return maps [D, rank] of a head's queries and keys [N, T, D] whose products stay closest to theirs.

    The best of that rank in the mean square over these queries and keys: a singular value decomposition between both
    whitenings. Keys count by their distance from a picture's mean, as what adds to all scores of a query alike drops
    out of a softmax.
    """
    whiten_queries, colour_queries = _whitening(queries)
    whiten_keys, colour_keys = _whitening(keys - keys.mean(1, keepdim=True))
    left, values, right = torch.linalg.svd(colour_queries @ colour_keys)
    shares = values[:rank].sqrt()
    to_queries = whiten_queries @ left[:, :rank] * shares
    to_keys = whiten_keys @ right[:rank].T * shares
    return to_queries.float(), to_keys.float()


def thin_values(contexts: Tensor, output: Tensor, rank: int) -> Tensor:
    """Return the map [D, rank] of a head's contexts [N, T, D] that keeps most of what `output` [W, D] makes of them.

    What comes out has about the contexts' size.
    """
    whiten, colour = _whitening(contexts)
    left = torch.linalg.svd(colour @ output.T.double(), full_matrices=False).U
    kept: Tensor = whiten @ left[:, :rank] * contexts.square().mean().sqrt()
    return kept.float()


def _whitening(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Return the inverse root and the root of the second moments of vectors [..., D]: float64 [D, D] each."""
    flat = vectors.flatten(0, -2).double()
    variances, directions = torch.linalg.eigh(flat.T @ flat / len(flat))
    roots = variances.clamp_min(FAINTEST * variances[-1]).sqrt()
    return directions / roots @ directions.T, directions * roots @ directions.T


def pick(neurons: Tensor, wanted: Tensor, count: int) -> Tensor:
    """Return the places int64 [count], rising, of the columns of neurons [N, M] that best add up to wanted [N, D].

    Both are centred. Greedy, each the one that explains most of what is left (simultaneous orthogonal matching
    pursuit: Tropp, Gilbert and Strauss 2006), on the Gram matrix alone.
    """
    gram, cross = (neurons.T @ neurons).double(), (neurons.T @ wanted).double()
    least = FAINTEST * gram.diagonal().max()
    chosen = list[int]()
    for _ in range(count):
        left = gram.diagonal()
        gains = cross.square().sum(1) / left.clamp_min(least)
        gains[left < least] = 0  # explained by those chosen, or never active
        gains[chosen] = -1
        best = int(gains.argmax())
        chosen.append(best)
        column, row = gram[:, best].clone(), cross[best].clone()
        size = column[best].clamp_min(least)
        cross -= torch.outer(column, row) / size
        gram -= torch.outer(column, column) / size
    return torch.tensor(sorted(chosen))
