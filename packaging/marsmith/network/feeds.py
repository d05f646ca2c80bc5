"""What a text network is fed, in each layout."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from marsmith.ground.serving import TextSettings


def feeds(texts: Sequence[Sequence[int]], settings: TextSettings) -> dict[str, np.ndarray]:
    """The graph's inputs for a batch of token ids.

    The handlers have their own; golden requests hold the two together.
    """
    lengths = [len(ids) for ids in texts]
    longest = max(lengths)
    types = [settings.token_types.of(length) for length in lengths] if settings.token_types else []
    if settings.layout != "packed":
        padded = {
            "input_ids": np.array([[*ids, *[settings.pad_token] * (longest - len(ids))] for ids in texts]),
            "attention_mask": np.array([[1] * n + [0] * (longest - n) for n in lengths]),
        }
        if types:
            padded["token_type_ids"] = np.array([[*one, *[0] * (longest - len(one))] for one in types])
        return padded
    begins = np.cumsum([0, *lengths[:-1]])
    packed = {
        "input_ids": np.concatenate(texts).astype(np.int64),
        "position_ids": np.concatenate([np.arange(n) for n in lengths]) + settings.first_position,
        "rows": np.array(
            [[*range(begin, begin + n)] + [-1] * (longest - n) for begin, n in zip(begins, lengths, strict=True)]
        ),
        "slots": np.concatenate([np.arange(n) + index * longest for index, n in enumerate(lengths)]),
    }
    if types:
        packed["token_type_ids"] = np.concatenate(types).astype(np.int64)
    return packed
