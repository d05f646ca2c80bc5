"""When the requests of a loop are due, and what of a closed one is measured."""

import math
import statistics
from itertools import pairwise

import pytest

from marsmith.load.loops import Window, arrivals


def test_the_window_begins_when_all_clients_may_have_an_answer_and_ends_when_enough_came() -> None:
    done = [1.0, 2.0, 3.0, 4.0, 5.0]
    assert Window(clients=2, warm_up_s=0.5, seconds=1.5, least=1).bounds(done) == (2.0, 3.5)
    assert Window(clients=2, warm_up_s=2.5, seconds=0.1, least=2).bounds(done) == (2.5, 4.0)
    assert Window(clients=2, seconds=1.0, least=4).bounds(done) == (2.0, math.inf)
    assert Window(clients=6, seconds=1.0).bounds(done) == (math.inf, math.inf)


def test_a_window_that_may_not_grow_for_ever_ends_with_what_came() -> None:
    done = [1.0, 2.0, 3.0]
    assert Window(clients=2, seconds=1.0, least=4, growth=4).bounds(done) == (2.0, 4.0)
    assert Window(clients=6, seconds=1.0, growth=4).bounds(done) == (3.0, 4.0)


def test_arrivals_are_random_and_the_same_in_every_run() -> None:
    moments = arrivals(100.0, 50.0)
    assert moments == arrivals(100.0, 50.0) == sorted(moments)
    assert len(moments) == pytest.approx(5000, rel=0.1)
    gaps = [after - before for before, after in pairwise(moments)]
    # Exponential: as much spread as mean.
    assert statistics.stdev(gaps) == pytest.approx(statistics.mean(gaps), rel=0.1)
    assert moments[-1] < 50.0
