"""Compare a checkpoint's tokenizer with an archive's handler, token by token, on texts that reach every branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from marsmith.errors import CheckpointError
from marsmith.network.prepared import Ask, refused
from marsmith.network.text_reference import MAX_WINDOWS, TextReference, Window

# More characters than a handler reads of a long text before it looks whether that was enough: it has a token for every
# 16 characters at most.
CHARACTERS_PER_TOKEN = 32
# Added tokens of a vocabulary that are spelled out; some have thousands.
ADDED_TOKENS = 100

TEXTS = {
    "one word": "ok",
    "an empty text": "",
    "a sentence": "What a great day at the beach with @user, thank you! #fail https://example.org/a?b=c",
    "capitals and accents": "Die BRÜCKE öffnet um 9 Uhr: Straße, naïve CAFÉ, e\u0301, Ⅷ ﬁ",
    "spaces": "  two  spaces,\ttabs\n\nand lines \r\n ",
    "contractions and numbers": "don't I'm we'll 1,234.50 3rd -- ... ?! 'quoted' \"twice\"",
    "emoji": "so good 😀👍🏽 👩\u200d👩\u200d👧 🇩🇪!",
    "other scripts": "मुझे यह पसंद है / 我喜欢这个 / 좋아요 / Мне нравится / أحب هذا / すごい",
    "invisible characters": "zero\u200bwidth no\u00a0break \u202eback\u202c soft\u00adhyphen \ufeffmark \u0007bell",
}


def check_texts(reference: TextReference, ask: Ask) -> None:
    """Raise CheckpointError where the handlers feed other tokens than the checkpoint's tokenizer makes."""
    probes = dict(_probes(reference))
    for (name, text), answer in zip(probes.items(), ask({"texts": [*probes.values()]}), strict=True):
        if isinstance(answer, dict):
            raise refused(name, answer["error"])
        expected = reference.read(reference.windows(text))
        if reference.settings.truncation_side == "left":
            expected = expected[::-1]  # the tokenizer gives the end of a text first, the handler its windows in order
        for found in _differences(reference, expected, answer):
            raise CheckpointError(
                f"The tokenizer {type(reference.tokenizer).__name__} of {reference.path} cannot be carried by an "
                f"archive: of {name}, {found}. Save the checkpoint with a tokenizer whose tokenizer.json says all that "
                "it does, or choose another checkpoint."
            )


def _probes(reference: TextReference) -> Iterator[tuple[str, str]]:
    yield from TEXTS.items()
    special = reference.tokenizer.all_special_tokens
    yield "special tokens spelled out", " ".join(special)
    yield "special tokens inside words", "a" + "b".join(special) + "c"
    yield "added tokens spelled out", " ".join([*reference.tokenizer.get_added_vocab()][:ADDED_TOKENS])
    windows = MAX_WINDOWS if reference.settings.long_text == "window" else 1
    least = reference.settings.max_tokens * windows * CHARACTERS_PER_TOKEN
    words = (f"word{number} and {number % 7}, so!" for number in range(least))
    yield "a text that is too long", _as_long_as(least, words)


def _as_long_as(least: int, words: Iterator[str]) -> str:
    """Words that differ, so that each end of the text has its own."""
    chosen: list[str] = []
    length = 0
    while length < least:
        chosen.append(next(words))
        length += len(chosen[-1]) + 1
    return " ".join(chosen)


def _differences(reference: TextReference, expected: Sequence[Window], got: Sequence[Any]) -> Iterator[str]:
    if len(expected) != len(got):
        yield f"it makes {len(expected)} windows, and the handler {len(got)}"
    for window, feeds in zip(expected, got, strict=False):
        fed = reference.fed(window)
        length = len(fed["input_ids"])
        none = [0] * length
        for name, what in (("input_ids", "token"), ("token_type_ids", "token type")):
            theirs, ours = list(fed.get(name, none)), _flat(feeds.get(name, none))
            if len(theirs) != len(ours):
                yield f"it makes {len(theirs)} tokens, and the handler {len(ours)}"
            for place, (one, other) in enumerate(zip(theirs, ours, strict=False)):
                if one != other:
                    yield f"its {what} {place} is {one}, and the handler's {other}"
        if 0 in fed.get("attention_mask", ()):
            yield "it leaves out tokens with an attention mask, which the handler does not"


def _flat(values: list[Any]) -> list[int]:
    """A batch of one text without its batch dimension, which a packed one does not have."""
    return values[0] if values and isinstance(values[0], list) else values
