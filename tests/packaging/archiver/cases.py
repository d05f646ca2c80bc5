"""Generated inputs of `marsmith archive`: each says by itself what must come of it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from marsmith.mar.formats import ENDINGS
from marsmith.mar.members import DIGESTS, MANIFEST, SIGNATURE
from tests.packaging.archiver.packing import HANDLER

Tree = Mapping[str, bytes]

# What is named by a flag of its own, by that flag.
INPUTS = {
    "serialized_file": ("inputs/model.pt", b"weights"),
    "model_file": ("inputs/net.py", b"import torch\n\n\nclass Net(torch.nn.Module):\n    pass\n"),
    "requirements_file": ("inputs/requirements.txt", b"numpy==2.0.0\n"),
    "config_file": ("inputs/model-config.yaml", b"minWorkers: 1\nmaxWorkers: 1\nbatchSize: 4\nmaxBatchDelay: 10\n"),
}
SINGLE = ("single.txt", b"one file")
FILES = ("a.txt", "b c.json", "ü.bin", ".keep", "x.pyc", ".DS_Store", "old.mar", "handler.py", "model.pt", "sub")
DIRECTORIES = ("sub", "ü d", ".git", "__pycache__", "__MACOSX", "MAR-INF")
# What one piece of --extra-files leads to.
PIECES = {
    "one": ("one",),
    "one/": ("one",),
    "o*": ("one",),
    "two": ("two",),
    "t*": ("three", "two"),
    "single.txt": ("single.txt",),
    "*.txt": ("single.txt",),
    "missing": (),
    "nothing*": (),
}
# What a link in the directory `one` adds to it: its path, its target, and the file that is then there.
LINKS: dict[str, tuple[str, str, Tree]] = {
    "file": ("l.txt", "real/r.txt", {"real/r.txt": b"r", "l.txt": b"r"}),
    "directory": ("again", "real", {"real/r.txt": b"r", "again/r.txt": b"r"}),
    "outside": ("sub d/l.txt", "../../single.txt", {}),
    "nowhere": ("l.txt", "missing", {}),
    "round": ("l", ".", {}),
}
# Spellings of the handler, and the file of each.
HANDLERS = {
    "inputs/handler.py": "inputs/handler.py",
    "inputs/handler": "inputs/handler.py",
    "inputs/handler:handle": "inputs/handler.py",
    "inputs/handler.py:handle": "inputs/handler.py",
    "inputs/my-handler": "inputs/my-handler.py",
    "image_classifier": None,
    "inputs/missing": None,
}
RECORDS = {MANIFEST, DIGESTS, SIGNATURE}


@dataclass(frozen=True)
class Case:
    """The inputs of one build."""

    handler: str = "inputs/handler.py"
    name: str = "m"
    version: str = "1.0"
    inputs: frozenset[str] = frozenset()
    trees: tuple[Tree, Tree, Tree] = ({}, {}, {})
    link: str | None = None
    pieces: tuple[str, ...] = ()
    separator: str = ","
    archive_format: str = "default"
    exists: bool = False
    force: bool = False
    export: str = "store"

    def flags(self) -> dict[str, Any]:
        flags = {flag: INPUTS[flag][0] for flag in self.inputs}
        return flags | {
            "model_name": self.name,
            "handler": self.handler,
            "version": self.version,
            "extra_files": self.separator.join(self.pieces),
            "archive_format": self.archive_format,
            "force": self.force,
        }

    def directory(self, name: str) -> Tree:
        tree = self.trees[("one", "two", "three").index(name)]
        return {**tree, **LINKS[self.link][2]} if name == "one" and self.link else tree

    def sources(self) -> Iterator[tuple[str, str, bytes]]:
        """The members that are wanted: their names, where they come from, and their bytes."""
        file = HANDLERS[self.handler]
        if file:
            yield Path(file).name, file, HANDLER.encode()
        for flag in self.inputs:
            path, content = INPUTS[flag]
            yield Path(path).name, path, content
        for found in self.found():
            if found == SINGLE[0]:
                yield found, *SINGLE
            else:
                yield from (
                    (name, f"{found}/{name}", data) for name, data in self.directory(found).items() if kept(name)
                )

    def found(self) -> list[str]:
        return [found for piece in self.pieces for found in PIECES[piece]]

    def members(self) -> dict[str, bytes]:
        return {name: content for name, _, content in self.sources()}

    def faults(self) -> set[str]:
        """Why Marsmith must refuse."""
        origins: dict[str, set[str]] = {}
        for name, origin, _ in self.sources():
            origins.setdefault(name, set()).add(origin)
        above = {str(parent) for name in {*origins, *RECORDS} for parent in Path(name).parents}
        checks = {
            "name": self.name in {"", "-m", "m.", "a..b", "../m", "ü"},
            "version": self.version in {"", "../1", "1 0", "1/2"},
            "handler": self.handler == "inputs/missing",
            "no network": self.handler == "image_classifier" and not self.inputs & {"serialized_file", "model_file"},
            "missing": bool({"missing", "nothing*"} & set(self.pieces)),
            "two sources": any(len(found) > 1 for found in origins.values()),
            "file and directory": bool(origins.keys() & above),
            "record": bool(origins.keys() & RECORDS),
            "link": self.link in {"outside", "nowhere", "round"} and "one" in self.found(),
            "exists": self.exists and not self.force and self.export == "store",
        }
        return {fault for fault, found in checks.items() if found}

    def only_ours(self) -> set[str]:
        """Why torch-model-archiver refuses what Marsmith takes."""
        directories = [
            name for found in self.found() if found != SINGLE[0] for name in top_directories(self.directory(found))
        ]
        checks = {
            "space after comma": self.separator == ", " and any("*" not in piece for piece in self.pieces[1:]),
            "file with ending and function": self.handler == "inputs/handler.py:handle",
            "export path is missing": self.export != "store",
            "directories of one name": len(directories) > len(set(directories)),
        }
        return {reason for reason, found in checks.items() if found}


def kept(name: str) -> bool:
    """Whether a file of an extra directory is packed."""
    *directories, file = Path(name).parts
    hidden = any(one.startswith(".") or one in {"__pycache__", "__MACOSX"} for one in directories)
    return not hidden and not file.endswith((".pyc", ".DS_Store", ".mar"))


def top_directories(tree: Tree) -> set[str]:
    return {name.split("/")[0] for name in tree if "/" in name}


def flat(files: Mapping[str, bytes], directories: Mapping[str, Tree]) -> Tree:
    """A directory as paths; where a file and a directory have one name, it is the directory."""
    below = {f"{name}/{path}": content for name, tree in directories.items() for path, content in tree.items()}
    return {name: content for name, content in files.items() if name not in directories} | below


def files(least: int) -> st.SearchStrategy[Mapping[str, bytes]]:
    names = st.sampled_from(FILES)
    drawn = st.dictionaries(names, st.sampled_from((b"\n", b"x", b"yy")), min_size=least, max_size=2)
    return drawn.map(
        lambda found: {name: HANDLER.encode() if name.endswith(".py") else data for name, data in found.items()}
    )


def directories(below: st.SearchStrategy[Tree], most: int) -> st.SearchStrategy[Mapping[str, Tree]]:
    return st.dictionaries(st.sampled_from(DIRECTORIES), below, max_size=most)


TREES = st.builds(flat, files(0), directories(st.builds(flat, files(1), directories(files(1), 1)), 2))


def mostly(usual: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Nine times the usual, so that a case has few oddities at once."""
    return st.integers(0, 9).flatmap(lambda one: st.sampled_from(others) if one == 9 else st.just(usual))


CASES = st.builds(
    Case,
    handler=st.sampled_from([*HANDLERS, "inputs/handler.py", "inputs/handler", "inputs/handler:handle"]),
    name=mostly("m", "model-1", "a.b_c", "M", "", "-m", "m.", "a..b", "../m", "ü"),
    version=mostly("1.0", "2", "v1-rc_2", "", "../1", "1 0", "1/2"),
    inputs=st.frozensets(st.sampled_from(list(INPUTS))),
    trees=st.tuples(TREES, TREES, TREES),
    link=mostly(None, *LINKS),
    pieces=st.lists(mostly("one", *PIECES) | st.sampled_from(["two", "t*", "single.txt"]), max_size=3).map(tuple),
    separator=mostly(",", ", "),
    archive_format=st.sampled_from(list(ENDINGS)),
    exists=mostly(False, True),
    force=st.booleans(),
    export=mostly("store", "missing"),
)
