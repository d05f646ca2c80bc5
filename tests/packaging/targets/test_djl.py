"""DJL Serving's contract with model.py, by a double of its Python side (djl_double), or the real one where that is.

No test can have DJL's server: its rules are those of ai.djl.python.engine.PyPredictor, in djl_engine.py.
"""

import base64
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from marsmith.builder import Built
from tests.packaging.targets.answers import PICTURE, difference, golden_payloads, of_the_archive

HERE = Path(__file__).parent
DJL_PYTHON = os.environ.get("MARSMITH_DJL_PYTHON") or str(HERE / "djl_double")
TIMEOUT_S = 300
JSON_TYPE = {"Content-Type": "application/json"}

Answer = tuple[int, dict[str, str], Any]


def asked(tree: Path, *batches: list[tuple[dict[str, str], str, bytes]]) -> list[list[Answer]]:
    lines = [json.dumps([[h, name, base64.b64encode(body).decode()] for h, name, body in batch]) for batch in batches]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join([DJL_PYTHON, str(tree)]), "PYTHONDONTWRITEBYTECODE": "1"}
    result = subprocess.run(
        [sys.executable, str(HERE / "djl_engine.py"), str(tree)],
        input="".join(f"{line}\n" for line in lines),
        cwd=tree,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert result.returncode == 0, result.stderr
    return [
        [(code, properties, json.loads(body)) for code, properties, body in json.loads(line)]
        for line in result.stdout.splitlines()
    ]


def test_golden_requests_are_answered_as_by_the_archive(homes: Built, djl_tree: Path) -> None:
    payloads = golden_payloads(homes.path)
    batch = [({"Content-Type": kind} if kind else {}, "data", body) for body, kind in payloads]
    together, *alone = asked(djl_tree, batch, *([one] for one in batch))
    expected = of_the_archive(homes.path)
    assert difference([body for _, _, body in together], expected) < 1e-6
    assert difference([body for ((_, _, body),) in alone], expected) < 1e-6


def test_a_bad_request_is_answered_for_itself(djl_tree: Path) -> None:
    good = (JSON_TYPE, "data", b'{"text": "fine"}')
    bad = ({"content-type": PICTURE[1]}, "data", PICTURE[0])
    batch, ((code, properties, body),), ((form_code, _, form_body),) = asked(
        djl_tree,
        [good, bad, good],
        [bad],
        [({"Content-Type": "multipart/form-data; boundary=x"}, "text", b"fine")],
    )
    assert [code for code, _, _ in batch] == [200, 200, 200]
    assert [answer.get("error", {}).get("code") for _, _, answer in batch] == [None, 415, None]
    assert batch[0][2] == batch[2][2]
    assert (code, body["error"]["type"]) == (415, "unsupported_media")
    assert properties["Content-Type"].startswith("application/json")
    assert (form_code, form_body["label"]) == (200, batch[0][2]["label"])


def test_bodies_are_what_their_types_say(djl_tree: Path) -> None:
    batches = asked(
        djl_tree,
        [({"Content-Type": "text/json"}, "data", b'{"text": "fine"}')],
        [({"Content-Type": "application/x-ndjson"}, "data", b'{"text": "fine"}\n')],
        [({"Content-Type": "application/xml"}, "data", b"<text>fine</text>")],
        [({"Content-Type": "application/json", "Content-Encoding": "gzip"}, "data", gzip.compress(b'"fine"'))],
        [({"Content-Type": "application/x-www-form-urlencoded"}, '{"text": "a', b'b"}')],
    )
    (as_json,), (lines,), (xml,), (gzipped,), (form,) = batches
    assert [code for code, _, _ in (as_json, lines, xml, gzipped, form)] == [200, 200, 415, 200, 415]
    assert as_json[2] == lines[2] == gzipped[2]
    assert lines[1]["Content-Type"].startswith("application/jsonlines")
