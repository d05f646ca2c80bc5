"""Python runs this at its start where this directory is on PYTHONPATH, so in TorchServe's workers.

The worker imports torch for one line that recognises tensors in answers, and Marsmith's handlers answer with bytes: a
second or more of every start and 140 MB of every worker for nothing. Here that one module of TorchServe gets a torch
that is imported when it is first looked at; everybody else imports torch as ever.
"""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

HEAVY = "torch"


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


Around = Callable[[ModuleType], AbstractContextManager[None]]
AROUND: dict[str, Around] = {"ts.protocol.otf_message_handler": without_torch}


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
