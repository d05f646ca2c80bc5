import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from training.cost import EXAMPLE, app, parse_point, read_points, reckon
from training.errors import TrainingError
from training.scaling import Point, checked, fit, notes


def law(devices: int) -> Point:
    """An hour that nothing shortens, and 9 that devices share: serial share 10 %."""
    return Point(devices, 1 + 9 / devices)


def written(folder: Path, content: object) -> Path:
    file = folder / "points.json"
    file.write_text(json.dumps(content))
    return file


def test_the_published_figures_are_28_times_as_fast_and_175_per_cent_a_device_hour() -> None:
    first, last = reckon(list(EXAMPLE), [])["measured"]
    assert (first["speed_up"], first["efficiency"]) == (1, 1)
    assert last["speed_up"] == pytest.approx(28.07, abs=0.005)
    assert last["efficiency"] == pytest.approx(1.754, abs=0.0005)
    assert first["device_hours_per_epoch"] / last["device_hours_per_epoch"] == pytest.approx(last["efficiency"])
    assert last["epochs_per_hour"] == pytest.approx(8.77, abs=0.005)


def test_what_obeys_amdahls_law_is_fitted_and_predicted_exactly() -> None:
    found = reckon([law(8), law(1), law(2)], [64, 16, 16], price=3)
    assert found["fit"]["serial_share"] == pytest.approx(0.1)
    assert found["fit"]["residual"] == pytest.approx(0, abs=1e-12)
    assert [row["devices"] for row in found["measured"]] == [1, 2, 8]
    assert [row["devices"] for row in found["predicted"]] == [16, 64]
    row = found["predicted"][0]
    assert row["hours_per_epoch"] == pytest.approx(1 + 9 / 16)
    assert row["speed_up"] == pytest.approx(10 / (1 + 9 / 16))
    assert row["efficiency"] == pytest.approx(10 / (16 + 9))
    assert row["cost_per_epoch"] == pytest.approx(3 * (16 + 9))


def test_relative_errors_are_least() -> None:
    points = [Point(1, 10.1), Point(2, 5.4), Point(4, 3.3), Point(8, 2.1)]
    found = fit(points)

    def error(serial: float, parallel: float) -> float:
        return sum(((serial + parallel / p.devices) / p.hours - 1) ** 2 for p in points)

    best = error(found.serial_hours, found.parallel_hours)
    assert found.residual == pytest.approx((best / 4) ** 0.5)
    for change in (-0.01, 0.01):
        assert error(found.serial_hours + change, found.parallel_hours) > best
        assert error(found.serial_hours, found.parallel_hours + change) > best


def test_points_need_not_begin_at_one_device() -> None:
    found = reckon([law(4), law(8)], [4])
    assert found["fit"]["serial_share"] == pytest.approx(0.1)
    assert found["measured"][1]["efficiency"] == pytest.approx(law(4).hours / law(8).hours / 2)
    assert found["predicted"][0]["speed_up"] == pytest.approx(1)


def test_one_point_predicts_nothing_but_the_ideal() -> None:
    found = reckon([Point(2, 6)], [12])
    assert found["fit"] is None
    assert found["ideal"]
    assert found["predicted"][0]["hours_per_epoch"] == pytest.approx(1)
    assert "One point says nothing about scaling" in found["notes"][0]


def test_two_points_are_said_to_prove_nothing() -> None:
    assert any("a third would test it" in note for note in notes([law(1), law(2)], fit([law(1), law(2)])))
    three = [law(1), law(2), law(4)]
    assert not any("a third" in note for note in notes(three, fit(three)))


def test_faster_than_the_devices_are_more_is_named_and_never_a_negative_share() -> None:
    found = reckon(list(EXAMPLE), [32])
    assert found["fit"]["serial_share"] == 0
    assert found["fit"]["residual"] > 0.1
    assert any("not to be relied on" in note for note in found["notes"])
    assert any("16 times the devices were 28.1 times as fast" in note for note in found["notes"])


