"""No file of a model that is not verified is ever run: every way into a worker, on the image's multi-model endpoint."""

import json
import os
import py_compile
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from marsmith.builder import Built
from marsmith.mar.keys import keygen
from marsmith.mar.members import CONFIG, DIGESTS, MANIFEST, SIGNATURE, digest_of
from marsmith.mar.reader import extract_archive
from marsmith.mar.signing import sign
from tests.packaging.container.processes import kill
from tests.packaging.ports import free_ports

pytestmark = pytest.mark.server

TIMEOUT_S = 120
# The modules that TorchServe's worker has imported when it imports a model's handler.
IMPORTED = "import json, sys, ts.model_service_worker; json.dump(sorted(sys.modules), sys.stdout)"
BYTE_CODE = f".{sys.implementation.cache_tag}.pyc"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A running endpoint, a signed tree that it loads, and the file that whatever runs of another tree would leave."""

    url: str
    management_url: str
    signed: Path
    trace: Path

    def load(self, name: str, tree: Path) -> int:
        asked = {"model_name": name, "url": str(tree)}
        return requests.post(f"{self.url}/models", json=asked, timeout=TIMEOUT_S).status_code

    @property
    def code(self) -> str:
        """Python that leaves the trace."""
        return f"open({str(self.trace)!r}, 'a').close()\n"


@pytest.fixture(scope="module")
def endpoint(sentiment_archive: Built, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    scratch = tmp_path_factory.mktemp("ways-in")
    public = keygen(scratch / "key.pem")
    archive = Path(shutil.copy(sentiment_archive.path, scratch / "signed.mar"))
    sign(archive, scratch / "key.pem")
    extract_archive(archive, scratch / "signed")
    (scratch / "store").mkdir()
    port = free_ports().first
    environ = {
        "SAGEMAKER_MULTI_MODEL": "true",
        "SIGNATURE_KEY": str(public),
        "MODEL_STORE": str(scratch / "store"),
        "MARSMITH_HOME": str(scratch / "home"),
        "SAGEMAKER_BIND_TO_PORT": str(port),
    }
    with (scratch / "log").open("w") as log:
        command = [sys.executable, "-P", "-m", "marsmith.container.entrypoint"]
        server = subprocess.Popen(command, env=os.environ | environ, stdout=log, stderr=log, text=True)
    found = Endpoint(f"http://127.0.0.1:{port}", f"http://127.0.0.1:{port + 2}", scratch / "signed", scratch / "trace")
    try:
        deadline = time.monotonic() + TIMEOUT_S
        while not answers(f"{found.url}/ping"):
            assert server.poll() is None, (scratch / "log").read_text()
            assert time.monotonic() < deadline, (scratch / "log").read_text()
            time.sleep(0.25)
        yield found
    finally:
        kill(server)


def answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=TIMEOUT_S).ok
    except requests.RequestException:
        return False


def imported() -> list[str]:
    """The modules that could be shadowed: neither built in nor frozen."""
    names = json.loads(subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, check=True).stdout)
    return sorted({name.partition(".")[0] for name in names} - set(sys.builtin_module_names) - {"__main__"})


def add_files(*names: str) -> Callable[[Path, str], None]:
    def change(tree: Path, code: str) -> None:
        for name in names:
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / name).write_text(code)

    return change


def shadow_modules(tree: Path, code: str) -> None:
    add_files(*(f"{name}.py" for name in imported()))(tree, code)


def shadow_packages(tree: Path, code: str) -> None:
    add_files(*(f"{name}/__init__.py" for name in imported() if not (tree / name).exists()))(tree, code)


def namespace_packages(tree: Path, code: str) -> None:
    """Without `__init__`: parts of packages that others have too."""
    add_files("ts/model_loader.py", "yaml/constructor.py", "encodings/idna.py", "google/protobuf.py")(tree, code)


def path_configuration(tree: Path, code: str) -> None:
    for directory in ("", "site-packages", "venv/lib/python3.11/site-packages"):
        (tree / directory).mkdir(parents=True, exist_ok=True)
        (tree / directory / "way_in.pth").write_text(f"import sys; exec({code!r})\n")


def byte_code(tree: Path, code: str) -> None:
    """Beside modules that are what was built, unchecked against them, as Python takes it."""
    for source in [*tree.glob("*.py"), *(tree / "handlers").rglob("*.py")]:
        changed = tree.parent / "changed.py"
        changed.write_text(code + source.read_text())
        cached = source.parent / "__pycache__" / f"{source.stem}{BYTE_CODE}"
        py_compile.compile(
            str(changed), str(cached), str(source), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
        )


def sourceless(tree: Path, code: str) -> None:
    changed = tree.parent / "changed.py"
    changed.write_text(code)
    py_compile.compile(str(changed), str(tree / "sitecustomize.pyc"))


def remove_finders(tree: Path, code: str) -> None:
    """What would switch off a check that is made by Python itself, and then the handler that it would have found."""
    (tree / "sitecustomize.py").write_text("import sys\nsys.meta_path[:] = [sys.meta_path[-1]]\n" + code)
    change_handler(tree, code)


def change_handler(tree: Path, code: str) -> None:
    for handler in tree.glob("*.py"):
        handler.write_text(code + handler.read_text())


def change_library(tree: Path, code: str) -> None:
    (tree / "handlers/__init__.py").write_text(code)


def make_digests_again(tree: Path, code: str) -> None:
    """As if it had been built so; but nobody signed it."""
    change_handler(tree, code)
    digests = json.loads((tree / DIGESTS).read_text())
    for handler in tree.glob("*.py"):
        digests["members"][handler.name] = digest_of(handler).entry()
    (tree / DIGESTS).write_text(json.dumps(digests))


def take_the_signature_away(tree: Path, code: str) -> None:
    make_digests_again(tree, code)
    (tree / SIGNATURE).unlink()


def own_interpreter(tree: Path, code: str) -> None:
    """TorchServe runs a model's own venv, where its configuration says so."""
    config = tree / CONFIG
    config.write_text(config.read_text() + "useVenv: true\n")
    for name in ("venv/bin/python", "python", "python3"):
        program = tree / name
        program.parent.mkdir(parents=True, exist_ok=True)
        program.write_text(f"#!{sys.executable}\n{code}")
        program.chmod(0o755)


