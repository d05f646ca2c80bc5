"""M108 and M109: names at the archive's root, which TorchServe puts on the path before everything that is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from marsmith.lint.findings import Finding
from marsmith.lint.modules import Modules
from marsmith.lint.packages import installed
from marsmith.lint.servers import KNOWN

# Imported by TorchServe or by handlers, or run by Python itself at its start, whether or not they are installed here.
RESERVED = KNOWN | {
    "onnxruntime",
    "safetensors",
    "sitecustomize",
    "tokenizers",
    "transformers",
    "usercustomize",
}
# The name that Marsmith's archives give to their own library. It is never installed.
OWN = "handlers"


def lint_shadows(modules: Modules) -> Iterator[Finding]:
    """A finding for each module at the root that has the name of another one."""
    hidden = frozenset(sys.stdlib_module_names) | installed().keys() | RESERVED
    for name in sorted({one for one in (*modules.members, *modules.folders) if "." not in one} & hidden - {OWN}):
        kind = "the standard library" if name in sys.stdlib_module_names else "an installed package"
        if name in modules.members:
            yield Finding(
                "M108",
                modules.members[name],
                f"The module {name} takes the place of {name} of {kind} in the whole worker.",
                "Give it another name.",
            )
        else:
            yield Finding(
                "M109",
                f"{name}/",
                f"The folder {name} has the name of {name} of {kind}, which is imported in its place.",
                "Give it another name.",
            )
