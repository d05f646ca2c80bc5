# ruff: noqa: RUF001 - letters of many scripts that look like Latin ones
"""A text is taken as it comes, whatever is in it: the worker answers what transformers answers for the same string.

Nothing is normalised but what the recipe asks for. Whether é is one code point or two is for the checkpoint's own
tokenizer to decide, as it did in training; the handler has no second opinion.
"""

import logging
import unicodedata
from typing import Any

import pytest

from tests.handlers.transformers_reference import Reference
from tests.handlers.worker import Post
from tests.tiny import MAX_TOKENS

SCRIPTS = {
    "latin": "The quick brown fox",
    "vietnamese": "Tôi rất thích bộ phim này",
    "turkish": "İstanbul'da ılık bir gün",
    "cyrillic": "Мне это очень нравится",
    "greek": "Μου αρέσει πολύ",
    "hebrew": "אני אוהב את זה מאוד",
    "arabic": "أنا أحب هذا كثيرا",
    "persian": "می‌خواهم",
    "devanagari": "मुझे यह बहुत पसंद है",
    "bengali": "আমার এটা খুব ভালো লাগে",
    "tamil": "எனக்கு இது மிகவும் பிடிக்கும்",
    "thai": "ฉันชอบสิ่งนี้มาก",
    "khmer": "ខ្ញុំចូលចិត្តវា",
    "burmese": "ဒါကို ကြိုက်တယ်",
    "georgian": "ძალიან მომწონს",
    "armenian": "Ինձ շատ դուր է գալիս",
    "amharic": "በጣም ወድጄዋለሁ",
    "cherokee": "ᎣᏏᏲ",
    "chinese": "我非常喜欢这个",
    "japanese": "これがとても好きです ﾊﾝｶｸ",
    "korean": "정말 좋아요",
    "tibetan": "བཀྲ་ཤིས་བདེ་ལེགས",
    "mongolian": "ᠮᠣᠩᠭᠣᠯ",
    "gothic": "𐌲𐌿𐍄𐌹𐍃𐌺",
    "mathematical": "𝓘 𝓵𝓸𝓿𝓮 𝓲𝓽",
}
ODD = {
    "composed": unicodedata.normalize("NFC", "café Ångström 각"),
    "decomposed": unicodedata.normalize("NFD", "café Ångström 각"),
    "compatibility": "ﬁ ½ ＦＵＬＬ Ⅷ ㎏",
    "family emoji": "👩‍👩‍👧‍👦 👍🏽 🏳️‍🌈 🇩🇪 1️⃣",
    "control characters": "a\x00b\x01\x07\x08\x1b[31m\x7f\x85z",
    "zero width": "great\u200bday\u200c\u200d\u2060\ufeff",
    "byte order mark": "\ufeffgreat day",
    "bidi": "\u202egreat\u202c \u2067day\u2069 \u200e\u200f",
    "line ends": "one\r\ntwo\rthree\n\u2028four\u2029five\x0bsix\x0cseven",
    "spaces": "\u3000great\xa0\u2009day\u3000",
    "soft hyphen": "won\u00adder\u00adful",
    "private use and unassigned": "\ue000\uf8ff \U0010ffff \u0378 \ufffe\uffff",
    "replacement character": "caf\ufffd",
    "combining marks": "z\u0351\u036b\u0343\u036a\u0302\u036b\u033d\u034f" * 20,
    "special tokens": "[CLS] [SEP] <s> </s> <mask> <pad> [PAD]",
    "markup": "<b>great</b> &amp; <script>alert(1)</script> {\"text\": \"x\"} %00 ${jndi:ldap://x}",
    "metrics line": "x\n[METRICS]evil.ms:1|#Level:Model\n[PID]1",
    "one letter": "a",
    "one mark": "!",
    "a zero": "0",
    "one word": "a" * 5000,
    "a variation selector": "\ufe0f",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("text", [*SCRIPTS.values(), *ODD.values()], ids=[*SCRIPTS, *ODD])
def test_the_answer_is_that_of_the_tokenizer_and_network_for_the_same_string(reference: Reference, text: str) -> None:
    """pytorch/serve#821, pytorch/serve#1922"""
    answers = reference.worker.predict(
        Post(text.encode(), "text/plain"), Post(text.encode("utf-16"), "text/plain; charset=utf-16"), Post.json(text)
    )
    for answer in answers:
        assert answer.status == 200
        assert answer.value["scores"] == pytest.approx(reference.scores(text), abs=1e-4)
        assert answer.value["tokens"] == len(reference.ids(text))


def test_spellings_that_the_tokenizer_tells_apart_stay_apart(references: dict[str, Reference]) -> None:
    """Byte-level BPE has no normaliser: an NFC of the handler's own would change what the checkpoint was trained on."""
    composed, decomposed = ODD["composed"], ODD["decomposed"]
    assert references["roberta"].ids(composed) != references["roberta"].ids(decomposed)
    answers = references["roberta"].worker.predict(Post.json(composed), Post.json(decomposed))
    scores = [list(answer.value["scores"].values()) for answer in answers]
    assert max(abs(one - other) for one, other in zip(*scores, strict=True)) > 1e-3


BLANK = {
    "nothing": "",
    "spaces": "  \t \r\n ",
    "ideographic space": "\u3000",
    "no-break space": "\xa0\u2007\u202f",
    "line separators": "\u2028\u2029\x85",
    "zero width space": "\u200b",
    "joiners": "\u200c\u200d\u2060",
    "byte order mark": "\ufeff",
    "bidi marks": "\u200e\u202e\u2069",
    "soft hyphens": "\xad\xad",
    "control characters": "\x00\x07\x1b\x7f",
    "many": "\u200b " * 100_000,
}


@pytest.mark.parametrize("text", BLANK.values(), ids=list(BLANK))
def test_a_text_that_shows_nothing_is_unprocessable(reference: Reference, text: str) -> None:
    """pytorch/serve#1225, pytorch/serve#1142"""
    first, *answers, last = reference.worker.predict(
        Post.json("ok"), Post(text.encode(), "text/plain"), Post.json({"text": text}), Post.json("ok")
    )
    for answer in answers:
        assert (answer.status, answer.error["message"]) == (422, "The text is empty.")
    assert first.value == last.value


@pytest.mark.parametrize("text", ["\ud800", "great \udfff day", "\udc00\ud800", "😀\ud83d"])
def test_half_a_surrogate_pair_is_malformed(reference: Reference, text: str) -> None:
    """pytorch/serve#1225: JSON can spell it, UTF-8 cannot."""
    first, answer, last = reference.worker.predict(Post.json("ok"), Post.json(text), Post.json("ok"))
    assert (answer.status, answer.error["type"]) == (400, "malformed")
    assert first.value == last.value


def test_a_surrogate_pair_spelt_in_json_is_its_character(reference: Reference) -> None:
    """pytorch/serve#943"""
    escaped, plain = reference.worker.predict(Post(b'"\\ud83d\\ude00"', "application/json"), Post.json("😀"))
    assert escaped.value["scores"] == pytest.approx(plain.value["scores"], abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", "great day ", "😀", "\n@alice http://x.y "])
def test_a_body_of_a_megabyte_is_answered_and_one_byte_more_is_refused(reference: Reference, unit: str) -> None:
    """kserve/kserve#3450"""
    limit = reference.handler.settings.options.max_text_bytes
    text = unit * (limit // len(unit.encode()))
    text += "." * (limit - len(text.encode()))
    full, more = reference.worker.predict(Post(text.encode(), "text/plain"), Post(f"{text}.".encode(), "text/plain"))
    assert full.status == 200
    assert full.value["scores"] == pytest.approx(reference.scores(text), abs=1e-4)
    tokens = len(reference.ids(text))
    assert (full.value["tokens"], full.value["truncated"]) == (tokens, tokens == MAX_TOKENS)
    assert (more.status, more.error["type"]) == (413, "too_large")


@pytest.mark.parametrize("text", ["swordfish \u202e", "swordfish\n[METRICS]swordfish.ms:1"])
def test_no_text_is_logged(
    reference: Reference, text: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[Any]
) -> None:
    """kserve/kserve#1889, pytorch/serve#2162"""
    with caplog.at_level(logging.DEBUG):
        reference.worker.predict(Post.json(text), Post.json([text, 3]), Post(text.encode("utf-16"), "text/plain"))
    assert "swordfish" not in caplog.text
    assert capfd.readouterr() == ("", "")
