"""NAME.sagemaker.tar.gz: what SageMaker calls model.tar.gz, for the AWS PyTorch containers and for Marsmith's image.

The archive's tree, with `code/` for the containers' inference toolkit. TorchServe takes a handler and a configuration
that the manifest names before the toolkit's, and then no longer heeds SAGEMAKER_TS_*; so this manifest names neither,
and `code/inference.py`, which everybody imports in its place, reads both.
"""

from __future__ import annotations

import json
from pathlib import Path, PurePosixPath

from marsmith.ground.serving import Engine, dump_json
from marsmith.mar.members import MANIFEST, REQUIREMENTS
from marsmith.recipe.recipe import Recipe
from marsmith.targets.tarball import write_tar_gz
from marsmith.targets.target import Packed

CODE = PurePosixPath("code")
INFERENCE = Path(__file__).with_name("entries") / "inference.py"
# The toolkit writes SAGEMAKER_TS_* down for this version alone.
VERSION = "1.0"


def check(recipe: Recipe, engine: Engine | None) -> None:
    """Every handler that TorchServe loads can be served here."""


def write(packed: Packed, out: Path) -> list[Path]:
    """Write `out`/NAME.sagemaker.tar.gz. Raises ArchiveError."""
    path = out / f"{packed.recipe.name}.sagemaker.tar.gz"
    write_tar_gz(
        path,
        packed.with_members(
            {
                PurePosixPath(MANIFEST): _manifest(packed),
                CODE / INFERENCE.name: INFERENCE,
                CODE / REQUIREMENTS: packed.members[PurePosixPath(REQUIREMENTS)],
            }
        ),
    )
    return [path]


def _manifest(packed: Packed) -> bytes:
    """The archive's manifest without what would come before the toolkit's; `marsmith` says what that was."""
    source = packed.members[PurePosixPath(MANIFEST)]
    manifest = json.loads(source if isinstance(source, bytes) else source.read_bytes())
    model = manifest["model"]
    manifest["marsmith"] |= {"handler": model.pop("handler"), "modelVersion": model["modelVersion"]}
    del model["configFile"]
    model["modelVersion"] = VERSION
    return dump_json(manifest)
