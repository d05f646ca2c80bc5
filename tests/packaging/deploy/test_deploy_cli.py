"""The commands: what a user sees, with the environment that they have."""

import builtins
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from marsmith.cli import app
from marsmith.errors import DeployError, GoldenError
from marsmith.evidence.golden import Golden, Request
from marsmith.mar.members import GOLDEN
from tests.packaging.deploy.cloud import BUCKET, IMAGE, NAME, ROLE, Cloud
from tests.packaging.deploy.test_deploy_up import NOTHING


def run(*arguments: str) -> tuple[int, str]:
    """The exit code and standard output. Raises what `main` would print as one sentence."""
    result = CliRunner().invoke(app, ["deploy", "sagemaker", *arguments])
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.fixture
def config(tarball: Path, tmp_path: Path) -> str:
    file = tmp_path / "deploy.toml"
    file.write_text(
        f'[sagemaker]\nname = "{NAME}"\nbucket = "{BUCKET}"\nrole = "{ROLE}"\nimage = "{IMAGE}"\n'
        f'tarballs = ["{tarball.name}"]\n'
    )
    return str(file)


@pytest.mark.slow
def test_from_plan_to_down(cloud: Cloud, config: str) -> None:
    plan = json.loads(run("plan", "--config", config, "--json")[1])
    assert [one["operation"] for one in plan["calls"]] == [
        "upload_file",
        "create_model",
        "create_endpoint_config",
        "create_endpoint",
    ]
    assert cloud.contents() == NOTHING
    done = json.loads(run("up", "--config", config, "--json")[1])
    assert [one.split()[0] for one in done["changed"]] == [one["operation"] for one in plan["calls"]]
    assert "Nothing is to be done" in run("plan", "--config", config)[1]
    assert "Nothing was to be done" in run("up", "--config", config)[1]
    assert f"{NAME} is gone." in run("down", "--config", config, "--objects")[1]
    assert cloud.contents() == NOTHING


def test_options_alone_will_do(cloud: Cloud, tarball: Path) -> None:
    given = ["--name", NAME, "--bucket", BUCKET, "--role", ROLE, "--image", IMAGE, "--env", "A=1=2", "--tag", "team=x"]
    calls = json.loads(run("plan", str(tarball), *given, "--offline", "--json")[1])["calls"]
    assert calls[1]["arguments"]["PrimaryContainer"]["Environment"] == {"A": "1=2"}
    assert {"Key": "team", "Value": "x"} in calls[3]["arguments"]["Tags"]


def test_a_plan_needs_no_credentials(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert (
        "As if there were nothing yet, because AWS was not asked (no credentials)" in run("plan", "--config", config)[1]
    )
    with pytest.raises(DeployError, match="boto3 finds no complete AWS credentials"):
        run("up", "--config", config)


def test_a_plan_needs_no_network(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert "create_endpoint" in run("plan", "--config", config, "--offline")[1]


def test_no_region(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    with pytest.raises(DeployError, match="No AWS region is set: give --region"):
        run("plan", "--config", config)


def test_no_boto3(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ordinary = builtins.__import__

    def without(name: str, *others: Any, **more: Any) -> Any:
        if name == "boto3":
            raise ImportError(name)
        return ordinary(name, *others, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(DeployError, match=r"pip install 'marsmith\[deploy\]'"):
        run("plan", "--config", config)


@pytest.mark.slow
def test_credentials_are_never_printed(
    cloud: Cloud, config: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-secret-of-mine")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "a-token-of-mine")
    printed = run("plan", "--config", config)[1] + run("up", "--config", config)[1] + caplog.text
    assert "of-mine" not in printed


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """No more of an archive than its golden requests."""
    expected = (("one", "positive", 0.9), ("two", "negative", 0.8))
    requests = [
        Request(name=name, text=name, expect={"label": label, "score": score}, tolerance=0.01)
        for name, label, score in expected
    ]
    path = tmp_path / "sentiment.mar"
    with zipfile.ZipFile(path, "w") as zip_file:
        zip_file.writestr(GOLDEN, Golden(requests=requests).to_json())
    return path


def test_golden_requests_are_checked(cloud: Cloud, config: str, archive: Path) -> None:
    cloud.answer({"label": "positive", "score": 0.905}, {"label": "negative", "score": 0.8})
    code, printed = run("predict", "--config", config, "--golden", str(archive), "--json")
    assert code == 0
    assert [(one["name"], one["ok"]) for one in json.loads(printed)] == [("one", True), ("two", True)]


def test_a_golden_request_that_differs_is_an_error(cloud: Cloud, config: str, archive: Path) -> None:
    cloud.answer({"label": "positive", "score": 0.95}, {"label": "negative", "score": 0.8})
    with pytest.raises(
        GoldenError, match=r"answers 1 of 2 golden requests otherwise .*: one: answer.score is 0.95, not 0.9"
    ):
        run("predict", "--config", config, "--golden", str(archive))


def test_predict_writes_a_line_for_each_text(cloud: Cloud, config: str, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("one\ntwo\n")
    cloud.answer({"label": "positive"}, {"label": "positive"})
    code, printed = run("predict", "--config", config, "--file", str(tmp_path / "texts.txt"), "--json")
    assert code == 0
    assert [json.loads(line) for line in printed.splitlines()] == [
        {"line": 1, "status": 200, "result": {"label": "positive"}},
        {"line": 2, "status": 200, "result": {"label": "positive"}},
    ]
