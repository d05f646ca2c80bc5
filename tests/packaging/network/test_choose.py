"""What counts as the same logits."""

import numpy as np
import pytest

from marsmith.errors import ExportError
from marsmith.network.choose import TOLERANCE, check_parity

LOGITS = np.array([[0.5, -1.5], [2.0, 3.0]], np.float32)


def parity(*found: np.ndarray, expected: np.ndarray = LOGITS) -> float:
    """Of a network that answers its cases, of which each expects the same, with `found` in turn."""
    answers = iter(found)
    return check_parity(lambda feeds: next(answers), [({}, expected)] * len(found))


def changed(value: float) -> np.ndarray:
    logits = LOGITS.copy()
    logits[1, 0] = value
    return logits


def test_parity_is_the_largest_difference_of_any_case() -> None:
    assert parity(LOGITS, changed(2.0 + TOLERANCE / 2), LOGITS) == pytest.approx(TOLERANCE / 2, rel=0.01)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (changed(2.0 + 2 * TOLERANCE), r"differ from the checkpoint's by 0\.0002 \(allowed 1e-04\)"),
        (LOGITS[:1], "differ from the checkpoint's by inf"),
        (changed(np.nan), "Its logits are not finite, and the checkpoint's are"),
        (changed(np.inf), "Its logits are not finite, and the checkpoint's are"),
        (changed(-np.inf), "Its logits are not finite, and the checkpoint's are"),
    ],
)
def test_other_logits_are_refused_in_whichever_case_they_occur(found: np.ndarray, says: str) -> None:
    for answers in [(found, LOGITS), (LOGITS, found)]:
        with pytest.raises(ExportError, match=says):
            parity(*answers)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_checkpoint_that_answers_nothing_is_refused_though_both_agree(value: float) -> None:
    with pytest.raises(ExportError, match="The checkpoint's own logits are not finite"):
        parity(changed(value), expected=changed(value))