def test_slower_with_more_devices_is_named() -> None:
    found = reckon([Point(1, 2), Point(2, 2.5)], [4])
    assert found["fit"]["serial_share"] == 1
    assert any("2 devices were no faster than 1" in note for note in found["notes"])


def test_rates_become_hours(tmp_path: Path) -> None:
    content = {
        "samples_per_epoch": 7200,
        "points": [{"devices": 1, "samples_per_s": 2}, {"devices": 2, "hours_per_epoch": 0.6}],
    }
    assert read_points(written(tmp_path, content)) == [Point(1, 1.0), Point(2, 0.6)]


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([], "at least one measured point"),
        ([Point(0, 1)], "devices is 0: it must be a number above 0"),
        ([Point(1, 0)], "hours_per_epoch is 0"),
        ([Point(1, -2.5)], r"hours_per_epoch is -2\.5"),
        ([Point(1, float("nan"))], "hours_per_epoch is nan"),
        ([Point(1, float("inf"))], "hours_per_epoch is inf"),
        ([Point(4, 1), Point(2, 1), Point(4, 2)], "4 devices are given twice"),
    ],
)
def test_bad_points_are_refused(points: list[Point], message: str) -> None:
    with pytest.raises(TrainingError, match=message):
        checked(points)


@pytest.mark.parametrize(
    "content",
    [
        [],
        {},
        {"points": [3]},
        {"points": [{"devices": 1}]},
        {"points": [{"devices": 1, "samples_per_s": 5}]},
        {"points": [{"devices": 1.5, "hours_per_epoch": 5}]},
    ],
)
def test_a_file_of_another_shape_is_refused(tmp_path: Path, content: object) -> None:
    with pytest.raises(TrainingError, match=r"points\.json cannot be read"):
        read_points(written(tmp_path, content))


@pytest.mark.parametrize("name", ["samples_per_s", "samples_per_epoch"])
@pytest.mark.parametrize("value", [0, -1, "5", True])
def test_a_bad_rate_is_named(tmp_path: Path, name: str, value: object) -> None:
    content = {"samples_per_epoch": 10, "points": [{"devices": 1, "samples_per_s": 5}]}
    (content if name in content else content["points"][0])[name] = value  # type: ignore[index]
    with pytest.raises(TrainingError, match=f"{name} is"):
        read_points(written(tmp_path, content))


@pytest.mark.parametrize("text", ["", "4", "4:", ":1", "1.5:2", "a:b", "4:1:2"])
def test_a_bad_point_is_refused(text: str) -> None:
    with pytest.raises(TrainingError, match="write DEVICES:HOURS"):
        parse_point(text)


@pytest.mark.parametrize(("devices", "price"), [([0], None), ([], -1.0), ([], float("nan"))])
def test_bad_wishes_are_refused(devices: list[int], price: float | None) -> None:
    with pytest.raises(TrainingError):
        reckon([Point(1, 1)], devices, price)


def test_the_command_prints_tables_or_json(tmp_path: Path) -> None:
    file = written(tmp_path, {"points": [{"devices": 1, "hours_per_epoch": 10}]})
    arguments = [str(file), "--point", "2:5.5", "--devices", "4", "--price", "2"]
    shown = CliRunner().invoke(app, arguments)
    assert shown.exit_code == 0
    assert "1.82x" in shown.output
    assert "Serial share 10.0%" in shown.output
    found = json.loads(CliRunner().invoke(app, [*arguments, "--json"]).output)
    assert found["predicted"][0]["hours_per_epoch"] == pytest.approx(3.25)
    assert found["measured"][1]["cost_per_epoch"] == 22


def test_the_example_says_what_was_rounded() -> None:
    shown = CliRunner().invoke(app, ["--example"]).output
    assert "28.07x" in shown
    assert "175%" in shown
    assert "the published 29 is a rounding" in " ".join(shown.split())
