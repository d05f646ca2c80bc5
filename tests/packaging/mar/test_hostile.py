"""Archives made to hurt whoever looks into them: an answer in little time and memory, never a traceback."""

import contextlib
import json
import struct
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from marsmith.cli.tables import card, changes_table, outcomes_table, problems_table
from marsmith.diff import diff
from marsmith.errors import MarsmithError, ServerError, VerifyError
from marsmith.evidence import replay
from marsmith.inspection import inspect
from marsmith.lint import lint_archive
from marsmith.lint.findings import Finding
from marsmith.mar import records
from marsmith.mar.members import DIGESTS, GOLDEN, MANIFEST, SBOM, SERVING, SIGNATURE
from marsmith.mar.scan import CHUNK_BYTES
from marsmith.mar.verify import verify
from marsmith.mar.writer import write_archive
from tests.packaging.cli.test_cli import marsmith
from tests.packaging.forgery import content, members, rewritten

MODEL = {"modelName": "m", "handler": "m.py", "configFile": "c.yaml", "requirementsFile": "r.txt"}
HANDLER = b"def handle(data, context):\n    return data and [b'good'] * len(data)\n"


def archive(path: Path, files: dict[str, bytes], **model: Any) -> Path:
    """An archive as anybody may make one, its records right, with these members."""
    manifest = json.dumps({"runtime": "python", "model": {**MODEL, **model}}).encode()
    path.write_bytes(
        rewritten(list(({"m.py": HANDLER, "c.yaml": b"minWorkers: 1\n", MANIFEST: manifest} | files).items()))
    )
    return path


def hidden(path: Path) -> Path:
    """A deflated member that ends where a chunk does, and behind it, for who reads from the front, another m.py."""
    for size in range(CHUNK_BYTES - 2000, CHUNK_BYTES):
        text = bytes(size)
        packer = zlib.compressobj(0, zlib.DEFLATED, records.RAW_DEFLATE)  # level 0: the length follows the text's
        lying = packer.compress(text) + packer.flush()
        if len(lying) == CHUNK_BYTES:
            break
    assert len(lying) == CHUNK_BYTES
    crc = zlib.crc32(text)
    evil = records.local_header(records.Entry("m.py", records.STORED, 0, 0, 0, 0))
    behind = b"PK\7\x08" + struct.pack("<3I", crc, len(lying), len(text)) + evil
    size = len(lying) + len(behind)
    flags = records.DESCRIPTOR_FLAG

    def local(name: bytes, method: int, flag: int, *numbers: int) -> bytes:
        return records.LOCAL.pack(b"PK\3\4", 20, flag, method, 0, records.DATE, *numbers, len(name), 0) + name

    def central(name: bytes, method: int, flag: int, *numbers: int) -> bytes:
        *sizes, offset = numbers
        packed = (
            b"PK\1\2",
            788,
            20,
            flag,
            method,
            0,
            records.DATE,
            *sizes,
            len(name),
            0,
            0,
            0,
            0,
            records.MODE,
            offset,
        )
        return records.CENTRAL.pack(*packed) + name

    data = local(b"a.txt", records.DEFLATED, flags, 0, 0, 0) + lying + behind
    data += b"PK\7\x08" + struct.pack("<3I", crc, size, len(text))
    good = (zlib.crc32(HANDLER), len(HANDLER), len(HANDLER))
    listed = central(b"a.txt", records.DEFLATED, flags, crc, size, len(text), 0)
    listed += central(b"m.py", records.STORED, 0, *good, len(data))
    data += local(b"m.py", records.STORED, 0, *good) + HANDLER
    path.write_bytes(data + listed + records.end_of_directory(2, len(data), len(listed)))
    return path


def test_a_member_hidden_behind_a_deflated_one_is_found(tmp_path: Path) -> None:
    """TorchServe, which reads from the front, would run the hidden handler; Python's zipfile never sees it."""
    problems = verify(hidden(tmp_path / "m.mar")).problems
    assert ("changed", "a.txt") in [(one.kind, one.member) for one in problems]


