"""Read an image out of a file: an OCI archive, or a docker archive as `docker save` writes it.

https://github.com/opencontainers/image-spec. Nothing is unpacked: layers are streams of tar members.
"""

from __future__ import annotations

import gzip
import hashlib
import posixpath
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Literal, cast

from marsmith.errors import ImageError
from marsmith.ground.limits import MAX_PAPER_BYTES, MAX_RATIO, MAX_TOTAL_BYTES
from marsmith.ground.untrusted import json_value, mapping, strings

Format = Literal["OCI", "docker"]
GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
# What a compressed layer may unpack to whatever its size: files of zeros, which deflate 1000 : 1, are in some layers.
LAYER_FREE_BYTES = 1 << 30
# Indexes name manifests or further indexes; nobody nests them deeper.
MAX_INDEXES = 4
# How buildx marks what is no image in an index: statements about one.
ATTESTATION = "vnd.docker.reference.type"
READ_ERRORS = (tarfile.TarError, zlib.error, OSError, EOFError)


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer: where it lies in the file, its bytes compressed, its sha256 unpacked, and what made it.

    `size` is None where it is not compressed there, as in docker archives.
    """

    member: str
    size: int | None
    diff_id: str
    created_by: str


@dataclass(frozen=True, slots=True)
class Image:
    """An image: `config` is what it was configured with (Env, User, Entrypoint …), `layers` are from the lowest up."""

    path: Path
    format: Format
    digest: str
    architecture: str
    config: dict[str, Any]
    history: tuple[str, ...]
    layers: tuple[Layer, ...]


def read_image(path: Path, architecture: str | None = None) -> Image:
    """The image in a file; of several, the one of `architecture`. Raises ImageError."""
    with _opened(path) as outer:
        if "manifest.json" in outer.members:
            return _read_docker(outer)
        if "index.json" in outer.members:
            return _read_oci(outer, architecture)
    raise ImageError(f"{path} is no image: give an OCI archive or what docker save writes.")


@contextmanager
def layer_members(image: Image, layer: Layer) -> Iterator[tarfile.TarFile]:
    """The members of a layer, to be read in their order; read to the end, it must be what the image says.

    Raises ImageError when it is damaged.
    """
    with _opened(image.path) as outer:
        raw = outer.stream(layer.member)
        try:
            stream = _Hashed(_unpacked(raw, image.path), _most_bytes(layer))
            with tarfile.open(fileobj=cast(IO[bytes], stream), mode="r|") as members:
                yield members
            while stream.read(tarfile.RECORDSIZE):
                pass
        except _TooLarge:
            raise ImageError(f"A layer of {image.path} unpacks to more than it may: it is made to explode.") from None
        except READ_ERRORS as error:
            raise ImageError(f"A layer of {image.path} cannot be read ({error}): write the image again.") from None
    if stream.digest != layer.diff_id:
        raise ImageError(f"A layer of {image.path} is not the one that the image names: write the image again.")


def _most_bytes(layer: Layer) -> int:
    """How many bytes a layer may unpack to."""
    if layer.size is None:
        return MAX_TOTAL_BYTES
    return min(MAX_TOTAL_BYTES, max(LAYER_FREE_BYTES, MAX_RATIO * layer.size))


class _TooLarge(Exception):
    """A layer unpacks to more bytes than it may."""


class _Hashed:
    """A stream that digests what is read of it, `left` bytes at most. Its `read` raises _TooLarge."""

    def __init__(self, stream: IO[bytes], left: int) -> None:
        self._stream = stream
        self._left = left
        self._sha256 = hashlib.sha256()

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        data = self._stream.read(size)
        self._left -= len(data)
        if self._left < 0:
            raise _TooLarge
        self._sha256.update(data)
        return data

    @property
    def digest(self) -> str:
        """Of what was read so far."""
        return f"sha256:{self._sha256.hexdigest()}"


@dataclass(frozen=True, slots=True)
class _Outer:
    """The file itself, a tar archive."""

    path: Path
    tar: tarfile.TarFile
    members: dict[str, tarfile.TarInfo]

    def stream(self, name: str) -> IO[bytes]:
        """A member's bytes; the link of an older docker is followed."""
        member = self.members.get(name)
        if member is not None and member.issym():
            member = self.members.get(posixpath.normpath(posixpath.join(posixpath.dirname(name), member.linkname)))
        found = self.tar.extractfile(member) if member is not None and member.isfile() else None
        if found is None:
            raise ImageError(f"{self.path} lacks its {name}: write the image again.")
        return found

    def json(self, name: str, digest: str = "") -> Any:
        """A member's JSON value, which must have that digest."""
        data = self.stream(name).read(MAX_PAPER_BYTES)
        if digest and f"sha256:{hashlib.sha256(data).hexdigest()}" != digest:
            raise ImageError(f"{name} in {self.path} was changed: write the image again.")
        return json_value(data)

    def blob(self, descriptor: dict[str, Any]) -> Any:
        """The JSON value that an OCI descriptor names."""
        digest = str(descriptor.get("digest", ""))
        return self.json(_blob(digest), digest)


