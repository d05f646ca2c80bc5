"""A text checkpoint as Hugging Face runs it: what every export and every handler is measured against."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification
from transformers.tokenization_utils_base import VERY_LARGE_INTEGER

from marsmith.errors import CheckpointError, RecipeError
from marsmith.ground.serving import Layout, LongText, TextSettings, TokenTypes
from marsmith.network.export import export_text, text_network
from marsmith.network.feeds import feeds
from marsmith.network.forward import logits, probabilities
from marsmith.network.pretrained import guarded, load_model, load_tokenizer
from marsmith.network.program import record
from marsmith.network.reference import Case
from marsmith.recipe.checkpoint import Checkpoint, text_layout

# Texts of many lengths, scripts and odd characters: token ids and positions that differ show up in the logits.
PROBE_TEXTS = (
    "ok",
    "What a great day at the beach with @user, thank you! 😀 http",
    "No. Just no… #fail",
    "Die Brücke öffnet um 9 Uhr / मुझे यह पसंद है / 我喜欢这个",
    "so tired of this weather but the coffee is really good " * 8,
)
# Windows of one text, at most: the default of the handlers' option of that name.
MAX_WINDOWS = 32
# What tokenizers return that says something of the text, and is not for the network.
NOT_FED = frozenset({"overflow_to_sample_mapping", "num_truncated_tokens", "length"})
# What the handlers can feed.
FED = frozenset({"input_ids", "attention_mask", "token_type_ids"})

# What a tokenizer makes of one window of a text, by name: all of one length.
Window = Mapping[str, Sequence[int]]


class TextReference:
    """A sequence classifier with its tokenizer. Raises CheckpointError when they do not load or do not fit."""

    def __init__(
        self, checkpoint: Checkpoint, normalise: Literal["none", "tweet"], long_text: LongText = "truncate"
    ) -> None:
        self.model = load_model(AutoModelForSequenceClassification, checkpoint)
        self.tokenizer = load_tokenizer(checkpoint.path)
        self.path = checkpoint.path
        self._taken = inspect.signature(self.model.forward).parameters.keys()
        with guarded(f"The model and the tokenizer of {self.path} do not fit together"):
            self.settings = self._settings(text_layout(checkpoint.config), normalise, long_text)

    def _settings(self, layout: Layout, normalise: Literal["none", "tweet"], long_text: LongText) -> TextSettings:
        config, tokenizer = self.model.config, self.tokenizer
        # RoBERTa and its like count positions from behind the padding token's id
        # (transformers, create_position_ids_from_input_ids).
        padding = getattr(getattr(self.model.base_model, "embeddings", None), "padding_idx", None)
        first_position = 0 if padding is None else padding + 1
        # Where positions are relative, the tokenizer alone says how far texts went in training.
        positions = getattr(config, "max_position_embeddings", 0)
        positions = positions if positions > 0 else tokenizer.model_max_length
        if positions >= VERY_LARGE_INTEGER:
            raise CheckpointError(
                f"Neither the config.json of this {config.model_type} model (max_position_embeddings) nor its "
                "tokenizer_config.json (model_max_length) says how many tokens it reads: write it there."
            )
        if len(tokenizer) > config.vocab_size:
            raise CheckpointError(
                f"The tokenizer knows {len(tokenizer)} tokens, the model {config.vocab_size}: "
                "they do not belong together. Save both from one training."
            )
        max_tokens = min(positions - first_position, tokenizer.model_max_length)
        if max_tokens <= tokenizer.num_special_tokens_to_add():
            raise CheckpointError(
                f"The model reads {max_tokens} tokens at once, and no text fits beside the special ones: correct "
                "max_position_embeddings in config.json, or model_max_length in tokenizer_config.json."
            )
        return TextSettings(
            normalise=normalise,
            max_tokens=max_tokens,
            first_position=first_position,
            layout=layout,
            pad_token=config.pad_token_id or 0,
            mask_token=_first(tokenizer.mask_token_id, tokenizer.unk_token_id),
            long_text=long_text,
            truncation_side=tokenizer.truncation_side,
            split_special_tokens=bool(getattr(tokenizer, "split_special_tokens", False)),
            token_types=self._token_types(),
        )

    def _token_types(self) -> TokenTypes | None:
        """The token types of a text, where the network takes them and they are not all 0."""
        made = self.tokenizer(PROBE_TEXTS[1], return_special_tokens_mask=True)
        types = made.get("token_type_ids")
        if "token_type_ids" not in self._taken or not types or not any(types):
            return None
        own = [place for place, special in enumerate(made["special_tokens_mask"]) if not special]
        return TokenTypes(before=types[: own[0]], text=types[own[0]], after=types[own[-1] + 1 :])

    def preprocessing(self) -> dict[str, bytes]:
        """The files that the worker preprocesses with, by name."""
        fast = self.tokenizer.backend_tokenizer
        fast.no_padding()
        fast.no_truncation()
        return {"tokenizer.json": fast.to_str(pretty=True).encode("utf-8")}

    def probabilities(self, body: str | bytes) -> np.ndarray:
        """float64[labels] of one text. Raises RecipeError for one that the archive will refuse as too long.

        Of a text in several windows it is the mean, weighted by the tokens that each has beside the special ones.
        """
        windows = self.windows(str(body))
        limit, long_text = self.settings.max_tokens, self.settings.long_text
        if long_text == "error" and len(windows) > 1:
            raise RecipeError(
                f"A sample of the recipe has more than the {limit} tokens that the model reads, which long_text "
                '"error" refuses: give shorter samples.'
            )
        windows = self.read(windows)
        scores = [probabilities(self.model, self._tensors(window)) for window in windows]
        special = self.tokenizer.num_special_tokens_to_add()
        weights = [len(window["input_ids"]) - special for window in windows]
        return scores[0] if len(scores) == 1 else np.average(scores, axis=0, weights=weights)

    def windows(self, text: str) -> list[Window]:
        """All that the tokenizer makes of one text, as much at once as the model reads, what is kept first first.

        Raises CheckpointError.
        """
        text = _mask_tweet(text) if self.settings.normalise == "tweet" else text
        with guarded(f"The tokenizer of {self.path} cannot be used"):
            made = self.tokenizer(
                text, truncation=True, max_length=self.settings.max_tokens, return_overflowing_tokens=True
            )
            columns = {name: values for name, values in made.items() if name not in NOT_FED}
            return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def read(self, windows: list[Window]) -> list[Window]:
        """Those of a text's windows that the archive reads."""
        return windows[: MAX_WINDOWS if self.settings.long_text == "window" else 1]

    def fed(self, window: Window) -> Window:
        """What of a window the network takes; what it does not take must say nothing. Raises CheckpointError."""
        for name, values in window.items():
            if name not in self._taken and len(set(values)) > 1:
                raise CheckpointError(f"The tokenizer of {self.path} makes {name}, which the network does not take.")
            if name in self._taken and name not in FED:
                raise CheckpointError(
                    f"The tokenizer of {self.path} makes {name} beside the token ids, which no handler here makes: "
                    "choose another checkpoint."
                )
        return {name: values for name, values in window.items() if name in self._taken}

    def _tensors(self, window: Window) -> dict[str, torch.Tensor]:
        return {name: torch.tensor([values]) for name, values in self.fed(window).items()}

    def feeds(self, body: str | bytes) -> dict[str, np.ndarray]:
        """The network's inputs for one text, of a long one as far as the model reads at once."""
        return feeds([self.windows(str(body))[0]["input_ids"]], self.settings)

    def export(self, out: Path) -> None:
        """Write the ONNX graph into the directory `out`."""
        export_text(self.model, self.settings, out)

    def record(self, out: Path) -> None:
        """Write the PyTorch program into the directory `out`, for one text at a time.

        What a network decides by the texts of its batch, as BART does, is fixed in a recording.
        """
        self.settings = self.settings.model_copy(update={"layout": "single"})
        example, _ = next(self.cases())
        record(text_network(self.model, self.settings), example, out)

    def cases(self) -> Iterator[Case]:
        """All probe texts in one batch, then the first alone, with the logits that the model gives each by itself.

        Each alone where the network takes one text at a time, and the longest that it reads: what it decides by a
        text's length, as BigBird does, a recording does not.
        """
        limit, single = self.settings.max_tokens, self.settings.layout == "single"
        probes = (*PROBE_TEXTS, PROBE_TEXTS[-1] * limit) if single else PROBE_TEXTS
        windows = [self.windows(text)[0] for text in probes]
        answers = [logits(self.model, self._tensors(window)) for window in windows]
        texts = [window["input_ids"] for window in windows]
        if not single:
            yield feeds(texts, self.settings), np.concatenate(answers)
            texts, answers = texts[:1], answers[:1]
        for ids, expected in zip(texts, answers, strict=True):
            yield feeds([ids], self.settings), expected


def _mask_tweet(text: str) -> str:
    """Users and links masked by the rule on the model card of cardiffnlp/twitter-roberta-base-sentiment-latest.

    The handlers have their own; golden requests hold the two together.
    """
    words = ("@user" if word.startswith("@") and len(word) > 1 else word for word in text.split(" "))
    return " ".join("http" if word.startswith("http") else word for word in words)


def _first(*ids: int | None) -> int | None:
    """The first that there is."""
    return next((one for one in ids if one is not None), None)
