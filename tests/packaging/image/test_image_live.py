"""The life of a container: it becomes healthy, answers, and ends; each can go wrong."""

import sys
from pathlib import Path

import pytest

from marsmith.errors import ImageError
from marsmith.image import live
from marsmith.image.chrooted import ChrootContainer, observe_chrooted
from marsmith.image.engines import EngineContainer, load
from marsmith.image.live import Answered, Health, Run, observe, run_results
from marsmith.image.results import Result
from marsmith.image.tools import Tool
from tests.packaging.image.fake_tools import FakeTools
from tests.packaging.image.served import FAKE_BUILDAH, HEALTH, SERVER, small_archive

UNREACHABLE = "http://127.0.0.1:9"


class FakeContainer:
    """A container that is healthy at the nth look, if it has not ended by then."""

    def __init__(self, healthy_at: int = 1, ends_at: int = 99, code: int = 0) -> None:
        self.url = UNREACHABLE
        self.looks = 0
        self.removed = False
        self._healthy_at, self._ends_at, self._code = healthy_at, ends_at, code

    def start(self) -> None:
        pass

    def running(self) -> bool:
        return self.looks < self._ends_at

    def health(self) -> Health:
        self.looks += 1
        return Health(self.looks >= self._healthy_at, "not READY: food")

    def said(self) -> str:
        return "ModuleNotFoundError: No module named 'ts'"

    def stop(self, limit_s: float) -> int:
        return self._code

    def remove(self) -> None:
        self.removed = True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL_S", 0.01)


def statuses(results: list[Result]) -> dict[str, str]:
    return {one.check: one.status for one in results}


def test_a_container_that_lives_and_ends_as_it_should() -> None:
    container, steps = FakeContainer(healthy_at=3), list[str]()
    run = observe(container, [], steps.append)
    assert container.removed
    assert container.looks == 3
    assert run.exit_code == 0
    assert statuses(run_results(run)) == {"ready": "ok", "golden requests": "note", "stop": "ok"}
    assert steps[0] == "starting the container"
    assert steps[1] == "waiting 0 of 600 s until it is ready: not READY: food"


def test_one_that_ends_before_it_is_ready_is_told_in_its_last_words() -> None:
    container = FakeContainer(healthy_at=9, ends_at=2)
    (result,) = run_results(observe(container, []))
    assert container.removed
    assert result.status == "wrong"
    assert result.message == "it ended before it was ready: ModuleNotFoundError: No module named 'ts'"


def test_one_that_is_never_ready_is_given_up() -> None:
    (result,) = run_results(observe(FakeContainer(healthy_at=10**9, ends_at=10**9), [], timeout_s=0.05))
    assert result.message.startswith("it was not ready within 0 s: not READY: food; ModuleNotFoundError")


def test_an_archive_that_cannot_be_asked_is_wrong(tmp_path: Path) -> None:
    run = observe(FakeContainer(), [small_archive(tmp_path / "m.mar")])
    (golden,) = (one for one in run_results(run) if one.check == "golden requests")
    assert golden.status == "wrong"
    assert "Nothing listens at http://127.0.0.1:9" in golden.where[0]


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (Run(1.0, 2.0, 143, [Answered("m.mar", 3, ())]), {"ready": "ok", "golden requests": "ok", "stop": "ok"}),
        (Run(1.0, 2.0, 1, [Answered("m.mar", 3, ())]), {"ready": "ok", "golden requests": "ok", "stop": "wrong"}),
        (Run(1.0, 30.0, 137, []), {"ready": "ok", "golden requests": "note", "stop": "wrong"}),
        (Run(1.0, 1.0, 0, [Answered("m.mar", 3, ("a",))]), {"ready": "ok", "golden requests": "wrong", "stop": "ok"}),
    ],
)
def test_what_is_wrong_with_a_run(run: Run, expected: dict[str, str]) -> None:
    assert statuses(run_results(run)) == expected


def test_the_container_of_an_engine_has_no_more_rights_than_it_needs(tools: FakeTools) -> None:
    tools.answers = {
        "run": {"says": "warning: platform\nabc123\n"},
        "port": {"says": "127.0.0.1:32768\n"},
        "inspect": {"says": "true\n"},
        "logs": {"says": "first\nlast\n\n"},
        "exec": {"code": 1},
    }
    tools.add("docker")
    docker = Tool("docker", str(tools.directory / "docker"))
    container = EngineContainer(docker, "m:1", ["/health"], platform="linux/arm64", environ={"A": "1"})
    container.start()
    assert container.url == "http://127.0.0.1:32768"
    assert container.running()
    assert container.health() == Health(ok=False)
    assert container.said() == "last"
    container.remove()
    container.remove()
    run, *others = tools.asked()
    assert run == [
        *("docker", "run", "--detach", "--platform", "linux/arm64", "--publish", "127.0.0.1::8080"),
        *("--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--env", "A=1", "m:1"),
    ]
    assert others == [
        ["docker", "port", "abc123", "8080"],
        ["docker", "inspect", "--format", "{{.State.Running}}", "abc123"],
        ["docker", "exec", "abc123", "/health"],
        ["docker", "logs", "--tail", "20", "abc123"],
        ["docker", "rm", "--force", "--volumes", "abc123"],
    ]


