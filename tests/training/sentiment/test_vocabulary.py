"""Pruning a WordPiece tokenizer small enough to read."""

from collections import Counter

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from training.sentiment.vocabulary import choose_pieces, count_pieces, prune_tokenizer

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
WORDS = ["cats", "cat", "dog", "##s", "##gy"]
LETTERS = [form for letter in "acdgostyz" for form in (letter, f"##{letter}")]
SIGNS = ["!", "…", "7"]
BASE = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", *WORDS, *LETTERS, *SIGNS]
CORPUS = ["Cats cats CAT", "cats doggy !"]


@pytest.fixture
def tokenizer() -> Tokenizer:
    pieces = list(dict.fromkeys(BASE))
    ids = {piece: index for index, piece in enumerate(pieces)}
    made = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])]
    )
    made.add_special_tokens(SPECIAL)
    made.enable_truncation(3)
    made.enable_padding(length=16, pad_id=0)
    return made


def test_counting_ignores_special_tokens_truncation_and_padding(tokenizer: Tokenizer) -> None:
    assert count_pieces(tokenizer, CORPUS) == {"cats": 3, "cat": 1, "dog": 1, "##gy": 1, "!": 1}


def test_counting_leaves_the_tokenizer_as_it_was(tokenizer: Tokenizer) -> None:
    before = tokenizer.to_str()
    count_pieces(tokenizer, CORPUS)
    assert tokenizer.to_str() == before


def test_special_tokens_seen_letters_and_all_signs_are_kept_before_any_word(tokenizer: Tokenizer) -> None:
    first = len(SPECIAL) + 2 * len("acdgosty") + len(SIGNS)  # z never occurs
    kept = choose_pieces(tokenizer, count_pieces(tokenizer, CORPUS), first)
    assert set(kept) == {*SPECIAL, *SIGNS, *LETTERS} - {"z", "##z"}


def test_the_most_frequent_pieces_come_next_and_old_ids_break_ties(tokenizer: Tokenizer) -> None:
    counts = Counter({"cat": 2, "##gy": 2, "dog": 1, "cats": 5, "##s": 9, "o": 1, "a": 1, "c": 1, "t": 1, "y": 1})
    letters = len(choose_pieces(tokenizer, counts, 1000)) - len(["cats", "cat", "dog", "##gy"])
    words = [set(choose_pieces(tokenizer, counts, letters + extra)) & set(WORDS) for extra in range(4)]
    assert words == [{"##s"}, {"##s", "cats"}, {"##s", "cats", "cat"}, {"##s", "cats", "cat", "##gy"}]


def test_pieces_stay_in_the_order_of_their_old_ids(tokenizer: Tokenizer) -> None:
    kept = choose_pieces(tokenizer, count_pieces(tokenizer, CORPUS), 26)
    assert kept == sorted(kept, key=tokenizer.get_vocab().__getitem__)
    assert kept[:5] == [*SPECIAL, "cats"]


def test_unused_pieces_do_not_fill_a_size_that_the_corpus_does_not_need(tokenizer: Tokenizer) -> None:
    kept = choose_pieces(tokenizer, count_pieces(tokenizer, CORPUS), 1000)
    assert {"[unused0]", "z", "##z"}.isdisjoint(kept)
    assert len(kept) == len(SPECIAL) + len(SIGNS) + 2 * len("acdgosty") + len(["cats", "cat", "dog", "##gy"])


def test_a_size_without_room_for_letters_and_signs_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(ValueError, match=r"22 pieces are too few.*need 23"):
        choose_pieces(tokenizer, count_pieces(tokenizer, CORPUS), 22)


@pytest.fixture(params=["template", "bert"])
def either(request: pytest.FixtureRequest, tokenizer: Tokenizer) -> Tokenizer:
    if request.param == "bert":
        ids = tokenizer.get_vocab()
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", ids["[SEP]"]), ("[CLS]", ids["[CLS]"]))
    return tokenizer


def test_a_pruned_tokenizer_splits_kept_words_as_before_under_new_ids(either: Tokenizer) -> None:
    kept = choose_pieces(either, count_pieces(either, CORPUS), 1000)
    pruned = prune_tokenizer(either, kept)
    encoding = pruned.encode("Cats doggy !")
    assert encoding.tokens == ["[CLS]", "cats", "dog", "##gy", "!", "[SEP]"]
    assert encoding.ids == [kept.index(piece) for piece in encoding.tokens]
    assert pruned.get_vocab_size() == len(kept)


def test_a_word_whose_piece_went_away_falls_back_on_shorter_pieces(tokenizer: Tokenizer) -> None:
    kept = [piece for piece in choose_pieces(tokenizer, count_pieces(tokenizer, CORPUS), 1000) if piece != "cats"]
    pruned = prune_tokenizer(tokenizer, kept)
    assert pruned.encode("cats", add_special_tokens=False).tokens == ["cat", "##s"]
    assert pruned.encode("day", add_special_tokens=False).tokens == ["d", "##a", "##y"]
    assert pruned.encode("daz", add_special_tokens=False).tokens == ["[UNK]"]


@pytest.mark.slow
def test_truncation_and_padding_are_gone_after_pruning(tokenizer: Tokenizer) -> None:
    pruned = prune_tokenizer(tokenizer, choose_pieces(tokenizer, count_pieces(tokenizer, CORPUS), 1000))
    assert (pruned.truncation, pruned.padding) == (None, None)
    assert len(pruned.encode("cat " * 600).ids) == 602
