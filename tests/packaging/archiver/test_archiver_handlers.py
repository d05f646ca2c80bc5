"""A handler may be spelled in every way that TorchServe takes."""

from pathlib import Path

import pytest

from tests.packaging.archiver.packing import HANDLER, manifest, names, pack, write


@pytest.mark.parametrize(
    ("spelling", "in_manifest"),
    [
        ("code/handler.py", "handler.py"),
        ("code/handler", "handler"),
        ("code/handler:handle", "handler:handle"),
        ("code/handler.py:handle", "handler.py:handle"),  # torch-model-archiver finds no such file
        ("./code/../code/handler.py", "handler.py"),
    ],
)
def test_a_handler_may_be_spelled_in_many_ways(here: Path, spelling: str, in_manifest: str) -> None:
    """pytorch/serve#463, pytorch/serve#465, pytorch/serve#1313."""
    write(here / "code/handler.py", HANDLER)
    path = pack(handler=spelling).path
    assert names(path) == {"handler.py"}
    assert manifest(path)["model"]["handler"] == in_manifest


def test_a_handler_lies_in_a_directory_whose_name_ends_like_a_module(here: Path) -> None:
    write(here / "my.py/handler.py", HANDLER)
    assert names(pack(handler="my.py/handler").path) == {"handler.py"}


def test_torchserves_own_handlers_are_no_files(here: Path) -> None:
    write(here / "model.pt")
    write(here / "image_classifier.py", "not this one")
    path = pack(handler="image_classifier", serialized_file="model.pt", extra_files=()).path
    assert names(path) == {"model.pt"}
    assert manifest(path)["model"]["handler"] == "image_classifier"


@pytest.mark.parametrize(("handler", "members"), [("lib/libm:Handler", {"libm.so"}), ("TorchScriptHandler", set())])
def test_the_cpp_runtime_takes_shared_objects(here: Path, handler: str, members: set[str]) -> None:
    write(here / "lib/libm.so", "\x7fELF")
    write(here / "model.pt")
    path = pack(handler=handler, runtime="LSP", serialized_file="model.pt").path
    assert names(path) == members | {"model.pt"}
    assert manifest(path)["runtime"] == "LSP"
    assert manifest(path)["model"]["handler"] == handler.removeprefix("lib/")


def test_a_worker_loads_a_function_of_a_file_with_its_ending(here: Path) -> None:
    """torch-model-archiver refuses FILE.py:FUNCTION, and TorchServe's model loader takes it."""
    from marsmith.torchserve.worker import Worker, WorkerRequest

    write(here / "shout.py", "def shout(data, context):\n    return [row['body'].upper() for row in data or []]\n")
    with Worker(pack(handler="shout.py:shout").path) as worker:
        (answer,) = worker.predict([WorkerRequest.raw(b"hello", "text/plain")])
    assert (answer.status, answer.body) == (200, b"HELLO")


def test_a_stock_handler_that_reads_its_configuration_needs_no_network(here: Path) -> None:
    write(here / "model-config.yaml", "minWorkers: 1\nmaxWorkers: 1\nhandler:\n  model_path: model\n")
    assert names(pack(handler="vllm_handler", config_file="model-config.yaml").path) == {"model-config.yaml"}
