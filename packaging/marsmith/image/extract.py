"""Copy files out of an image."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from marsmith.errors import ImageError
from marsmith.image import plan
from marsmith.image.archive import Image, layer_members
from marsmith.image.tree import File, Tree, normal


def archives_in(tree: Tree) -> list[File]:
    """The archives that are baked into an image, by path."""
    below = f"{plan.STORE}/"
    found = (file for path, file in tree.files.items() if path.startswith(below) and path.endswith(".mar"))
    return sorted((file for file in found if file.kind == "file"), key=lambda file: file.path)


def extract(image: Image, files: Iterable[File], directory: Path) -> list[Path]:
    """Copy regular files into a directory, under their last names. Raises ImageError."""
    wanted = {(file.layer, file.path): directory / file.name for file in files}
    for number in sorted({layer for layer, _ in wanted}):
        with layer_members(image, image.layers[number]) as members:
            for member in members:
                target = wanted.get((number, normal(member.name)))
                source = members.extractfile(member) if target and member.isfile() else None
                if target and source:
                    with target.open("wb") as stream:
                        shutil.copyfileobj(source, stream)
    missing = [path for path in wanted.values() if not path.is_file()]
    if missing:
        raise ImageError(f"{missing[0].name} is a link in {image.path}: bake the archive itself into the image.")
    return list(wanted.values())
