"""The shapes of the networks that are measured, and the arithmetic that one answer of them needs."""

from __future__ import annotations

from dataclasses import dataclass

# A multiply and an add.
FLOPS_PER_WEIGHT = 2
COLOURS = 3


@dataclass(frozen=True, slots=True)
class Shape:
    """A transformer encoder with a classifier on its first token."""

    layers: int
    hidden: int
    heads: int
    labels: int

    @property
    def intermediate(self) -> int:
        """Width of the feed-forward layers: four times the hidden size, as in both families."""
        return 4 * self.hidden

    def encoder_flops(self, tokens: int) -> float:
        """Useful arithmetic of the encoder for one input of `tokens`.

        Of a layer: four projections, two feed-forward matrices, and attention's two products. Only the first token is
        classified, so in the last layer keys and values are all that the others need.
        """
        projection = self.hidden * self.hidden
        row = 4 * projection + 2 * self.hidden * self.intermediate
        attention = 2 * tokens * self.hidden
        whole = (self.layers - 1) * tokens * (row + attention)
        last = tokens * 2 * projection + (row - 2 * projection) + attention
        return FLOPS_PER_WEIGHT * float(whole + last)


@dataclass(frozen=True, slots=True)
class TextShape(Shape):
    """RoBERTa: `vocabulary` tokens, of which a text may have `positions`."""

    vocabulary: int
    positions: int

    def flops(self, tokens: int) -> float:
        """Useful arithmetic of one text: the encoder, and the head's dense layer and labels on one row."""
        head = self.hidden * (self.hidden + self.labels)
        return self.encoder_flops(tokens) + FLOPS_PER_WEIGHT * head


@dataclass(frozen=True, slots=True)
class ImageShape(Shape):
    """ViT: square images of `side` pixels, cut into patches of `patch` pixels."""

    side: int
    patch: int

    @property
    def patches(self) -> int:
        """Patches of an image; the class token comes on top."""
        return (self.side // self.patch) ** 2

    def flops(self) -> float:
        """Useful arithmetic of one image: the patches' embedding, the encoder, and the labels."""
        embedding = self.patches * COLOURS * self.patch**2 * self.hidden
        return self.encoder_flops(self.patches + 1) + FLOPS_PER_WEIGHT * float(embedding + self.hidden * self.labels)


SENTIMENTS = 3
# As many as Food-101's.
DISHES = 101
ROBERTA_BASE = TextShape(layers=12, hidden=768, heads=12, labels=SENTIMENTS, vocabulary=50_265, positions=512)
DEIT_SMALL = ImageShape(layers=12, hidden=384, heads=6, labels=DISHES, side=224, patch=16)
# For tests: everything runs, nothing takes time.
TINY_TEXT = TextShape(layers=2, hidden=128, heads=2, labels=SENTIMENTS, vocabulary=2_000, positions=128)
TINY_IMAGE = ImageShape(layers=2, hidden=64, heads=2, labels=DISHES, side=224, patch=32)