def test_an_engine_stops_a_container_and_says_its_exit_code(tools: FakeTools) -> None:
    tools.answers = {"run": {"says": "abc\n"}, "port": {"says": "127.0.0.1:1\n"}, "inspect": {"says": "137\n"}}
    tools.add("podman")
    podman = Tool("podman", str(tools.directory / "podman"))
    container = EngineContainer(podman, "m:1", [], platform="linux/arm64", store=Path("/s"))
    container.start()
    assert container.stop(30) == 137
    assert ["podman", "stop", "-t", "30", "abc"] in tools.asked()
    assert "/s:/opt/model-store:ro" in tools.asked()[0]


@pytest.mark.parametrize(
    ("said", "name"),
    [("Loaded image: m:1\n", "m:1"), ("Loaded image ID: sha256:ab\n", "sha256:ab"), ("Loaded image(s): a:b\n", "a:b")],
)
def test_what_was_loaded_has_the_name_that_the_engine_says(tools: FakeTools, said: str, name: str) -> None:
    tools.answers = {"load": {"says": said}}
    tools.add("docker")
    assert load(Tool("docker", str(tools.directory / "docker")), Path("i.tar")) == name


def test_an_engine_that_does_not_say_what_it_loaded(tools: FakeTools) -> None:
    tools.add("docker")
    with pytest.raises(ImageError, match="does not say what it loaded"):
        load(Tool("docker", str(tools.directory / "docker")), Path("i.tar"))


def test_buildah_runs_in_a_chroot_with_the_archives_read_only(tools: FakeTools) -> None:
    container = ChrootContainer(Tool("buildah", "/b"), "c", ["/p", "serve"], ["/h"], "/store", {"QEMU_CPU": "max"})
    assert container.run_command(container.inside) == [
        *("/b", "--storage-driver", "overlay", "run", "--isolation", "chroot"),
        *("--volume", "/store:/opt/model-store:ro", "--env", "QEMU_CPU=max", "c", "--", "/p", "serve"),
    ]


@pytest.fixture
def buildah(tmp_path: Path, unshare: str) -> Tool:
    script = tmp_path / "buildah"
    script.write_text(FAKE_BUILDAH.format(python=sys.executable, record=str(tmp_path / "record")))
    script.chmod(0o755)
    (tmp_path / "server.py").write_text(SERVER)
    return Tool("buildah", str(script))


def inside(tmp_path: Path, label: str, end: str = "drain") -> list[str]:
    return [sys.executable, str(tmp_path / "server.py"), label, end]


@pytest.mark.slow
def test_a_chroot_is_asked_in_a_namespace_of_its_own(tmp_path: Path, buildah: Tool) -> None:
    archive, steps = small_archive(tmp_path / "m.mar"), list[str]()
    run = observe_chrooted(buildah, "localhost/m", inside(tmp_path, "good"), HEALTH, [archive], progress=steps.append)
    assert run.answered == [Answered("m.mar", 1, ())]
    assert run.exit_code == 0
    assert statuses(run_results(run)) == {"ready": "ok", "golden requests": "ok", "stop": "ok"}
    assert "asking m.mar its golden requests" in steps
    record = (tmp_path / "record").read_text().splitlines()
    assert '"from", "--pull-never", "--platform", "linux/arm64", "localhost/m"' in record[0]
    assert '"rm", "working-container"' in record[-1]


@pytest.mark.slow
def test_a_chroot_that_answers_otherwise_and_one_that_does_not_start(tmp_path: Path, buildah: Tool) -> None:
    archive = small_archive(tmp_path / "m.mar")
    run = observe_chrooted(buildah, "m", inside(tmp_path, "bad"), HEALTH, [archive])
    assert run.answered == [Answered("m.mar", 1, ("m.mar, probe 1: answer.label is 'bad', not 'good'",))]
    failed = observe_chrooted(buildah, "m", [sys.executable, "-c", "raise SystemExit('no model')"], HEALTH, [])
    assert failed.fault == "it ended before it was ready: no model"


def test_a_program_that_ignores_sigterm_is_killed(tmp_path: Path, buildah: Tool) -> None:
    container = ChrootContainer(buildah, "c", inside(tmp_path, "good", "stay"), HEALTH)
    run = observe(container, [], drain_limit_s=0.5)
    assert run.exit_code == 137
    (stop,) = (one for one in run_results(run, 0.5) if one.check == "stop")
    assert stop.status == "wrong"
    assert not container.running()
