"""A process in DJL's place: loads a directory's model.py, and asks it batches as ai.djl.python.engine.PyPredictor does.

On standard input one batch a line, a JSON list of [headers, name of the content, body in base64]; on standard output
one line for each, a list of [code, properties, body]. `djl_python` is what the Python path has.
"""

import base64
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

from djl_python import Input, Output

BATCH_KEY = re.compile(r"batch_(\d+)\.(.*)")


def request_of(batch: list[Any]) -> Input:
    """A single request as it is, several as one with prefixes."""
    request = Input()
    if len(batch) > 1:
        request.properties["batch_size"] = str(len(batch))
    for index, (headers, name, body) in enumerate(batch):
        prefix = f"batch_{index:03}." if len(batch) > 1 else ""
        request.properties |= {prefix + key: value for key, value in headers.items()}
        request.content.add(f"{prefix}{name}", bytearray(base64.b64decode(body)))
    request.properties["handler"] = "handle"
    return request


def answers_of(output: Output, size: int) -> list[tuple[int, dict[str, Any], str]]:
    """What each client gets: of a batch, the one code and the one set of properties."""
    contents = list(zip(output.content.get_keys(), output.content.get_values(), strict=True))
    if size > 1:
        assert output.code < 300, "one answer for all of the batch"
        keys = [BATCH_KEY.fullmatch(key) for key, _ in contents]
        assert [key and int(key[1]) for key in keys] == list(range(size))
    assert len(contents) == size
    return [(output.code, output.properties, bytes(value).decode()) for _, value in contents]


def main() -> None:
    directory = Path(sys.argv[1])
    spec = importlib.util.spec_from_file_location("model", directory / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    start = Input()
    start.properties = {"handler": "handle", "predict_timeout": "60"}
    assert module.handle(start) is None
    for line in sys.stdin:
        batch = json.loads(line)
        sys.stdout.write(json.dumps(answers_of(module.handle(request_of(batch)), len(batch))) + "\n")
        sys.stdout.flush()


main()
