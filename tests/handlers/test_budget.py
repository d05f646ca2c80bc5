"""What several threads hold at once is bounded, and nobody waits for ever."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.budget import Budget
from handlers.parallel import side_by_side

MOST = 10
# Long enough for a slow machine, and never waited for where all is right.
PATIENCE_S = 30


@given(st.lists(st.integers(0, 2 * MOST), max_size=12), st.integers(1, 4))
def test_no_more_is_held_than_the_budget_or_one_that_is_larger(amounts: list[int], threads: int) -> None:
    budget, lock, held = Budget(MOST), threading.Lock(), []
    seen: list[list[int]] = []

    def hold(amount: int) -> None:
        with budget.turn() as take:
            take(amount)
            with lock:
                held.append(amount)
                seen.append(list(held))
            with lock:
                held.remove(amount)

    side_by_side(hold, amounts, threads)
    assert all(sum(one) <= MOST or len([amount for amount in one if amount]) == 1 for one in seen)
    assert len(seen) == len(amounts)


def test_what_fits_is_held_together() -> None:
    together = threading.Barrier(2)
    budget = Budget(MOST)

    def hold(amount: int) -> None:
        with budget.turn() as take:
            take(amount)
            together.wait(PATIENCE_S)

    side_by_side(hold, [MOST // 2, MOST // 2], 2)


def test_a_turn_that_fails_gives_back_what_it_took() -> None:
    budget = Budget(MOST)

    def fail() -> None:
        with budget.turn() as take:
            take(MOST)
            raise ZeroDivisionError

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            fail()
    with budget.turn() as take:
        take(MOST)


def test_a_turn_that_takes_nothing_holds_nothing() -> None:
    budget = Budget(MOST)
    with budget.turn(), budget.turn() as take:
        take(2 * MOST)
