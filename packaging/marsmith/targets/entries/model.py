"""The module that DJL Serving's Python engine loads: it asks the handler of the tree in archive/.

https://github.com/deepjavalibrary/djl-serving, engines/python: `handle` gets one request, or a batch of them whose
properties and contents begin with `batch_000.`; a batch has one status and one Content-Type for all of its answers, so
there a refused request is known by the `error` in its body alone.
"""

import importlib.util
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from djl_python import Input, Output

ARCHIVE = Path(__file__).resolve().with_name("archive")
MANIFEST = ARCHIVE / "MAR-INF/MANIFEST.json"
# The seconds that DJL gives a batch where serving.properties does not say.
PREDICT_TIMEOUT_S = 120
OK = 200
FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")


class Context:
    """What the handlers ask of TorchServe's context, of the requests of one batch."""

    metrics = None

    def __init__(self, requests: list[Input], properties: dict[str, Any]) -> None:
        self._headers = [dict(request.get_properties()) for request in requests]
        self.answers = [(OK, "OK", "application/json")] * len(requests)
        self.system_properties = {"model_dir": str(ARCHIVE), "gpu_id": None}
        self.manifest = json.loads(MANIFEST.read_text(encoding="utf-8"))
        self.model_yaml_config = {
            "minWorkers": properties.get("minWorkers"),
            "responseTimeout": properties.get("predict_timeout") or PREDICT_TIMEOUT_S,
        }

    def get_all_request_header(self, index: int) -> dict[str, Any]:
        """The headers of a request."""
        return self._headers[index]

    def get_request_header(self, index: int, name: str) -> Any:
        """One of them."""
        return self._headers[index].get(name)

    def get_request_id(self, index: int = 0) -> str:
        """The id that DJL gave the request, or its client."""
        headers = {name.lower(): value for name, value in self._headers[index].items()}
        return str(headers.get("requestid") or headers.get("x-request-id") or "")

    def set_response_status(self, code: int = OK, phrase: str = "OK", idx: int = 0) -> None:
        """Say how a request was answered."""
        self.answers[idx] = (code, phrase, self.answers[idx][2])

    def set_response_content_type(self, index: int, value: str) -> None:
        """Say what an answer is."""
        self.answers[index] = (*self.answers[index][:2], value)


def _load(properties: dict[str, Any]) -> Any:
    """The `handle` of the archive's handler, loaded as TorchServe would have loaded it."""
    sys.path.insert(1, str(ARCHIVE))
    context = Context([], properties)
    file = ARCHIVE / context.manifest["model"]["handler"]
    name = f"marsmith_entry_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise RuntimeError(f"{file.name} is no Python module.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if (function := getattr(module, "handle", None)) is not None:
        function(None, context)
        return function
    (kind,) = (one for one in vars(module).values() if isinstance(one, type) and one.__module__ == name)
    handler = kind()
    handler.initialize(context)
    return handler.handle


def _fields(request: Input) -> dict[str, Any]:
    """A request as TorchServe hands it over: a raw body, which DJL calls data, or the fields of a form."""
    content = request.get_content()
    pairs = list(zip(content.get_keys(), content.get_values(), strict=True))
    form = str(request.get_property("content-type") or "").lower().startswith(FORMS)
    return {("body" if not form and name in (None, "data") else name): value for name, value in pairs}


def _contents(answers: list[Any]) -> Iterator[bytes]:
    """Bodies as bytes: a handler of one's own may answer with other things, as TorchServe lets it."""
    for answer in answers:
        if isinstance(answer, (bytes, bytearray)):
            yield bytes(answer)
        else:
            yield (answer if isinstance(answer, str) else json.dumps(answer)).encode("utf-8")


_loaded = SimpleNamespace(handle=None, properties={})


def handle(inputs: Input) -> Output | None:
    """What DJL calls: first without content, to load, and then for each batch."""
    if _loaded.handle is None:
        _loaded.properties = dict(inputs.get_properties())
        _loaded.handle = _load(_loaded.properties)
    if inputs.is_empty():
        return None
    requests = inputs.get_batches()
    context = Context(requests, _loaded.properties)
    bodies = list(_contents(_loaded.handle([_fields(request) for request in requests], context)))
    if not inputs.is_batch():
        code, phrase, content_type = context.answers[0]
        return Output(code, phrase).add_property("Content-Type", content_type).add(bodies[0])
    output = Output(OK, "OK").add_property("Content-Type", context.answers[0][2])
    for index, body in enumerate(bodies):
        output.add(body, key="data", batch_index=f"{index:03}")
    return output
