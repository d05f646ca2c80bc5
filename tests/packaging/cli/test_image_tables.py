"""What people read of an image."""

from pathlib import Path

import pytest
from rich.console import Console

from marsmith.cli.image_tables import built_text, layers_table, results_table
from marsmith.image.build import Built
from marsmith.image.results import LayerSize, Report, Result


def shown(table: object) -> str:
    console = Console(width=140, record=True, file=Path("/dev/null").open("w"))  # noqa: SIM115 - gone with the test
    console.print(table)
    return console.export_text()


@pytest.mark.parametrize(
    ("created_by", "step"),
    [
        ("/bin/sh -c apt-get update", "apt-get update"),
        ("|2 VERSION=1 LOCK=x /bin/sh -c pip install y", "pip install y"),
        ("/bin/sh -c #(nop) COPY file:1 in /", "COPY file:1 in /"),
        (f"COPY dir:{'ab' * 32} in /opt", "COPY dir:abababababab in /opt"),
        ("RUN /bin/true # buildkit", "RUN /bin/true # buildkit"),
    ],
)
def test_a_step_is_shown_without_the_shell_before_it(created_by: str, step: str) -> None:
    report = Report("m", "docker", "sha256:00", "arm64", [LayerSize(1024, 2048, created_by)])
    text = shown(layers_table(report))
    assert f"│ {step} " in text
    assert "1.0 KiB" in text
    assert "2.0 KiB" in text


def test_the_sum_is_known_where_each_layers_size_is() -> None:
    layers = [LayerSize(1024, 1, "a"), LayerSize(1024, 1, "b")]
    assert "2.0 KiB" in shown(layers_table(Report("m", "OCI", "sha256:00", "arm64", layers)))
    unknown = Report("m", "docker", "sha256:00", "arm64", [LayerSize(None, 1, "a")])
    assert unknown.compressed is None
    assert shown(layers_table(unknown)).count("—") == 2


def test_of_many_files_the_first_are_shown_and_markup_is_text() -> None:
    where = tuple(f"usr/bin/[red]{number}" for number in range(10))
    report = Report("m", "docker", "sha256:00", "arm64", [], [Result("setuid, setgid", "wrong", "10 files", where)])
    text = shown(results_table(report))
    assert "usr/bin/[red]7" in text
    assert "usr/bin/[red]8" not in text
    assert "and 2 more" in text


def test_what_was_built_is_said_with_what_does_not_repeat() -> None:
    built = Built(
        "m:1", "buildah", "linux/arm64", [], Path("i.tar"), Path("i.cdx.json"), "sha256:00", 2048, ["A note."]
    )
    assert built_text(built).splitlines() == [
        "built m:1 for linux/arm64 with buildah, models: none: mount them at run time",
        "wrote i.tar (2.0 KiB, sha256:00)",
        "wrote i.cdx.json (CycloneDX 1.6)",
        "not reproducible: A note.",
    ]
