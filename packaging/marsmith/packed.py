"""Text classifiers as packed graphs: a batch is one sequence, so no arithmetic is spent on padding."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.deberta_v2.modeling_deberta_v2 import make_log_bucket_position


def packed(model: Any) -> nn.Module:
    """The packed form of a sequence classifier, which shares its weights."""
    return PackedDeberta(model) if model.config.model_type == "deberta-v2" else PackedText(model)


class PackedText(nn.Module):
    """A sequence classifier that reads texts laid end to end.

    `input_ids`, `position_ids`, `segment_ids`: int64[T]; `starts`: int64[B], where each text begins. A token attends
    only to its own segment, so `logits` float32[B, labels] are those of each text alone. For encoders that take
    position ids and a 4-D mask, and heads that look at a text's first token alone.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model
        # DistilBERT calls its encoder by another name.
        self.encoder: Any = getattr(model.base_model, "encoder", None) or model.base_model.transformer
        self.has_token_types = "token_type_ids" in inspect.signature(model.forward).parameters

    def forward(self, input_ids: Tensor, position_ids: Tensor, segment_ids: Tensor, starts: Tensor) -> Tensor:
        """Logits of the texts that begin at `starts`."""

        def first_tokens(_encoder: nn.Module, _args: Any, output: Any) -> Any:
            """What follows the encoder sees B texts of one token each. DeBERTa reads the last of `hidden_states`."""
            first = output.last_hidden_state[0][starts][:, None]
            return type(output)(last_hidden_state=first, hidden_states=(first,))

        mask = segment_ids[None, None, :, None] == segment_ids[None, None, None, :]
        with self.encoder.register_forward_hook(first_tokens):
            return self._logits(input_ids[None], position_ids[None], mask)

    def _logits(self, input_ids: Tensor, position_ids: Tensor, mask: Tensor) -> Tensor:
        # BERT's own token types are as many as a single text may have tokens.
        types = {"token_type_ids": torch.zeros_like(input_ids)} if self.has_token_types else {}
        outputs = self.model(input_ids=input_ids, attention_mask=mask, position_ids=position_ids, **types)
        logits: Tensor = outputs.logits
        return logits


class PackedDeberta(PackedText):
    """DeBERTa v2 and v3, whose attention looks at how far apart two tokens are in their text.

    Distances come from the position ids here, where the encoder itself would count through the whole sequence, and fall
    into the same logarithmic buckets (He et al., DeBERTaV3, arXiv 2111.09543; transformers' own function).
    """

    def _logits(self, input_ids: Tensor, position_ids: Tensor, mask: Tensor) -> Tensor:
        distances = position_ids[:, :, None] - position_ids[:, None, :]
        buckets, furthest = self.encoder.position_buckets, self.encoder.max_relative_positions
        if buckets > 0:
            distances = make_log_bucket_position(distances, buckets, furthest).long()

        def by_segment(_encoder: nn.Module, args: Any, kwargs: Any) -> Any:
            hidden, _ = args
            return (hidden, mask), kwargs | {"relative_pos": distances}

        with self.encoder.register_forward_pre_hook(by_segment, with_kwargs=True):
            # The embeddings take a mask of padding alone.
            return super()._logits(input_ids, position_ids, torch.ones_like(input_ids))
