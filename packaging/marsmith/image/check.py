"""`marsmith image check`: what an image is made of, and whether it serves."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from platform import machine

from marsmith.container.settings import LONGEST_TIMEOUT_S, RESPONSE_TIMEOUT, STARTUP_TIMEOUT
from marsmith.errors import ImageError
from marsmith.ground.files import is_file
from marsmith.ground.progress import Progress, silent
from marsmith.ground.untrusted import mapping, strings
from marsmith.image import plan
from marsmith.image.archive import Image, read_image
from marsmith.image.chrooted import observe_chrooted
from marsmith.image.engines import EngineContainer, load
from marsmith.image.live import EMULATED_READY_TIMEOUT_S, READY_TIMEOUT_S, Run, observe, run_results
from marsmith.image.packages import is_record
from marsmith.image.results import LayerSize, Report
from marsmith.image.running import run
from marsmith.image.served import check_served
from marsmith.image.static import check_static
from marsmith.image.tools import export_command, find_tool
from marsmith.image.tree import read_tree
from marsmith.resources import image_lock
from marsmith.torchserve.store import fill

# What Linux calls the CPUs whose names in images are other ones.
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Options:
    """What a check may be told: `image` is a file, or a name in the tool's storage.

    `timeout_s` are the seconds until it must be ready: by default more where this machine only emulates its CPU, and
    there they take the place of the archives' own time-outs as well.
    """

    image: str
    archives: Sequence[Path] = ()
    tool: str | None = None
    platform: str = plan.PLATFORM
    lock: Path | None = None
    static: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    timeout_s: int | None = None


def check(options: Options, progress: Progress = silent) -> Report:
    """Check an image. Raises ImageError when it cannot be read or run at all, ArchiveError for a given archive."""
    with tempfile.TemporaryDirectory(prefix="marsmith-image-") as scratch:
        path = _exported(options, Path(scratch), progress)
        image = read_image(path, options.platform.split("/")[1] if "/" in options.platform else None)
        tree = read_tree(image, is_record, progress)
        sizes = zip(image.layers, tree.unpacked, strict=True)
        layers = [LayerSize(layer.size, unpacked, layer.created_by) for layer, unpacked in sizes]
        report = Report(options.image, image.format, image.digest, image.architecture, layers)
        report.results += check_static(image, tree, options.lock or image_lock())
        progress("reading the archives")
        (judged := Path(scratch, "baked")).mkdir()
        served = check_served(image, tree, options.environ, judged)
        report.results += served.results
        if not options.static:
            report.results += run_results(_run(options, image, served.archives, Path(scratch), progress))
    return report


def _exported(options: Options, scratch: Path, progress: Progress) -> Path:
    """The image as a file."""
    path = Path(options.image)
    if is_file(path):
        return path
    if path.suffix in (".tar", ".oci") or options.image.startswith((".", "/")):
        raise ImageError(f"There is no image {path}: build it with marsmith image build --output.")
    tool = find_tool(options.tool)
    progress(f"exporting from {tool.name}")
    exported = scratch / "image.tar"
    run(export_command(tool, options.image, exported), f"Exporting {options.image} from {tool.name}")
    return exported


def _run(options: Options, image: Image, baked: Sequence[Path], scratch: Path, progress: Progress) -> Run:
    tool = find_tool(options.tool)
    inside = [*strings(image.config.get("Entrypoint")), *strings(image.config.get("Cmd"))]
    health = strings(mapping(image.config.get("Healthcheck")).get("Test"))
    health = health[1:] if health[:1] == ["CMD"] else list(plan.HEALTH)
    store = _store(options.archives, scratch / "store") if options.archives else None
    archives = sorted(store.iterdir()) if store else baked
    platform = f"linux/{image.architecture}"
    emulated = image.architecture != MACHINES.get(machine(), machine())
    timeout_s = options.timeout_s or (EMULATED_READY_TIMEOUT_S if emulated else READY_TIMEOUT_S)
    # What the archives say is meant for the CPU itself.
    patience = (
        dict.fromkeys((STARTUP_TIMEOUT, RESPONSE_TIMEOUT), str(min(timeout_s, LONGEST_TIMEOUT_S))) if emulated else {}
    )
    environ = {**patience, **options.environ}
    from_file = is_file(Path(options.image))
    if tool.name == "buildah":
        transport = "oci-archive" if image.format == "OCI" else "docker-archive"
        source = f"{transport}:{Path(options.image).absolute()}" if from_file else options.image
        return observe_chrooted(
            tool,
            source,
            inside,
            health,
            archives,
            platform=platform,
            store=store,
            environ=environ,
            timeout_s=timeout_s,
            progress=progress,
        )
    progress(f"loading into {tool.name}")
    name = load(tool, Path(options.image)) if from_file else options.image
    container = EngineContainer(tool, name, health, platform=platform, store=store, environ=environ)
    return observe(container, archives, progress, timeout_s)


def _store(archives: Sequence[Path], directory: Path) -> Path:
    """A directory that holds the archives under their models' names, as the container wants them."""
    directory.mkdir(mode=0o755)
    fill(directory, archives)
    return directory
