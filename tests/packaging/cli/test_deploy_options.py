"""The deploy commands' options set the keys of the settings, all of them, under the same names."""

from dataclasses import fields
from pathlib import Path

import pytest
import typer

from marsmith.cli.deploy_options import DeploymentOptions, EndpointOptions
from marsmith.deploy.settings import Deployment, Endpoint


@pytest.mark.parametrize(("options", "settings"), [(EndpointOptions, Endpoint), (DeploymentOptions, Deployment)])
def test_each_key_of_the_settings_has_an_option(
    options: type[EndpointOptions], settings: type[Endpoint] | type[Deployment]
) -> None:
    assert {field.name for field in fields(options)} - {"config"} == settings.model_fields.keys()
    assert options().settings().keys() == settings.model_fields.keys()


def test_pairs_are_taken_apart_at_the_first_equals_sign() -> None:
    given = DeploymentOptions(config=Path("x.toml"), environment=["A=1=2"], tags=["team="], multi_model=True).settings()
    assert given["environment"] == {"A": "1=2"}
    assert given["tags"] == {"team": ""}
    assert given["multi_model"] is True
    assert given["role"] is None


@pytest.mark.parametrize(("key", "option"), [("environment", "--env"), ("tags", "--tag")])
def test_a_pair_without_its_value_names_the_option(key: str, option: str) -> None:
    with pytest.raises(typer.BadParameter, match="write it as NAME=VALUE") as caught:
        DeploymentOptions(**{key: ["A"]}).settings()  # type: ignore[arg-type]
    assert caught.value.param_hint == option
