"""Copy files out of an image."""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from marsmith.errors import ImageError
from marsmith.ground.limits import MAX_TOTAL_BYTES
from marsmith.image.archive import Image, layer_members
from marsmith.image.tree import File


def extract(image: Image, files: Mapping[Path, File]) -> None:
    """Write the content of regular files of an image, each to the path that it is given by. Raises ImageError.

    The directories of the paths must be there.
    """
    places: dict[int, dict[int, list[Path]]] = defaultdict(lambda: defaultdict(list))
    for path, file in files.items():
        layer, place = file.origin
        places[layer][place].append(path)
    left = MAX_TOTAL_BYTES
    for layer, wanted in sorted(places.items()):
        with layer_members(image, image.layers[layer]) as members:
            for place, member in enumerate(members):
                paths = wanted.get(place, [])
                left -= member.size * len(paths)
                if paths and (left < 0 or member.size * len(paths) > shutil.disk_usage(paths[0].parent).free):
                    raise ImageError(
                        f"The archives in {image.path} are too large to be looked into: there is room for "
                        f"{MAX_TOTAL_BYTES:,} bytes at most, and no more than the temporary directory has."
                    )
                for number, path in enumerate(paths):
                    if number:  # a layer is read once, and a hard link's file may have several names
                        shutil.copyfile(paths[0], path)
                        continue
                    source = members.extractfile(member)
                    assert source is not None  # noqa: S101 - tarfile has one for every regular file
                    with path.open("wb") as stream:
                        shutil.copyfileobj(source, stream)
