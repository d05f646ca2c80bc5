"""What TorchServe is started with in the image."""

import shutil
from pathlib import Path

import pytest

from marsmith.builder import Built
from marsmith.container.cpu import Cpu
from marsmith.container.plan import Plan, describe, environment, find_archives, make_plan, write_config
from marsmith.container.settings import DRAINING, MODELS, Settings
from marsmith.errors import ContainerError, VerifyError
from marsmith.keys import keygen
from marsmith.resources import worker_site
from marsmith.signing import sign

BF16_CPU = Cpu("aarch64", "Neoverse V1", frozenset({"bf16"}))
OTHER_CPU = Cpu("aarch64", "Neoverse N1", frozenset())


@pytest.fixture
def store(tmp_path: Path, sentiment_archive: Built, food_archive: Built) -> Path:
    directory = tmp_path / "store"
    directory.mkdir()
    for built in (sentiment_archive, food_archive):
        shutil.copy(built.path, directory)
    return directory


def test_archives_are_found_by_their_models_names(store: Path) -> None:
    (store / "food.mar").rename(store / "of-another-name.mar")
    assert find_archives(Settings(store)) == {
        "food": store / "of-another-name.mar",
        "sentiment": store / "sentiment.mar",
    }


def test_an_empty_store_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ContainerError, match=r"no archive in .*marsmith image build, or mount"):
        find_archives(Settings(tmp_path))


def test_two_archives_of_one_name_are_refused(store: Path) -> None:
    shutil.copy(store / "food.mar", store / "again.mar")
    with pytest.raises(ContainerError, match=r"again\.mar and .*food\.mar hold a model of one name"):
        find_archives(Settings(store))


def test_a_damaged_archive_is_never_served(store: Path) -> None:
    content = bytearray((store / "food.mar").read_bytes())
    content[len(content) // 2] ^= 1
    (store / "food.mar").write_bytes(content)
    with pytest.raises(VerifyError, match=r"food\.mar is not to be trusted"):
        find_archives(Settings(store))


def test_a_required_signature_is_required_of_every_archive(store: Path, tmp_path: Path) -> None:
    public = keygen(tmp_path / "key.pem")
    settings = Settings(store, require_signature=True, key=public)
    sign(store / "food.mar", tmp_path / "key.pem")
    with pytest.raises(VerifyError, match="not signed"):
        find_archives(settings)
    sign(store / "sentiment.mar", tmp_path / "key.pem")
    assert len(find_archives(settings)) == 2


@pytest.mark.parametrize(("cores", "threads"), [(1, 1), (2, 1), (5, 2), (16, 8)])
def test_workers_times_threads_is_no_more_than_the_cores(store: Path, cores: int, threads: int) -> None:
    plan = make_plan(find_archives(Settings(store)), OTHER_CPU, cores)
    assert (plan.workers, plan.threads) == (2, threads)
    environ = environment(plan, Settings(store), {})
    assert (environ["OMP_NUM_THREADS"], environ["MARSMITH_WORKERS"]) == (str(threads), "2")
    # Whose idle threads would look like a worker that works.
    assert environ["OPENBLAS_NUM_THREADS"] == "1"


def test_pytorch_multiplies_in_bf16_only_where_every_archive_and_the_cpu_do(store: Path) -> None:
    """Golden answers in fp32 have a tolerance that bfloat16 does not keep."""
    plan = make_plan(find_archives(Settings(store)), BF16_CPU, 2)
    assert not plan.bf16
    assert "DNNL_DEFAULT_FPMATH_MODE" not in environment(plan, Settings(store), {})
    asked = Plan(plan.archives, 2, 2, 1, bf16=True)
    assert environment(asked, Settings(store), {})["DNNL_DEFAULT_FPMATH_MODE"] == "BF16"


def test_what_somebody_set_stays_and_what_must_be_is(store: Path, tmp_path: Path) -> None:
    settings = Settings(store, tmp_path)
    plan = make_plan(find_archives(settings), OTHER_CPU, 2)
    given = {"OMP_NUM_THREADS": "7", "PYTHONPATH": "/somewhere", "TEMP": "/elsewhere", "MARSMITH_TOP_K": "3"}
    environ = environment(plan, settings, given)
    assert (environ["OMP_NUM_THREADS"], environ["MARSMITH_TOP_K"]) == ("7", "3")
    assert environ["PYTHONPATH"] == f"{worker_site()}:/somewhere"
    assert {environ[name] for name in ("TEMP", "TMPDIR")} == {str(tmp_path / "tmp")}


@pytest.mark.parametrize("token", [True, False])
def test_predictions_are_asked_for_from_outside_and_nothing_else_is(store: Path, tmp_path: Path, token: bool) -> None:
    settings = Settings(store, tmp_path / "home", 9000, token)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / DRAINING).touch()
    plan = make_plan(find_archives(settings), OTHER_CPU, 2)
    lines = write_config(plan, settings).read_text().splitlines()
    addresses = dict(line.split("=", 1) for line in lines if "address=" in line and not line.startswith("#"))
    assert addresses.pop("inference_address") == "http://0.0.0.0:9000"
    assert addresses
    assert all("127.0.0.1" in address for address in addresses.values())
    assert f"disable_token_authorization={str(not token).lower()}" in lines
    assert (settings.home / MODELS).read_text().split() == ["food", "sentiment"]
    # Left by a container that was killed while it drained, in a volume that outlives it.
    assert not (settings.home / DRAINING).exists()


