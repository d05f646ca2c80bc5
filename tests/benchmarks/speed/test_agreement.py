"""A faster wrong answer is a failure."""

import pytest

from benchmarks.speed.agreement import Answer, agreement

LABELS = ("negative", "neutral", "positive")


def sure(label: str) -> Answer:
    return Answer(label, {name: 0.9 if name == label else 0.05 for name in LABELS})


EXPECTED = [sure(LABELS[index % 3]) for index in range(100)]


def test_the_same_answers_agree() -> None:
    found = agreement(EXPECTED, enumerate(EXPECTED))
    assert found.ok
    assert (found.compared, found.share, found.worst_score) == (100, 1.0, 0.0)


@pytest.mark.parametrize(("wrong", "ok"), [(1, True), (2, False)])
def test_one_wrong_label_of_a_hundred_is_the_most(wrong: int, ok: bool) -> None:
    others = [sure(LABELS[(index + 1) % 3]) for index in range(wrong)]
    found = agreement(EXPECTED, enumerate([*others, *EXPECTED[wrong:]]))
    assert found.share == (100 - wrong) / 100
    assert found.ok is ok


def test_answers_to_other_inputs_are_wrong() -> None:
    assert not agreement(EXPECTED, ((index, EXPECTED[index - 1]) for index in range(100))).ok


def test_no_answer_at_all_is_no_agreement() -> None:
    assert not agreement(EXPECTED, []).ok


def test_a_label_alone_is_compared_and_unreadable_answers_are_wrong() -> None:
    assert agreement(EXPECTED, ((index, Answer(one.label, {})) for index, one in enumerate(EXPECTED))).ok
    assert agreement(EXPECTED, [(0, Answer("", {}))]).share == 0


def test_where_the_checkpoint_hardly_prefers_a_label_either_is_right() -> None:
    close = Answer("neutral", {"negative": 0.44, "neutral": 0.46, "positive": 0.1})
    other = Answer("negative", {"negative": 0.46, "neutral": 0.45, "positive": 0.09})
    found = agreement([close, *EXPECTED], [(0, other), (1, EXPECTED[0])])
    assert (found.compared, found.share) == (1, 1.0)
    assert found.worst_score == pytest.approx(0.02)
