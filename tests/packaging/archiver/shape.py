"""What a command line of `marsmith archive` and its files are, and handlers to put into them.

The packages are invented, so that no machine has them: a handler of a real model imports such ones from its server.
"""

import io
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from safetensors.numpy import save

BODY = "\n\ndef handle(data, context):\n    return data\n"
SAFETENSORS = save({"weight": np.arange(6, dtype=np.float32)})
STOCK_HANDLER = (
    "from ts.torch_handler.base_handler import BaseHandler\n\n\n"
    "class Mine(BaseHandler):\n"
    "    def initialize(self, context):\n"
)


@dataclass(frozen=True)
class Shape:
    """A command line behind `--model-name m --version 1.0`, and the files of its directory.

    `warned` maps words to the code of the warning whose message has them; `silent` are words that no finding has.
    """

    files: Mapping[str, str | bytes]
    arguments: tuple[str, ...] = ("--handler", "handler.py")
    warned: Mapping[str, str] = field(default_factory=dict)
    silent: tuple[str, ...] = ()


@dataclass(frozen=True)
class Fault:
    """As a shape, but refused: by the error of this `code`, whose sentence has these words."""

    files: Mapping[str, str | bytes]
    code: str
    says: str
    arguments: tuple[str, ...] = ("--handler", "handler.py")


def packed(*names: str) -> bytes:
    """A zip file of modules."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as zip_file:
        for name in names:
            zip_file.writestr(name, "x = 1\n")
    return stream.getvalue()


def inside(code: str) -> str:
    """The handler whose `initialize` runs this code, which is indented by eight."""
    return f"import os\n{STOCK_HANDLER}        self.initialized = True\n{code}"


def required(text: str, code: str) -> Shape:
    """A handler of this code beside requirements that this machine knows nothing of."""
    name = code.split()[1]
    return Shape(
        {"handler.py": code + BODY, "requirements.txt": text},
        ("--handler", "handler.py", "-r", "requirements.txt"),
        {f"The import of {name.partition('.')[0]} does not resolve": "M111"},
    )


def maybe(code: str, **more: str | bytes) -> Shape:
    """A handler that imports `acmelib` in this code, in a way that need not run, beside requirements that are known."""
    files = {"handler.py": code, "requirements.txt": "numpy==2.0.0\n", **more}
    return Shape(files, ("--handler", "handler.py", "-r", "requirements.txt"), {"The import of acmelib": "M111"})


KNOWN = ("--handler", "handler.py", "-r", "requirements.txt")
WITH_ZIP = (*KNOWN, "--extra-files", "code.zip")
UNPACKS = "import zipfile\n\n\ndef handle(data, context):\n    import acmelib\n    return data\n"
