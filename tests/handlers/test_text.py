"""Text becomes the token ids that transformers gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoTokenizer

from handlers.errors import TooLarge
from handlers.text import TextEncoder, Tokens, normalise_tweet
from handlers.work import Work
from tests import tiny
from tests.tiny import MAX_TOKENS

# Both tokenizers put one token before a text and one behind it.
SPECIAL = 2
STRINGS = [
    "ok",
    "What a GREAT day at the beach, thank you so much!",
    "  two  spaces\tand a tab\nand a line ",
    "I love this! It's wonderful, isn't it? @user http #fail",
    "😀👩‍👩‍👧‍👦🇩🇪 emoji\ufe0f and e\u0301 combining",
    "\u202eمرحبا بالعالم\u202c right to left",  # noqa: RUF001
    "我喜欢这个 mixed with latin",
    "naïve CAFÉ Straße ﬁ ½ ＦＵＬＬ",  # noqa: RUF001
    "control \x00\x01\x07\x1b[31m\x7f\u200b\ufeff chars",
    "[CLS] [SEP] <s> </s> <mask> [MASK] <pad>",
    "a" * 500,
    "the coffee is great and " * 40,
    "\U0010ffff\ue000",
    "user@example.com https://example.com/?q=1&r=2",
]


@pytest.mark.parametrize(
    ("text", "normalised"),
    [
        ("", ""),
        ("hello", "hello"),
        ("@alice hi", "@user hi"),
        ("@", "@"),
        ("@@", "@user"),
        ("hi @bob, you", "hi @user you"),
        ("mail a@b.c", "mail a@b.c"),
        ("http://t.co/x", "http"),
        ("see https://t.co/x now", "see http now"),
        ("httpd is a server", "http is a server"),
        ("HTTP://T.CO", "HTTP://T.CO"),
        ("(http://t.co)", "(http://t.co)"),
        ("two  spaces ", "two  spaces "),
        ("\n@alice", "\n@alice"),
        ("@alice\n@bob", "@user"),
        ("tab\thttp://t.co", "tab\thttp://t.co"),
        (" @a  http://x ", " @user  http "),
    ],
)
def test_user_names_and_links_are_masked_as_the_model_card_says(text: str, normalised: str) -> None:
    assert normalise_tweet(text) == normalised


@given(st.text(alphabet="@htp:/ a\n"))
def test_masking_twice_changes_nothing_more(text: str) -> None:
    once = normalise_tweet(text)
    assert normalise_tweet(once) == once
    assert once.count(" ") == text.count(" ")


def encoder_and_reference(checkpoint: Path, normalise: str = "none") -> tuple[TextEncoder, Any]:
    encoder = TextEncoder(checkpoint / "tokenizer.json", normalise, MAX_TOKENS)
    return encoder, AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=False)


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
@pytest.mark.parametrize("text", STRINGS)
def test_token_ids_are_those_of_transformers(text_checkpoints: dict[str, Path], model_type: str, text: str) -> None:
    encoder, reference = encoder_and_reference(text_checkpoints[model_type])
    tokens = encoder.encode(text)
    assert tokens.windows == [reference(text, truncation=True, max_length=MAX_TOKENS)["input_ids"]]
    assert tokens.count == len(tokens.windows[0])
    assert tokens.truncated is (len(reference(text)["input_ids"]) > MAX_TOKENS)


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_token_ids_of_any_text_are_those_of_transformers(text_checkpoints: dict[str, Path], model_type: str) -> None:
    encoder, reference = encoder_and_reference(text_checkpoints[model_type])

    @settings(max_examples=150, deadline=None)
    @given(st.text(st.characters(exclude_categories=["Cs"]), max_size=120))
    @example("\x00")
    def compare(text: str) -> None:
        assert encoder.encode(text).windows == [reference(text, truncation=True, max_length=MAX_TOKENS)["input_ids"]]

    compare()


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_long_texts_are_read_only_as_far_as_they_fill_the_model(
    text_checkpoints: dict[str, Path], model_type: str
) -> None:
    """However a long text is pieced together, its ids are those of the whole text."""
    encoder, reference = encoder_and_reference(text_checkpoints[model_type])
    pieces = st.lists(st.sampled_from([*STRINGS, " " * 300, "\n", "long" * 200]), min_size=5, max_size=30)

    @settings(max_examples=60, deadline=None)
    @given(pieces, st.sampled_from(["", " ", "\t\n"]))
    def compare(parts: list[str], glue: str) -> None:
        text = glue.join(parts)
        tokens = encoder.encode(text)
        assert tokens.windows == [reference(text, truncation=True, max_length=MAX_TOKENS)["input_ids"]]
        assert tokens.truncated == (len(reference(text)["input_ids"]) > MAX_TOKENS)

    compare()


def test_the_encoder_normalises_before_it_tokenises(text_checkpoints: dict[str, Path]) -> None:
    encoder, reference = encoder_and_reference(text_checkpoints["roberta"], "tweet")
    assert encoder.encode("@alice see https://t.co/x").windows == [reference("@user see http")["input_ids"]]


def test_an_unknown_normalisation_is_refused_at_load(text_checkpoints: dict[str, Path]) -> None:
    with pytest.raises(KeyError, match="lower"):
        TextEncoder(text_checkpoints["bert"] / "tokenizer.json", "lower", MAX_TOKENS)


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_truncation_begins_with_the_first_token_too_many(text_checkpoints: dict[str, Path], model_type: str) -> None:
    """kserve/kserve#3450; the special tokens count."""
    encoder, reference = encoder_and_reference(text_checkpoints[model_type])
    exact = " ".join(["a"] * (MAX_TOKENS - 2))
    assert len(reference(exact)["input_ids"]) == MAX_TOKENS
    assert (encoder.encode(exact).count, encoder.encode(exact).truncated) == (MAX_TOKENS, False)
    assert encoder.encode(exact + " a") == Tokens(encoder.encode(exact).windows, SPECIAL, True)


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_ten_thousand_words_are_cut_to_what_the_model_reads(text_checkpoints: dict[str, Path], model_type: str) -> None:
    """kserve/kserve#3450"""
    encoder, reference = encoder_and_reference(text_checkpoints[model_type])
    tokens = encoder.encode("great day " * 5000)
    assert tokens.truncated is True
    (ids,) = tokens.windows
    assert ids == reference("great day " * 50, truncation=True, max_length=MAX_TOKENS)["input_ids"]
    assert ids[-1] == reference.sep_token_id


