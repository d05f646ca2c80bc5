"""`marsmith image build`: the image by the tool that is there, an OCI archive of it, and its bill of materials."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from marsmith.errors import ImageError
from marsmith.ground.files import atomic
from marsmith.ground.progress import Progress, silent
from marsmith.image.archive import Image, read_image
from marsmith.image.context import DOCKERFILE, LOCK, write_context
from marsmith.image.packages import is_record
from marsmith.image.plan import PLATFORM
from marsmith.image.running import run
from marsmith.image.sbom import image_sbom
from marsmith.image.secrets import secret_in_line
from marsmith.image.tools import Job, Tool, archive_command, build_command, export_command, find_tool
from marsmith.image.tree import read_tree
from marsmith.resources import checkout

# 1980-01-01, 00:00 UTC, as in the archives; https://reproducible-builds.org/specs/source-date-epoch/ overrules it.
EPOCH = 315_532_800
SBOM_SUFFIX = ".cdx.json"


@dataclass(frozen=True, slots=True)
class Options:
    """What a build may be told."""

    archives: Sequence[Path] = ()
    output: Path | None = None
    tag: str | None = None
    tool: str | None = None
    platform: str = PLATFORM
    base_image: str | None = None
    build_args: Sequence[str] = ()
    lock: Path | None = None
    wheels: Path | None = None
    sbom: Path | None = None
    key: Path | None = None
    require_signature: bool = False


@dataclass(frozen=True, slots=True)
class Built:
    """What was built; sizes are bytes of the compressed layers, `notes` say what another build may not repeat."""

    tag: str
    tool: str
    platform: str
    models: list[str]
    output: Path | None
    sbom: Path | None
    digest: str
    size: int
    notes: list[str]


def build(options: Options, progress: Progress = silent) -> Built:
    """Build the image. Output and bill appear whole or not at all.

    Raises ImageError, and ArchiveError, SigningError and VerifyError for an archive that is not to be trusted.
    """
    tool = find_tool(options.tool)
    tag = options.tag or f"marsmith:{version('marsmith')}"
    epoch = source_date_epoch(os.environ)
    arguments = build_arguments(options, epoch)
    sbom = options.sbom or (options.output.with_suffix(SBOM_SUFFIX) if options.output else None)
    for path in filter(None, (options.output, sbom)):
        if not path.absolute().parent.is_dir():
            raise ImageError(f"There is no directory {path.absolute().parent} to write {path.name} into: make it.")
        if path.is_dir():
            raise ImageError(f"{path} is a directory: name the file to write, such as image.oci.tar.")
    with tempfile.TemporaryDirectory(prefix="marsmith-image-") as scratch, _beside(options.output) as place:
        context = Path(scratch)
        models = write_context(
            context,
            options.archives,
            epoch=epoch,
            key=options.key,
            require_signature=options.require_signature,
            lock=options.lock,
            wheels=options.wheels,
            progress=progress,
        )
        written = Path(place, "image.tar") if place else None
        job = Job(context, context / DOCKERFILE, options.platform, tag, arguments, epoch, written)
        progress(f"building with {tool.name}")
        run(build_command(tool, job), f"Building the image with {tool.name}", progress)
        notes = what_may_differ(tool, options)
        image = _write(tool, tag, written, options.output, sbom, progress)
    size = sum(layer.size or 0 for layer in image.layers) if image else 0
    digest = image.digest if image else ""
    return Built(tag, tool.name, options.platform, models, options.output, sbom, digest, size, notes)


def _beside(output: Path | None) -> AbstractContextManager[str]:
    """A directory on the output's file system, so that what is in it can take the output's name at once; "" if none."""
    if output is None:
        return nullcontext("")
    return tempfile.TemporaryDirectory(dir=output.absolute().parent, prefix=f".{output.name}.")


def _write(
    tool: Tool, tag: str, written: Path | None, output: Path | None, sbom: Path | None, progress: Progress
) -> Image | None:
    """Write the archive and the bill; the image as it was read back from the archive."""
    if written is None and sbom is None:
        return None
    with tempfile.TemporaryDirectory(prefix="marsmith-image-") as scratch:
        progress("writing the archive")
        archive = written or Path(scratch, "image.tar")
        command = archive_command(tool, tag, archive) if written else export_command(tool, tag, archive)
        if command:
            run(command, f"Writing the image with {tool.name}")
        image = read_image(archive)
        bill = image_sbom(image, read_tree(image, is_record, progress), tag) if sbom else b""
        try:
            if written and output:
                written.replace(output)
            if sbom:
                with atomic(sbom) as stream:
                    stream.write(bill)
        except OSError as error:
            raise ImageError(f"{error.filename or sbom} cannot be written: {error.strerror}.") from None
        return image


def source_date_epoch(environ: Mapping[str, str]) -> int:
    """The time of all files, in seconds since 1970. Raises ImageError when the environment's is no number."""
    text = environ.get("SOURCE_DATE_EPOCH", str(EPOCH))
    if not (text.isascii() and text.isdecimal()):
        raise ImageError(f"SOURCE_DATE_EPOCH is {text!r}: give seconds since 1970, or unset it.")
    return int(text)


def build_arguments(options: Options, epoch: int) -> dict[str, str]:
    """What the Dockerfile is told. Raises ImageError for an argument that is none, or that would stay as a secret."""
    arguments = {"VERSION": version("marsmith"), "REVISION": revision(checkout()), "SOURCE_DATE_EPOCH": str(epoch)}
    arguments["LOCK"] = LOCK
    if options.wheels:
        arguments["PIP_NO_INDEX"] = "1"
    if options.base_image:
        arguments["BASE_IMAGE"] = options.base_image
    for one in options.build_args:
        name, equals, value = one.partition("=")
        if not (name.isidentifier() and equals):
            raise ImageError(f"The build argument {name} has no value: write it as NAME=VALUE.")
        arguments[name] = value
    for name, value in arguments.items():
        if kind := secret_in_line(value):
            raise ImageError(
                f"The build argument {name} holds {kind}, which the image's history would keep: "
                "download the wheels beforehand and name them with --wheels."
            )
    return arguments


def revision(root: Path | None) -> str:
    """The commit of a checkout; "unknown" of anything else."""
    git = shutil.which("git")
    if root is None or git is None:
        return "unknown"
    result = subprocess.run(  # noqa: S603 - git, from PATH
        [git, "-C", str(root), "rev-parse", "HEAD"], capture_output=True, text=True, check=False
    )
    return result.stdout.strip() if result.returncode == 0 else "unknown"


def what_may_differ(tool: Tool, options: Options) -> list[str]:
    """What keeps another build from giving the same layers, one sentence each."""
    notes = []
    if options.base_image and "@sha256:" not in options.base_image:
        notes.append(f"{options.base_image} is no digest: another image may have that name later.")
    if tool.name == "docker":
        notes.append("Files in the image that docker keeps have the time of the build; those of --output do not.")
    else:
        notes.append(f"The image's digest: its history names intermediate images of {tool.name}. The layers repeat.")
    return notes
