"""Text classifiers as packed graphs: a batch is one sequence, so no arithmetic is spent on padding.

Attention alone sees the texts one below the other, filled up to the longest: of texts of L tokens in a network of width
W its products are L / 6W of the other layers' arithmetic, less than a hundredth for tweets.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position

from marsmith.network.attention import attending

# The name of our attention among transformers' own.
ATTENTION = "marsmith_packed"


def packed(model: Any) -> nn.Module:
    """The packed form of a sequence classifier, which shares its weights."""
    return PackedDeberta(model) if model.config.model_type == "deberta-v2" else PackedText(model)


class PackedText(nn.Module):
    """A sequence classifier that reads B texts laid end to end, T tokens in all and L of the longest.

    `input_ids`, `position_ids`: int64[T]; `rows`: int64[B, L], where each text's tokens stand, -1 behind its last;
    `slots`: int64[T], where in the flattened `rows` each token does; `token_type_ids`: int64[T], 0 where they are not
    given. A token attends only to its own row, so `logits` float32[B, labels] are those of each text alone. For
    encoders that take position ids and an attention function, and heads that look at a text's first token alone.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        # DistilBERT calls its encoder by another name.
        self.encoder: Any = getattr(model.base_model, "encoder", None) or model.base_model.transformer
        self.has_token_types = "token_type_ids" in inspect.signature(model.forward).parameters

    def forward(
        self,
        input_ids: Tensor,
        position_ids: Tensor,
        rows: Tensor,
        slots: Tensor,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        """Logits of the texts."""

        def first_tokens(_encoder: nn.Module, _args: Any, output: Any) -> Any:
            """What follows the encoder sees B texts of one token each. DeBERTa reads the last of `hidden_states`."""
            first = output.last_hidden_state.index_select(1, rows[:, 0]).transpose(0, 1)
            return type(output)(last_hidden_state=first, hidden_states=(first,))

        with self.encoder.register_forward_hook(first_tokens):
            types = None if token_type_ids is None else token_type_ids[None]
            return self._logits(input_ids[None], position_ids[None], rows, slots, types)

    def _logits(
        self, input_ids: Tensor, position_ids: Tensor, rows: Tensor, slots: Tensor, types: Tensor | None
    ) -> Tensor:
        # Keys that are no token get a weight of zero. A mask of four dimensions is handed on as it is.
        mask = torch.zeros(rows.shape, dtype=torch.float32).masked_fill(rows < 0, torch.finfo(torch.float32).min)
        AttentionInterface.register(ATTENTION, _by_rows(rows.clamp(min=0), slots))
        with attending(self.model, ATTENTION):
            return self._run(input_ids, position_ids, mask[:, None, None, :], types)

    def _run(self, input_ids: Tensor, position_ids: Tensor, mask: Tensor, types: Tensor | None) -> Tensor:
        given = {}
        if self.has_token_types:
            # BERT's own token types are as many as a single text may have tokens.
            given["token_type_ids"] = torch.zeros_like(input_ids) if types is None else types
        outputs = self.model(input_ids=input_ids, attention_mask=mask, position_ids=position_ids, **given)
        logits: Tensor = outputs.logits
        return logits


class PackedDeberta(PackedText):
    """DeBERTa v2 and v3, whose attention, its own, looks at how far apart two tokens are in their text.

    It works on the whole sequence, masked by rows. Distances come from the position ids here, where the encoder itself
    would count through the whole sequence, and fall into the same logarithmic buckets (He et al., DeBERTaV3, arXiv
    2111.09543; transformers' own function).
    """

    def _logits(
        self, input_ids: Tensor, position_ids: Tensor, rows: Tensor, slots: Tensor, types: Tensor | None
    ) -> Tensor:
        text = slots // rows.shape[1]
        mask = text[None, None, :, None] == text[None, None, None, :]
        distances = position_ids[:, :, None] - position_ids[:, None, :]
        buckets, furthest = self.encoder.position_buckets, self.encoder.max_relative_positions
        if buckets > 0:
            distances = make_log_bucket_position(distances, buckets, furthest).long()

        def by_text(_encoder: nn.Module, args: Any, kwargs: Any) -> Any:
            hidden, _ = args
            return (hidden, mask), kwargs | {"relative_pos": distances}

        with self.encoder.register_forward_pre_hook(by_text, with_kwargs=True):
            # The embeddings take a mask of padding alone.
            return self._run(input_ids, position_ids, torch.ones_like(input_ids), types)


def _by_rows(rows: Tensor, slots: Tensor) -> Callable[..., tuple[Tensor, None]]:
    """Attention of one sequence [1, heads, T, width] in rows of texts; back comes [1, T, heads, width]."""

    def attention(
        _module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, scaling: float | None = None, **_: Any
    ) -> tuple[Tensor, None]:
        heads, width = query.shape[1], query.shape[3]

        def texts(states: Tensor) -> Tensor:
            """[B, heads, L, width]."""
            return states[0].transpose(0, 1)[rows].transpose(1, 2)

        scale = width**-0.5 if scaling is None else scaling
        weights = (texts(query) * scale @ texts(key).transpose(2, 3) + mask).softmax(-1)
        seen = (weights @ texts(value)).transpose(1, 2)
        return seen.reshape(-1, heads * width)[slots].reshape(1, -1, heads, width), None

    return attention