def test_what_the_tokenizer_file_says_of_padding_and_truncation_is_overruled(
    text_checkpoints: dict[str, Path], tmp_path: Path
) -> None:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(text_checkpoints["bert"] / "tokenizer.json"))
    tokenizer.enable_padding(length=30)
    tokenizer.enable_truncation(4)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    plain, _ = encoder_and_reference(text_checkpoints["bert"])
    padded = TextEncoder(tmp_path / "tokenizer.json", "none", MAX_TOKENS)
    text = "the train leaves at nine"
    assert padded.encode(text) == plain.encode(text)
    assert plain.encode(text).count > 4


def whole(reference: Any, text: str) -> list[int]:
    """The ids of a text, however long."""
    return list(reference(text)["input_ids"])


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_windows_lie_side_by_side_and_miss_nothing(text_checkpoints: dict[str, Path], model_type: str) -> None:
    file = text_checkpoints[model_type] / "tokenizer.json"
    encoder = TextEncoder(file, "none", MAX_TOKENS, "window", 1000)
    _, reference = encoder_and_reference(text_checkpoints[model_type])

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.sampled_from([*STRINGS, " " * 300, "\n", "long" * 200]), min_size=1, max_size=30))
    def compare(parts: list[str]) -> None:
        ids, tokens = whole(reference, "".join(parts)), encoder.encode("".join(parts))
        content = [token for window in tokens.windows for token in window[1:-1]]
        assert [ids[0], *content, ids[-1]] == ids
        assert {(window[0], window[-1]) for window in tokens.windows} == {(ids[0], ids[-1])}
        assert all(len(window) == MAX_TOKENS for window in tokens.windows[:-1])
        assert len(tokens.windows[-1]) <= MAX_TOKENS
        assert (tokens.count, tokens.truncated) == (len(ids), False)

    compare()


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
@pytest.mark.parametrize("most", [1, 2, 3])
def test_no_more_windows_are_read_than_allowed(text_checkpoints: dict[str, Path], model_type: str, most: int) -> None:
    encoder = TextEncoder(text_checkpoints[model_type] / "tokenizer.json", "none", MAX_TOKENS, "window", most)
    fits = " ".join(["a"] * (MAX_TOKENS - SPECIAL) * most)
    exact, more, endless = encoder.encode(fits), encoder.encode(fits + " a"), encoder.encode(f"{fits} " * 5000)
    assert (len(exact.windows), exact.count, exact.truncated) == (most, (MAX_TOKENS - SPECIAL) * most + SPECIAL, False)
    assert more == endless == Tokens(exact.windows, SPECIAL, True)


