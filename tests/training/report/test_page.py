"""Pages and plots stand for themselves."""

import io

from PIL import Image

from training.report import figures
from training.report.calibration import Calibration
from training.report.machine import hardware, versions
from training.report.page import Plot, Table, Words, page, shown


def test_all_text_is_escaped() -> None:
    parts: list[Table | Plot | Words] = [
        Table("<h>", ("<a>", "b"), [("<c>", "&")]),
        Words("<d>"),
        Words("<e>", code=True),
        Plot(b"png", '"f"'),
    ]
    text = page("<t>", parts)
    for raw in ("<h>", "<a>", "<c>", "<d>", "<e>", "<t>", '"f"'):
        assert raw not in text
    assert text.startswith("<!doctype html>")


def test_values_are_shown_as_a_person_would() -> None:
    values: tuple[object, ...] = (True, False, 1234567, 0.0001, 2e-05, [], ["a", "b"], "x")
    assert [shown(value) for value in values] == ["yes", "no", "1,234,567", "0.0001", "2e-05", "none", "a, b", "x"]


def test_a_table_of_names_and_values() -> None:
    assert Table.of("t", {"a": 1000}).rows == [("a", "1,000")]


def test_plots_are_png_pictures_that_show_something() -> None:
    made = [
        figures.lines("t", "x", "y", {"a": [(0, 1), (1, 2)], "none": []}, best=1),
        figures.confusion("t", [[3, 0], [0, 0]], ["no", "yes"]),
        figures.reliability("t", Calibration((2, 3), (0.5, 0.9), (0.4, 0.8), 0.1)),
    ]
    for png in made:
        with Image.open(io.BytesIO(png)) as picture:
            assert picture.format == "PNG"
            assert len(picture.convert("RGB").getcolors(1 << 24) or []) > 10


def test_a_plot_of_the_same_numbers_is_the_same() -> None:
    one, other = (figures.lines("t", "x", "y", {"a": [(0, 1), (1, 2)]}) for _ in range(2))
    assert one == other


def test_hardware_and_versions_name_what_matters() -> None:
    machine = hardware()
    assert machine["cpu"]
    assert isinstance(machine["cores"], int)
    assert machine["cores"] >= 1
    assert {"python", "torch", "transformers"} <= versions().keys()
