"""The AWS toolkit's own handler service in TorchServe's real worker: whole batches, and each request for itself."""

import json
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from marsmith.builder import Built
from marsmith.mar.members import DIGESTS, MANIFEST, Source
from marsmith.mar.writer import write_archive
from marsmith.torchserve.worker import Worker, WorkerAnswer, WorkerRequest
from tests.packaging.targets.answers import PICTURE, difference, golden_payloads, of_the_archive

pytestmark = pytest.mark.slow


# The toolkit's start puts code/ on the Python path; and the worker's test bench wants the handler in the manifest.
TOOLKIT = """
import sys
from pathlib import Path
sys.path.append(str(Path(__file__).parent / "code"))
from sagemaker_pytorch_serving_container.handler_service import HandlerService
class Service(HandlerService):
    pass
"""


@pytest.fixture
def worker(sagemaker_tree: Path, tmp_path: Path) -> Iterator[Worker]:
    files: dict[PurePosixPath, Source] = {
        PurePosixPath(file.relative_to(sagemaker_tree)): file
        for file in sagemaker_tree.rglob("*")
        if file.is_file() and file != sagemaker_tree / DIGESTS
    }
    manifest = json.loads((sagemaker_tree / MANIFEST).read_bytes())
    manifest["model"]["handler"] = "toolkit.py"
    files |= {PurePosixPath(MANIFEST): json.dumps(manifest).encode(), PurePosixPath("toolkit.py"): TOOLKIT.encode()}
    archive = tmp_path / "toolkit.mar"
    write_archive(archive, files)
    with Worker(archive, {"SAGEMAKER_TS_BATCH_SIZE": "8"}) as worker:
        yield worker


def as_bytes(payload: bytes, content_type: str) -> WorkerRequest:
    """The toolkit's configuration has decode_input_request=false: TorchServe does not say what a part's type is."""
    return WorkerRequest([("body", "", payload)], {"Content-Type": content_type} if content_type else {})


def test_a_bad_request_in_a_batch_is_answered_for_itself(worker: Worker) -> None:
    """The toolkit alone answers the whole batch with one element then, which TorchServe turns into a 503 for all."""
    good = [as_bytes(f"what a day number {number}".encode(), "text/plain") for number in range(7)]
    answers = worker.predict([*good[:3], as_bytes(*PICTURE), *good[3:]])
    assert [answer.status for answer in answers] == [200] * 3 + [415] + [200] * 4
    assert json.loads(answers[3].body)["error"]["type"] == "unsupported_media"
    assert all(content_type(answer).startswith("application/json") for answer in answers)
    # Each under its own Content-Type, where the toolkit alone looks at the first.
    mixed = worker.predict(
        [as_bytes(b'{"text": "fine"}', "application/json"), as_bytes(b'{"text": "fine"}', "text/plain")]
    )
    tokens = [json.loads(answer.body)["tokens"] for answer in mixed]
    assert tokens[0] < tokens[1]
    assert worker.alive


def test_golden_requests_are_answered_as_by_the_archive(worker: Worker, homes: Built) -> None:
    answers = worker.predict([as_bytes(*one) for one in golden_payloads(homes.path)])
    assert difference([json.loads(answer.body) for answer in answers], of_the_archive(homes.path)) < 1e-6


def test_batch_transform_gets_a_line_for_each_line(worker: Worker) -> None:
    lines = b'{"text": "fine"}\n{"text": \n"what a day"\n'
    answer, other = worker.predict([as_bytes(lines, "application/jsonlines"), as_bytes(b"a;b", "text/csv")])
    assert (answer.status, content_type(answer).startswith("application/jsonlines")) == (200, True)
    first, broken, last = map(json.loads, answer.body.splitlines())
    assert ("scores" in first, broken["error"]["code"], "scores" in last) == (True, 400, True)
    assert other.status == 415


def content_type(answer: WorkerAnswer) -> str:
    return {name.lower(): value for name, value in answer.headers.items()}["content-type"]