@pytest.mark.parametrize("model_type", ["bert", "roberta"])
def test_a_text_too_long_can_be_refused(text_checkpoints: dict[str, Path], model_type: str) -> None:
    """kserve/kserve#3450; only what it takes to know is tokenised."""
    encoder = TextEncoder(text_checkpoints[model_type] / "tokenizer.json", "none", MAX_TOKENS, "error")
    fits = " ".join(["a"] * (MAX_TOKENS - SPECIAL))
    assert (encoder.encode(fits).count, encoder.encode(fits).truncated) == (MAX_TOKENS, False)
    with pytest.raises(TooLarge, match=rf"^The text has {MAX_TOKENS + 1} tokens, .* reads {MAX_TOKENS}\.$") as caught:
        encoder.encode(fits + " a")
    assert (caught.value.status, caught.value.type) == (413, "too_large")
    with pytest.raises(TooLarge, match=r"^The text has at least \d{3} tokens"):
        encoder.encode("a " * 100_000)


@pytest.mark.parametrize(("lengths", "weights"), [([5], [1]), ([40, 12], [38, 10]), ([40, 40, 3], [38, 38, 1])])
def test_the_mean_of_windows_is_weighted_by_their_tokens(lengths: list[int], weights: list[int]) -> None:
    tokens = Tokens([[1] * length for length in lengths], SPECIAL, False)
    scores = [np.array([0.1 * place, 1 - 0.1 * place], np.float32) for place in range(len(lengths))]
    mean = sum(weight * score for weight, score in zip(weights, scores, strict=True)) / sum(weights)
    assert tokens.average(scores) == pytest.approx(mean, abs=1e-6)
    assert tokens.average(scores).dtype == np.float32


def test_a_text_without_tokens_has_its_windows_scores() -> None:
    scores = np.array([0.25, 0.75], np.float32)
    assert Tokens([[2, 3]], SPECIAL, False).average([scores]).tolist() == [0.25, 0.75]


UNITS = ("!?", "漢字", "e\u0301", "a", "12345", "😀", "<mask>", "</s>", "[MASK]", "\x00", "a!", "\ufdfa", "@x", "don't")


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("kind", ["wordpiece", "byte_level_bpe"])
@pytest.mark.parametrize("begin", ["", "a b ", "x" * 50])
def test_a_text_without_white_space_is_cut_where_the_whole_has_the_same_tokens(
    tmp_path: Path, kind: str, unit: str, begin: str
) -> None:
    file = tmp_path / "tokenizer.json"
    getattr(tiny, kind)().save(str(file))
    encoder = TextEncoder(file, "none", 8, "window", 2)
    whole = Tokenizer.from_file(str(file))
    whole.enable_truncation(8)
    for count in (100, 130, 1000):
        text = begin + unit * count
        encoding = whole.encode(text)
        windows = [encoding.ids, *(rest.ids for rest in encoding.overflowing)]
        assert encoder.encode(text).windows == windows[:2]


def test_little_of_a_text_without_white_space_is_read(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    tiny.wordpiece().save(str(file))
    assert len(TextEncoder(file, "none", 8).encode("!?" * 50_000).text) < 1000


def test_what_is_tokenised_is_spent_once(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    tiny.wordpiece().save(str(file))
    encoder = TextEncoder(file, "none", 8)
    text = "x" * 10_000
    work = Work(milliseconds=20)
    assert encoder.encode(text, work).truncated is False
    with pytest.raises(TooLarge, match="longer than 20 ms"):
        encoder.encode(text, work)
    encoder.encode("x " * 10_000, Work(milliseconds=20))


@given(st.text(st.sampled_from("@http ax\n\t:/"), max_size=40))
def test_user_names_and_links_are_masked_word_by_word(text: str) -> None:
    def masked(word: str) -> str:
        if word.startswith("@") and len(word) > 1:
            return "@user"
        return "http" if word.startswith("http") else word

    assert normalise_tweet(text) == " ".join(masked(word) for word in text.split(" "))