def test_many_small_bombs_are_one_bomb(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.mar", "w", zipfile.ZIP_DEFLATED) as zip_file:
        for number in range(8):
            zip_file.writestr(f"{number}.json", bytes(8 << 20))
    assert [one.kind for one in verify(tmp_path / "m.mar").problems] == ["limit"]
    with pytest.raises(VerifyError, match="a zip bomb"):
        replay.in_worker(tmp_path / "m.mar")


def test_a_stored_member_with_its_size_behind_it_is_not_what_torchserve_reads(tmp_path: Path) -> None:
    data = bytearray(rewritten([("a.weights", b"12345")]))
    data[6] |= records.DESCRIPTOR_FLAG
    data[data.index(b"PK\1\2") + 8] |= records.DESCRIPTOR_FLAG
    (tmp_path / "m.mar").write_bytes(data)
    assert ("unsafe", "a.weights") in [(one.kind, one.member) for one in verify(tmp_path / "m.mar").problems]


def test_an_archive_on_several_disks_is_none(tmp_path: Path) -> None:
    data = bytearray(rewritten([("a.py", b"")]))
    data[-18] = 7
    (tmp_path / "m.mar").write_bytes(data)
    assert [one.kind for one in verify(tmp_path / "m.mar").problems] == ["directory"]


def test_a_file_and_a_folder_of_one_name_are_unsafe(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.mar", "w") as zip_file:
        zip_file.writestr("foo", "")
        zip_file.writestr("foo/", "")
    assert [(one.kind, one.member) for one in verify(tmp_path / "m.mar").problems] == [("unsafe", "foo/")]


def test_an_endless_name_takes_no_time(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "m.mar", "w") as zip_file:
        for number in range(20):
            zip_file.writestr("a/" * 32_000 + str(number), "")
    assert {one.kind for one in verify(tmp_path / "m.mar").problems} == {"unsafe"}


PAPERS: list[tuple[str, bytes]] = [
    (MANIFEST, b"[" * 200_000),
    (MANIFEST, b'{"model": null}'),
    (MANIFEST, b'{"model": {"handler": ["x"], "requirementsFile": ["x"], "configFile": {}}}'),
    (MANIFEST, b'{"model": {"handler": "m.py"}}'),
    (DIGESTS, b'{"members": [[1, 2], ["a", 3]]}'),
    (DIGESTS, b'{"members": {"\\ud800": 1, "\\u001b[2J": {}}}'),
    (DIGESTS, b"[" + b"[]," * 100_000),
    (SERVING, b'{"labels": null}'),
    (SERVING, b'{"labels": ["\\ud800", "[/x]", "\\u001b[2J", 5]}'),
    (SERVING, b"[" * 200_000),
    (GOLDEN, b'{"requests": 5}'),
    (GOLDEN, b'{"requests": [1]}'),
    (SIGNATURE, b'{"signatures": [{"keyid": "[/red]"}]}'),
    (SIGNATURE, b'{"signatures": 3}'),
    (SBOM, b'{"metadata": {"component": {"licenses": [{"license": 3}]}}}'),
    ("c.yaml", b"a: &a [*a]\n"),
    ("c.yaml", b"1: x\nb: y\n2020-01-01: z\n"),
    ("c.yaml", b"a: &a [x,x]\n" + b"".join(b"b%d: &b%d [*b%d,*b%d]\n" % (n, n, n - 1, n - 1) for n in range(1, 30))),
    ("c.yaml", b"\xff\xfe"),
    ("r.txt", b"\xff\xfe[/x]\n"),
    ("r.txt", b'numpy==1.0; sys_platform ~= "linux"\n'),
]


@pytest.mark.slow
@pytest.mark.parametrize(("member", "data"), PAPERS, ids=range(len(PAPERS)))
def test_odd_papers_are_read_without_a_traceback(tmp_path: Path, member: str, data: bytes) -> None:
    path = archive(tmp_path / "m.mar", {member: data})
    other = archive(tmp_path / "other.mar", {})
    problems_table(verify(path).problems)
    lint_archive(path)
    with contextlib.suppress(MarsmithError):
        card(inspect(path))
    with contextlib.suppress(MarsmithError):
        changes_table(diff(other, path))
    for command in (("inspect",), ("inspect", "--json"), ("verify",), ("verify", "--json"), ("lint", "--offline")):
        result = marsmith(command[0], path, *command[1:])
        assert "Traceback" not in result.stderr
        assert "\x1b" not in result.stdout + result.stderr
        assert result.returncode in (0, 1)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_json_in_any_paper_is_read_without_a_traceback(tmp_path: Path, data: st.DataObject) -> None:
    inner = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
    anything = st.recursive(inner, lambda one: st.lists(one, max_size=3) | st.dictionaries(KEYS, one, max_size=4))
    name = data.draw(st.sampled_from([MANIFEST, DIGESTS, SERVING, GOLDEN, SBOM, SIGNATURE]))
    path = archive(tmp_path / "m.mar", {name: json.dumps(data.draw(anything)).encode()})
    other = archive(tmp_path / "other.mar", {})
    problems_table(verify(path).problems)
    lint_archive(path)
    with contextlib.suppress(MarsmithError):
        card(inspect(path))
        changes_table(diff(path, other))


KEYS = st.sampled_from(
    (
        *("model", "modelName", "handler", "configFile", "requirementsFile", "marsmith", "labels", "members"),
        *("requests", "metadata", "component", "licenses", "signatures", "keyid", "expect", "name", "task"),
    )
)


@pytest.mark.slow
def test_lint_keeps_its_memory_whatever_the_code(tmp_path: Path) -> None:
    """A syntax tree takes some 300 times the memory of such a source."""
    source = b"x = [" + b"[]," * 300_000 + b"]\n"
    path = archive(tmp_path / "m.mar", {f"m{number}.py": source for number in range(6)})
    code = (
        "import re, sys; from pathlib import Path; from marsmith.lint import lint_archive;"
        "lint_archive(Path(sys.argv[1]));"
        "print(re.search(r'VmHWM:\\s+(\\d+) kB', Path('/proc/self/status').read_text())[1])"
    )
    result = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert int(result.stdout) < 900 << 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({MANIFEST: b"{}"}, "names no model and handler"),
        ({"c.yaml": b"startupTimeout: 1\n", "m.py": b"import time\ntime.sleep(20)\n"}, "gave no answer"),
        ({"m.py": b"import os\nos._exit(1)\n"}, "could not load"),
    ],
)
def test_a_worker_that_cannot_be_asked_is_one_sentence(tmp_path: Path, files: dict[str, bytes], says: str) -> None:
    path = archive(tmp_path / "m.mar", files)
    with pytest.raises(MarsmithError, match=says):
        replay.in_worker(path)