@contextmanager
def _opened(path: Path) -> Iterator[_Outer]:
    try:
        with tarfile.open(path, "r:") as tar:
            yield _Outer(path, tar, {posixpath.normpath(member.name): member for member in tar})
    except FileNotFoundError:
        raise ImageError(f"There is no image {path}: build it with marsmith image build --output.") from None
    except READ_ERRORS as error:
        raise ImageError(
            f"{path} cannot be read as an image ({error}): give an OCI archive or what docker save writes, "
            "not compressed as a whole."
        ) from None


def _unpacked(raw: IO[bytes], path: Path) -> IO[bytes]:
    begin = raw.read(len(ZSTD))
    raw.seek(0)
    if begin == ZSTD:
        raise ImageError(f"The layers of {path} are compressed with zstd: write it with gzip.")
    return cast(IO[bytes], gzip.open(raw)) if begin.startswith(GZIP) else raw


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _read_docker(outer: _Outer) -> Image:
    manifests = outer.json("manifest.json")
    if not isinstance(manifests, list) or len(manifests) != 1:
        raise ImageError(f"{outer.path} holds more than one image, or none: save one image into it.")
    manifest = mapping(manifests[0])
    name = str(manifest.get("Config", ""))
    config = mapping(outer.json(name))
    digest = f"sha256:{posixpath.basename(name).removesuffix('.json')}"
    return _image(outer, "docker", digest, config, strings(manifest.get("Layers")))


def _read_oci(outer: _Outer, architecture: str | None) -> Image:
    found = list(_manifests(outer, mapping(outer.json("index.json"))))
    if len(found) > 1 and architecture:
        found = [one for one in found if mapping(one[1].get("platform")).get("architecture") == architecture]
    if len(found) != 1:
        raise ImageError(f"{outer.path} holds {len(found)} images that may be meant: choose one with --platform.")
    manifest, descriptor = found[0]
    config = mapping(outer.blob(mapping(manifest.get("config"))))
    layers = [_blob(str(mapping(one).get("digest"))) for one in _list(manifest.get("layers"))]
    return _image(outer, "OCI", str(descriptor["digest"]), config, layers)


def _manifests(
    outer: _Outer, index: dict[str, Any], depth: int = MAX_INDEXES
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The image manifests below an index, each with its descriptor."""
    for descriptor in map(mapping, _list(index.get("manifests"))):
        if ATTESTATION in mapping(descriptor.get("annotations")):
            continue
        value = mapping(outer.blob(descriptor))
        if "manifests" in value and depth:
            yield from _manifests(outer, value, depth - 1)
        elif "layers" in value:
            yield value, descriptor


def _image(outer: _Outer, kind: Format, digest: str, config: dict[str, Any], members: list[str]) -> Image:
    diff_ids = strings(mapping(config.get("rootfs")).get("diff_ids"))
    if not members or len(diff_ids) != len(members):
        raise ImageError(f"{outer.path} does not name its layers as it should: write the image again.")
    history = [mapping(one) for one in _list(config.get("history"))]
    made = [str(one.get("created_by", "")) for one in history if not one.get("empty_layer")]
    made += [""] * (len(members) - len(made))
    names = [posixpath.normpath(name) for name in members]
    rows = zip(names, diff_ids, made, strict=False)
    return Image(
        outer.path,
        kind,
        digest,
        str(config.get("architecture", "")),
        mapping(config.get("config")),
        tuple(str(one.get("created_by", "")) for one in history),
        tuple(Layer(name, _size(outer, name), diff_id, by) for name, diff_id, by in rows),
    )


def _size(outer: _Outer, name: str) -> int | None:
    stream = outer.stream(name)
    compressed = stream.read(len(ZSTD)).startswith((GZIP, ZSTD))
    return stream.seek(0, 2) if compressed else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
