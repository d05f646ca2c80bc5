"""What TorchServe is started with in the image."""

import shutil
from pathlib import Path

import pytest

from marsmith.builder import Built
from marsmith.container.cpu import Cpu
from marsmith.container.plan import Plan, admit_models, describe, environment, make_plan, write_config
from marsmith.container.settings import DRAINING, MODELS, Settings
from marsmith.errors import ContainerError
from marsmith.resources import worker_site

BF16_CPU = Cpu("aarch64", "Neoverse V1", frozenset({"bf16"}))
OTHER_CPU = Cpu("aarch64", "Neoverse N1", frozenset())


@pytest.fixture
def store(tmp_path: Path, sentiment_archive: Built, food_archive: Built) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    for built in (sentiment_archive, food_archive):
        shutil.copy(built.path, directory)
    return directory


@pytest.fixture
def settings(store: Path, tmp_path: Path) -> Settings:
    return Settings(store, tmp_path / "home")


def plan_of(settings: Settings, cpu: Cpu, cores: int) -> Plan:
    return make_plan({name: settings.store / name for name in admit_models(settings)}, cpu, cores)


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (5, 2), (16, 8)])
def test_workers_times_threads_is_no_more_than_the_cores(settings: Settings, cores: int, threads: int) -> None:
    plan = plan_of(settings, OTHER_CPU, cores)
    assert (plan.workers, plan.threads) == (2, threads)
    environ = environment(plan, settings, {})
    assert (environ["OMP_NUM_THREADS"], environ["MARSMITH_WORKERS"]) == (str(threads), "2")
    # Whose idle threads would look like a worker that works.
    assert environ["OPENBLAS_NUM_THREADS"] == "1"


def test_pytorch_multiplies_in_bf16_only_where_every_archive_and_the_cpu_do(settings: Settings) -> None:
    """Golden answers in fp32 have a tolerance that bfloat16 does not keep."""
    plan = plan_of(settings, BF16_CPU, 2)
    assert not plan.bf16
    assert "DNNL_DEFAULT_FPMATH_MODE" not in environment(plan, settings, {})
    asked = Plan(plan.models, 2, 2, 1, bf16=True)
    assert environment(asked, settings, {})["DNNL_DEFAULT_FPMATH_MODE"] == "BF16"


def test_what_somebody_set_stays_and_what_must_be_is(settings: Settings, tmp_path: Path) -> None:
    plan = plan_of(settings, OTHER_CPU, 2)
    given = {"OMP_NUM_THREADS": "7", "PYTHONPATH": "/somewhere", "TEMP": "/elsewhere", "MARSMITH_TOP_K": "3"}
    environ = environment(plan, settings, given)
    assert (environ["OMP_NUM_THREADS"], environ["MARSMITH_TOP_K"]) == ("7", "3")
    assert environ["PYTHONPATH"] == f"{worker_site()}:/somewhere"
    assert {environ[name] for name in ("TEMP", "TMPDIR")} == {str(tmp_path / "home/tmp")}
    # Byte code that a worker left beside a model would be no part of what was built.
    assert environ["PYTHONDONTWRITEBYTECODE"] == "1"


@pytest.mark.parametrize("token", [True, False])
def test_predictions_are_asked_for_from_outside_and_nothing_else_is(store: Path, tmp_path: Path, token: bool) -> None:
    settings = Settings(store, tmp_path / "home", 9000, token)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / DRAINING).touch()
    plan = plan_of(settings, OTHER_CPU, 2)
    lines = write_config(plan, settings).read_text().splitlines()
    addresses = dict(line.split("=", 1) for line in lines if "address=" in line and not line.startswith("#"))
    assert addresses.pop("inference_address") == "http://0.0.0.0:9000"
    assert addresses
    assert all("127.0.0.1" in address for address in addresses.values())
    assert f"disable_token_authorization={str(not token).lower()}" in lines
    assert (settings.home / MODELS).read_text().split() == ["food", "sentiment"]
    # Left by a container that was killed while it drained, in a volume that outlives it.
    assert not (settings.home / DRAINING).exists()


def test_where_models_come_later_torchserve_stays_on_loopback_behind_the_gate(store: Path, tmp_path: Path) -> None:
    settings = Settings(store, tmp_path / "home", 9000, key=tmp_path / "key.pub", multi_model=True)
    assert admit_models(settings) == {}
    plan = make_plan({}, BF16_CPU, 4)
    assert (plan.workers, plan.threads, plan.bf16) == (1, 4, False)
    lines = write_config(plan, settings).read_text().splitlines()
    addresses = dict(line.split("=", 1) for line in lines if "address=" in line and not line.startswith("#"))
    assert addresses["inference_address"] == "http://127.0.0.1:9001"
    assert all("127.0.0.1" in address for address in addresses.values())
    assert {"enable_model_api=true", "allowed_urls=file:///nowhere"} <= set(lines)
    assert "models: those that SageMaker names" in "\n".join(describe(plan, BF16_CPU, {}))


def test_models_of_the_start_leave_the_model_api_closed(settings: Settings) -> None:
    plan = plan_of(settings, OTHER_CPU, 2)
    assert "enable_model_api=false" in write_config(plan, settings).read_text().splitlines()


def test_a_home_that_cannot_be_written_to_says_what_to_mount(store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings(store, tmp_path / "file")
    with pytest.raises(ContainerError, match="mount a volume or a tmpfs"):
        write_config(make_plan({}, OTHER_CPU, 1), settings)


def test_a_start_tells_what_it_does(settings: Settings, store: Path) -> None:
    sources = admit_models(settings)
    plan = make_plan({name: settings.store / name for name in sources}, BF16_CPU, 4)
    told = "\n".join(describe(plan, BF16_CPU, sources))
    assert "Neoverse V1, 4 cores, bfloat16 yes" in told
    assert "2 workers x 2" in told
    assert f"food, 1 workers, fp32, start-up within 120 s, {store / 'food.mar'} is verified" in told