def test_models_that_come_later_are_managed_where_sagemaker_asks_and_verified_first(
    store: Path, tmp_path: Path
) -> None:
    settings = Settings(store, tmp_path / "home", 9000, key=tmp_path / "key.pub", multi_model=True)
    archives = find_archives(settings)
    plan = make_plan(archives, BF16_CPU, 4)
    assert (archives, plan.workers, plan.threads, plan.bf16) == ({}, 1, 4, False)
    environ = environment(plan, settings, {"MARSMITH_VERIFY": ""})
    assert (environ["MARSMITH_VERIFY"], environ["MARSMITH_VERIFY_WITH"]) == ("yes", str(tmp_path / "key.pub"))
    assert environ["PYTHONDONTWRITEBYTECODE"] == "1"
    lines = write_config(plan, settings).read_text().splitlines()
    assert {"inference_address=http://0.0.0.0:9000", "management_address=http://0.0.0.0:9000"} <= set(lines)
    assert {"enable_model_api=true", "allowed_urls=file:///nowhere"} <= set(lines)
    assert "grpc_management_address=127.0.0.1" in lines
    # What the server says of its models is asked where it listens.
    assert settings.ports.management_url == "http://127.0.0.1:9000"
    assert "models: those that SageMaker names" in "\n".join(describe(plan, BF16_CPU))


def test_models_of_the_start_leave_the_model_api_closed(store: Path, tmp_path: Path) -> None:
    settings = Settings(store, tmp_path / "home")
    plan = make_plan(find_archives(settings), OTHER_CPU, 2)
    assert "enable_model_api=false" in write_config(plan, settings).read_text().splitlines()
    assert "MARSMITH_VERIFY" not in environment(plan, settings, {})


def test_a_home_that_cannot_be_written_to_says_what_to_mount(store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    settings = Settings(store, tmp_path / "file")
    with pytest.raises(ContainerError, match="mount a volume or a tmpfs"):
        write_config(make_plan({}, OTHER_CPU, 1), settings)


def test_a_start_tells_what_it_does(store: Path) -> None:
    plan = make_plan(find_archives(Settings(store)), BF16_CPU, 4)
    told = "\n".join(describe(plan, BF16_CPU))
    assert "Neoverse V1, 4 cores, bfloat16 yes" in told
    assert "2 workers x 2" in told
    assert f"food, 1 workers, fp32, {store / 'food.mar'} is verified" in told
