"""Python runs this at its start where this directory is on PYTHONPATH, so in TorchServe's workers: two things differ.

The worker imports torch for one line that recognises tensors in answers, and Marsmith's handlers answer with bytes: a
second or more of every start and 140 MB of every worker for nothing. Here that one module of TorchServe gets a torch
that is imported when it is first looked at; everybody else imports torch as ever.

Where MARSMITH_VERIFY is set, a model is verified before any of its code runs, with the public key that
MARSMITH_VERIFY_WITH names, if any: for a server that loads models which nobody has seen at its start.
"""

import importlib
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

HEAVY = "torch"
VERIFY, KEY = "MARSMITH_VERIFY", "MARSMITH_VERIFY_WITH"


class Later(ModuleType):
    """Stands for a module until one of its attributes is asked for."""

    def __getattr__(self, name: str) -> object:
        return getattr(importlib.import_module(self.__name__), name)


@contextmanager
def without_torch(_module: ModuleType) -> Iterator[None]:
    """While the module runs it finds `HEAVY` imported already."""
    stand_in = Later(HEAVY)
    sys.modules.setdefault(HEAVY, stand_in)
    try:
        yield
    finally:
        if sys.modules.get(HEAVY) is stand_in:
            del sys.modules[HEAVY]


@contextmanager
def verifying(module: ModuleType) -> Iterator[None]:
    """Once the module ran, its loader verifies a model's directory first."""
    yield
    load = module.TsModelLoader.load

    def verified(self: object, model_name: str, model_dir: str, *rest: object, **named: object) -> object:
        from marsmith.errors import MarsmithError
        from marsmith.unpacked import verify_unpacked

        key = os.environ.get(KEY)
        try:
            verify_unpacked(Path(model_dir), Path(key) if key else None)
        except MarsmithError as error:
            sys.stderr.write(f"marsmith: {error}\n")
            raise
        return load(self, model_name, model_dir, *rest, **named)

    module.TsModelLoader.load = verified


Around = Callable[[ModuleType], AbstractContextManager[None]]
AROUND: dict[str, Around] = {"ts.protocol.otf_message_handler": without_torch}
if os.environ.get(VERIFY):
    AROUND["ts.model_loader"] = verifying


class Loader(SourceFileLoader):
    """Runs a module inside of what is to be around it."""

    def exec_module(self, module: ModuleType) -> None:
        """Run the module."""
        with AROUND[module.__name__](module):
            super().exec_module(module)


class Finder:
    """Finds those modules of TorchServe."""

    @classmethod
    def find_spec(cls, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        """Where the module is, and who loads it."""
        if name not in AROUND:
            return None
        place = sys.meta_path.index(cls)
        sys.meta_path.remove(cls)
        try:
            spec = find_spec(name)
        finally:
            sys.meta_path.insert(place, cls)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = Loader(spec.loader.name, spec.loader.path)
        return spec


def run_the_other() -> None:
    """Run the sitecustomize that this one hides, as Python would have, if there is one."""
    here, own = str(Path(__file__).parent), sys.modules.pop(__name__, None)
    places = [place for place, entry in enumerate(sys.path) if entry == here]
    sys.path[:] = [entry for entry in sys.path if entry != here]
    try:
        importlib.import_module(__name__)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        for place in places:
            sys.path.insert(place, here)
        if own is not None:
            sys.modules.setdefault(__name__, own)


sys.meta_path.insert(0, Finder)
if __name__ == "sitecustomize":
    run_the_other()
