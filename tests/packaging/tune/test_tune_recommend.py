"""What is recommended: throughput first, but never at the cost of failures or of everybody's time."""

from dataclasses import replace

from marsmith.tune.recommend import LONE_SLACK, LONE_SLACK_MS, eligible, recommend
from tests.packaging.tune.rows import SETTING, row

TWO_WORKERS = replace(SETTING, workers=2, threads=1)


def test_the_most_requests_a_second_win() -> None:
    slow, fast = row(), row(replace(SETTING, precision="int8"), per_second=180.0)
    found = recommend([slow, fast])
    assert found is not None
    assert found.row is fast
    assert found.reason.startswith("int8, 1 x 2 threads, batches of 16, 5 ms gave the most requests/s, 180.0, of those")


def test_a_row_with_a_failure_is_never_recommended() -> None:
    wrong, right = row(per_second=900.0, failures={"503": 1}), row()
    found = recommend([wrong, right])
    assert found is not None
    assert found.row is right
    assert recommend([wrong]) is None
    assert recommend([]) is None


def test_a_failing_row_does_not_set_the_time_of_a_lone_request_either() -> None:
    hasty, right = row(failures={"503": 3}, lone_p50_ms=0.1), row()
    assert eligible([hasty, right]) == [right]


def test_throughput_is_not_bought_with_the_time_of_a_lone_request() -> None:
    quick = row(lone_p50_ms=100.0)
    slow = row(TWO_WORKERS, per_second=300.0, lone_p50_ms=100.0 * LONE_SLACK + 0.1)
    bearable = row(TWO_WORKERS, per_second=200.0, lone_p50_ms=100.0 * LONE_SLACK)
    assert eligible([quick, slow, bearable]) == [bearable, quick]


def test_a_millisecond_of_a_quick_model_does_not_count() -> None:
    quick = row(lone_p50_ms=1.0)
    slow = row(TWO_WORKERS, per_second=300.0, lone_p50_ms=1.1 + LONE_SLACK_MS)
    bearable = row(TWO_WORKERS, per_second=200.0, lone_p50_ms=1.0 + LONE_SLACK_MS)
    assert eligible([quick, slow, bearable]) == [bearable, quick]


def test_what_is_equal_within_the_noise_is_decided_by_memory() -> None:
    large = row(per_second=101.5, memory_bytes=300_000_000)
    small = row(TWO_WORKERS, per_second=100.0)
    found = recommend([large, small])
    assert found is not None
    assert found.row is small
    assert "the smallest of 2 that are alike" in found.reason


def test_past_the_noise_memory_does_not_count() -> None:
    large, small = row(per_second=102.1, memory_bytes=300_000_000), row()
    found = recommend([large, small])
    assert found is not None
    assert found.row is large


def test_about_the_same_memory_leaves_it_to_the_workers_then_to_the_lone_request() -> None:
    two = row(TWO_WORKERS, memory_bytes=195_000_000, lone_p50_ms=9.0)
    waiting = row(lone_p50_ms=10.0)
    soonest = row(replace(SETTING, max_batch_delay_ms=1), lone_p50_ms=9.5)
    found = recommend([two, waiting, soonest])
    assert found is not None
    assert found.row is soonest
