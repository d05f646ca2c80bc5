"""The environment variables of the image."""

from pathlib import Path

import pytest

from marsmith.container import settings as module
from marsmith.container.settings import Settings
from marsmith.errors import ContainerError


def test_without_variables_the_image_serves_its_own_store_without_tokens() -> None:
    settings = Settings.from_environment({})
    assert settings == Settings()
    assert (settings.model_store, settings.home, settings.port) == (
        Path("/opt/model-store"),
        Path("/var/lib/marsmith"),
        8080,
    )


def test_each_variable_is_heard(tmp_path: Path) -> None:
    settings = Settings.from_environment(
        {
            "MODEL_STORE": "/models",
            "MARSMITH_HOME": "/run/marsmith",
            "SAGEMAKER_BIND_TO_PORT": "9000",
            "TOKEN_AUTHORIZATION": "Yes",
            "REQUIRE_SIGNATURE": "true",
            "SIGNATURE_KEY": "/keys/ed25519.pub",
            "DRAIN_SECONDS": "7.5",
        }
    )
    assert settings == Settings(
        Path("/models"), Path("/run/marsmith"), 9000, True, True, Path("/keys/ed25519.pub"), 7.5
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TOKEN_AUTHORIZATION", "perhaps"),
        ("REQUIRE_SIGNATURE", "on"),
        ("SAGEMAKER_BIND_TO_PORT", "0"),
        ("SAGEMAKER_BIND_TO_PORT", "65535"),
        ("SAGEMAKER_BIND_TO_PORT", "http"),
        ("SAGEMAKER_BIND_TO_PORT", "²"),
        ("DRAIN_SECONDS", "-1"),
        ("DRAIN_SECONDS", "inf"),
        ("DRAIN_SECONDS", "nan"),
        ("DRAIN_SECONDS", "soon"),
    ],
)
def test_a_value_that_cannot_be_is_named(name: str, value: str) -> None:
    with pytest.raises(ContainerError, match=rf"{name} is '{value}': set it to"):
        Settings.from_environment({name: value})


def test_a_signature_without_a_key_is_not_required_in_silence() -> None:
    with pytest.raises(ContainerError, match="SIGNATURE_KEY"):
        Settings.from_environment({"REQUIRE_SIGNATURE": "yes"})


def test_a_model_that_sagemaker_brought_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAGEMAKER_MODEL", tmp_path)
    assert Settings.from_environment({}).model_store == module.MODEL_STORE
    (tmp_path / "sentiment.mar").touch()
    assert Settings.from_environment({}).model_store == tmp_path
    assert Settings.from_environment({"MODEL_STORE": "/models"}).model_store == Path("/models")


def test_sagemaker_sends_no_tokens() -> None:
    assert Settings.from_environment({"SAGEMAKER_MULTI_MODEL": "true"}).multi_model
    with pytest.raises(ContainerError, match="take one"):
        Settings.from_environment({"SAGEMAKER_MULTI_MODEL": "true", "TOKEN_AUTHORIZATION": "yes"})


def test_time_outs_of_archives_can_be_changed() -> None:
    settings = Settings.from_environment({"STARTUP_TIMEOUT_SECONDS": "900"})
    assert settings.timeouts == {"startupTimeout": 900}
    both = Settings.from_environment({"STARTUP_TIMEOUT_SECONDS": "900", "RESPONSE_TIMEOUT_SECONDS": "1"})
    assert both.timeouts == {"startupTimeout": 900, "responseTimeout": 1}
    assert Settings.from_environment({"STARTUP_TIMEOUT_SECONDS": ""}).timeouts == {}


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "a minute", "86401", "\u0661"])
def test_a_time_out_is_whole_seconds(value: str) -> None:
    with pytest.raises(ContainerError, match=r"STARTUP_TIMEOUT_SECONDS is .* whole seconds, from 1 to 86400"):
        Settings.from_environment({"STARTUP_TIMEOUT_SECONDS": value})
