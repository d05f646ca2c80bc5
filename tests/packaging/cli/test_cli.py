"""The command line: results on standard output, one sentence and exit code 1 for what a user can put right."""

import json
import os
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from marsmith.builder import Built
from tests.packaging.ports import free_ports

SENTENCE_TIMEOUT_S = 60
ROOT = Path(__file__).parents[3]


def marsmith(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "marsmith", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=SENTENCE_TIMEOUT_S, check=False)


def sentence(result: subprocess.CompletedProcess[str]) -> str:
    """The one sentence of a refused command."""
    assert result.returncode == 1
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    (line,) = result.stderr.strip().splitlines()
    assert line.startswith("error: ")
    return line


@pytest.mark.parametrize("command", ["build", "inspect", "serve", "predict", "demo"])
def test_every_command_explains_itself(command: str) -> None:
    result = marsmith(command, "--help")
    assert result.returncode == 0
    assert f"marsmith {command}" in result.stdout


def test_the_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    result = marsmith("--version")
    assert (result.returncode, result.stdout) == (0, f"marsmith {project['version']}\n")


def test_a_shell_completes_commands() -> None:
    asked = {"_MARSMITH_COMPLETE": "complete_bash", "COMP_WORDS": "marsmith ins", "COMP_CWORD": "1"}
    command = [Path(sys.executable).with_name("marsmith")]
    result = subprocess.run(command, env=os.environ | asked, capture_output=True, text=True, check=True)
    assert result.stdout.split() == ["inspect"]


def test_inspect_shows_a_card(sentiment_archive: Built) -> None:
    """pytorch/serve#284: nothing of TorchServe says what is in an archive."""
    result = marsmith("inspect", sentiment_archive.path)
    assert result.returncode == 0
    for word in ("sentiment 1.0", "negative, neutral, positive", "fp32", "onnxruntime=="):
        assert word in result.stdout


def test_inspect_speaks_json(food_archive: Built) -> None:
    card = json.loads(marsmith("inspect", food_archive.path, "--json").stdout)
    assert (card["name"], card["task"], card["labels"]) == ("food", "food", ["apple", "pear", "plum"])
    assert card["members"] == food_archive.members
    assert len(card["sha256"]) == 64


def test_inspect_reads_archives_that_others_made(tmp_path: Path) -> None:
    from model_archiver.model_archiver_config import ModelArchiverConfig
    from model_archiver.model_packaging import generate_model_archive

    handler = tmp_path / "my_handler.py"
    handler.write_text("def handle(data, context):\n    return data\n")
    config = ModelArchiverConfig(
        model_name="theirs", handler=str(handler), version="2.0", export_path=str(tmp_path), force=True
    )
    generate_model_archive(config)
    card = json.loads(marsmith("inspect", tmp_path / "theirs.mar", "--json").stdout)
    assert (card["name"], card["version"], card["handler"]) == ("theirs", "2.0", "my_handler.py")
    assert "not built by Marsmith" in card["task"]


# Stands for a port that is free when its test runs.
FREE = "free"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("build", "nowhere"), "There is no recipe at nowhere"),
        (("inspect", "nowhere.mar"), "There is no archive nowhere.mar"),
        (("serve", "nowhere.mar"), "There is no archive nowhere.mar"),
        (("predict", "food"), "Name either image files, or a text file with --file."),
        (("predict", "food", "--file", "nowhere.txt"), "nowhere.txt cannot be read as text: No such file"),
        (("demo", "--once", "--models", "nowhere", "--port", FREE), "does not hold the starter"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path: Path, arguments: tuple[str, ...], says: str) -> None:
    given = [str(free_ports().first) if one == FREE else one for one in arguments]
    assert says in sentence(marsmith(*given, cwd=tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_named_before_anything_starts(sentiment_archive: Built) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"Port {port} cannot be used" in sentence(marsmith("serve", sentiment_archive.path, "--port", port))


@pytest.mark.build
def test_an_output_that_is_a_file_is_one_sentence(sentiment_recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "store").write_text("")
    message = sentence(marsmith("build", sentiment_recipe, "-o", tmp_path / "store"))
    assert "cannot be written" in message
    assert (tmp_path / "store").read_text() == ""


def test_predict_without_a_server_says_how_to_start_one(tmp_path: Path) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a private text\n")
    output = tmp_path / "out.jsonl"
    result = marsmith("predict", "m", "--file", texts, "-o", output, "--url", "http://127.0.0.1:9")
    assert "start a server with marsmith serve" in sentence(result)
    assert "private" not in result.stderr
    assert not output.exists()