def test_a_worker_has_no_home_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model in somebody's cache would make a test pass that fails everywhere else."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "cache").write_text("model")
    handler = b"import pathlib\ndef handle(data, context):\n    (pathlib.Path.home() / 'cache').read_text()\n"
    with pytest.raises(ServerError, match="could not load"):
        replay.in_worker(archive(tmp_path / "m.mar", {"m.py": handler}))


def test_a_long_temporary_directory_is_no_obstacle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path of a socket may have 107 bytes."""
    deep = tmp_path / ("d" * 120)
    deep.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(deep))
    assert replay.in_worker(archive(tmp_path / "m.mar", {})) == []


@pytest.mark.parametrize("answer", ['{"label": 1, "score": "high"}', '{"scores": {"a": "x"}}', "[]", "nothing"])
def test_any_answer_of_a_handler_can_be_shown(tmp_path: Path, answer: str) -> None:
    handler = f"def handle(data, context):\n    return data and [{answer!r}] * len(data)\n".encode()
    requests = [{"name": "text 1", "text": "hm", "expect": {"scores": {"a": 0.5}}, "tolerance": 1e-4}]
    files = {"m.py": handler, GOLDEN: json.dumps({"requests": requests}).encode()}
    outcomes = replay.in_worker(archive(tmp_path / "m.mar", files))
    assert not outcomes[0].ok
    assert outcomes_table(outcomes).row_count == 1


def test_lint_of_an_archive_that_is_not_there_speaks_of_an_archive(tmp_path: Path) -> None:
    assert "There is no archive" in marsmith("lint", tmp_path / "m.mar", "--offline").stderr


def test_lint_asks_for_the_requirements_that_the_manifest_names(tmp_path: Path) -> None:
    from marsmith.lint import index
    from marsmith.lint.command import lint_target

    asked: list[str] = []

    def ask(text: str) -> list[Finding]:
        asked.append(text)
        return []

    path = archive(tmp_path / "m.mar", {"r.txt": b"numpy==2.0.0\n"})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("marsmith.lint.command.lint_index", ask)
        lint_target(path, lambda _: None, offline=False)
    assert asked == ["numpy==2.0.0\n"]
    assert index.lint_index("") == []


def test_a_failed_build_leaves_no_directory_that_it_made(tmp_path: Path) -> None:
    def refuse(_: Path) -> None:
        raise VerifyError("no")

    with pytest.raises(VerifyError):
        write_archive(tmp_path / "new/deep/m.mar", members(content()), refuse)
    assert list(tmp_path.iterdir()) == []