def another_handler(tree: Path, code: str) -> None:
    (tree / "other.py").write_text(code)
    manifest = json.loads((tree / MANIFEST).read_text())
    manifest["model"]["handler"] = "other.py"
    manifest["runtime"] = "python3"
    (tree / MANIFEST).write_text(json.dumps(manifest))


def links(tree: Path, code: str) -> None:
    outside = tree.parent / "outside"
    add_files("sitecustomize.py", "handlers/__init__.py")(outside, code)
    (tree / "sitecustomize.py").symlink_to(outside / "sitecustomize.py")
    shutil.rmtree(tree / "handlers")
    (tree / "handlers").symlink_to(outside / "handlers")


WAYS = [
    add_files("sitecustomize.py"),
    add_files("usercustomize.py"),
    add_files("sitecustomize/__init__.py"),
    shadow_modules,
    shadow_packages,
    namespace_packages,
    path_configuration,
    byte_code,
    sourceless,
    remove_finders,
    change_handler,
    change_library,
    make_digests_again,
    take_the_signature_away,
    own_interpreter,
    another_handler,
    links,
]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_of_it_runs(endpoint: Endpoint, tmp_path: Path, way: Callable[[Path, str], None]) -> None:
    tree = tmp_path / "model"
    shutil.copytree(endpoint.signed, tree)
    way(tree, endpoint.code)
    assert endpoint.load("a", tree) == 424
    assert not endpoint.trace.exists()
    assert requests.get(f"{endpoint.url}/models", timeout=TIMEOUT_S).json() == {"models": []}
    assert requests.get(f"{endpoint.management_url}/models", timeout=TIMEOUT_S).json() == {"models": []}


def test_the_trace_would_show_it(endpoint: Endpoint, tmp_path: Path) -> None:
    """TorchServe itself, asked past the gate, runs what lies there; so the tests above can fail."""
    tree = tmp_path / "model"
    shutil.copytree(endpoint.signed, tree)
    add_files("sitecustomize.py")(tree, endpoint.code)
    asked = {"model_name": "past", "url": str(tree), "initial_workers": "1", "synchronous": "true"}
    requests.post(f"{endpoint.management_url}/models", params=asked, timeout=TIMEOUT_S)
    requests.delete(f"{endpoint.management_url}/models/past", timeout=TIMEOUT_S)
    assert endpoint.trace.exists()
    endpoint.trace.unlink()


def test_what_was_loaded_stays_what_was_verified(endpoint: Endpoint, tmp_path: Path) -> None:
    """A worker that starts later starts in the copy, whatever became of the directory that SageMaker named."""
    tree = tmp_path / "model"
    shutil.copytree(endpoint.signed, tree)
    assert endpoint.load("good", tree) == 200
    for way in (add_files("sitecustomize.py"), change_handler):
        way(tree, endpoint.code)
    scale = {"min_worker": "2", "max_worker": "2", "synchronous": "true"}
    assert requests.put(f"{endpoint.management_url}/models/good", params=scale, timeout=TIMEOUT_S).ok
    answer = requests.post(
        f"{endpoint.url}/models/good/invoke", b"so good", headers={"Content-Type": "text/plain"}, timeout=TIMEOUT_S
    )
    assert answer.json()["label"] in {"negative", "neutral", "positive"}
    assert not endpoint.trace.exists()
    assert requests.delete(f"{endpoint.url}/models/good", timeout=TIMEOUT_S).ok
