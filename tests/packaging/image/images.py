"""Small images, made in the test: layers of a few files, in either format."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

AARCH64, X86_64 = 183, 62
CONFIG: dict[str, Any] = {
    "User": "10001",
    "Env": ["PATH=/opt/marsmith/bin:/usr/bin", "LANG=C.UTF-8"],
    "Entrypoint": ["/opt/marsmith/bin/python", "-P", "-m", "marsmith.container.entrypoint"],
    "Cmd": ["serve"],
    "Healthcheck": {"Test": ["CMD", "/opt/marsmith/bin/python", "-P", "-m", "marsmith.container.health"]},
}
SITE = "opt/marsmith/lib/python3.11/site-packages"
LOCK = "numpy==2.1.0 \\\n    --hash=sha256:00\npillow==12.0 ; sys_platform == 'linux'\nwinkit==1.0 ; os_name == 'nt'\n"
# Random, so that it is not taken for an example.
PRIVATE_KEY = b"-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJx3qfT0m9Zb\n-----END PRIVATE KEY-----\n"
DPKG_STATUS = b"""Package: libc6
Status: install ok installed
Architecture: arm64
Version: 2.36-9+deb12u13
Description: GNU C Library
 Shared libraries.

Package: gone
Status: deinstall ok config-files
Architecture: arm64
Version: 1.0
"""


def elf(machine: int = AARCH64) -> bytes:
    """The header of a 64-bit little-endian program, and nothing more."""
    return b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x03\x00" + machine.to_bytes(2, "little") + bytes(44)


def dist_info(name: str, version: str, *fields: str) -> bytes:
    return "\n".join(["Metadata-Version: 2.4", f"Name: {name}", f"Version: {version}", *fields, "", ""]).encode()


@dataclass(frozen=True)
class Member:
    """What is no plain file of mode 0644."""

    data: bytes = b""
    mode: int = 0o644
    type: bytes = tarfile.REGTYPE
    target: str = ""


def link(target: str) -> Member:
    return Member(mode=0o777, type=tarfile.SYMTYPE, target=target)


def hard_link(target: str) -> Member:
    return Member(type=tarfile.LNKTYPE, target=target)


DIRECTORY = Member(mode=0o755, type=tarfile.DIRTYPE)
Files = Mapping[str, bytes | Member]


def good() -> dict[str, bytes | Member]:
    """The files of an image in which nothing is wrong."""
    return {
        "usr/bin/python3.11": Member(elf(), 0o755),
        "opt/marsmith/bin/python": link("/usr/bin/python3.11"),
        f"{SITE}/numpy/core.so": elf(),
        f"{SITE}/numpy-2.1.0.dist-info/METADATA": dist_info("numpy", "2.1.0", "License-Expression: BSD-3-Clause"),
        f"{SITE}/pillow-12.0.dist-info/METADATA": dist_info("Pillow", "12.0"),
        "var/lib/dpkg/status": DPKG_STATUS,
        "etc/os-release": b'ID=debian\nVERSION_ID="12"\n',
    }


def layer(files: Files) -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as tar:
        for name, content in files.items():
            member = content if isinstance(content, Member) else Member(content)
            info = tarfile.TarInfo(name)
            info.size, info.mode, info.type, info.linkname = len(member.data), member.mode, member.type, member.target
            tar.addfile(info, io.BytesIO(member.data))
    return stream.getvalue()


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _config(layers: Sequence[bytes], config: Mapping[str, Any], architecture: str, history: Sequence[str]) -> bytes:
    rows: list[dict[str, Any]] = [{"created_by": f"STEP {number}"} for number in range(1, len(layers) + 1)]
    rows += [{"created_by": step, "empty_layer": True} for step in history]
    document = {
        "architecture": architecture,
        "os": "linux",
        "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(one)}" for one in layers]},
        "history": rows,
    }
    return json.dumps(document).encode()


def _write(path: Path, members: Mapping[str, bytes]) -> Path:
    path.write_bytes(layer(members))
    return path


def docker_archive(
    path: Path,
    *layers: Files,
    config: Mapping[str, Any] = CONFIG,
    architecture: str = "arm64",
    history: Sequence[str] = (),
) -> Path:
    tars = [layer(one) for one in layers]
    configuration = _config(tars, config, architecture, history)
    names = [f"{sha256(one)}.tar" for one in tars]
    manifest = [{"Config": f"{sha256(configuration)}.json", "RepoTags": ["marsmith:test"], "Layers": names}]
    members = {"manifest.json": json.dumps(manifest).encode(), f"{sha256(configuration)}.json": configuration}
    return _write(path, members | dict(zip(names, tars, strict=True)))


def oci_members(
    *layers: Files,
    config: Mapping[str, Any] = CONFIG,
    architecture: str = "arm64",
    history: Sequence[str] = (),
) -> dict[str, bytes]:
    """The members of an OCI archive with one image; OCI's format has no health check."""
    tars = [layer(one) for one in layers]
    kept = {name: value for name, value in config.items() if name != "Healthcheck"}
    configuration = _config(tars, kept, architecture, history)
    members: dict[str, bytes] = {}

    def descriptor(data: bytes, kind: str, **more: Any) -> dict[str, Any]:
        members[f"blobs/sha256/{sha256(data)}"] = data
        media_type = f"application/vnd.oci.image.{kind}"
        return {"mediaType": media_type, "digest": f"sha256:{sha256(data)}", "size": len(data), **more}

    manifest = {
        "schemaVersion": 2,
        "config": descriptor(configuration, "config.v1+json"),
        "layers": [descriptor(gzip.compress(one, mtime=0), "layer.v1.tar+gzip") for one in tars],
    }
    platform = {"architecture": architecture, "os": "linux"}
    entry = descriptor(json.dumps(manifest).encode(), "manifest.v1+json", platform=platform)
    members["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [entry]}).encode()
    members["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'
    return members


def oci_archive(path: Path, *layers: Files, **options: Any) -> Path:
    return _write(path, oci_members(*layers, **options))


def oci_index(path: Path, *images: Mapping[str, bytes], attestation: bool = False) -> Path:
    """An OCI archive of several images, as buildx writes it."""
    entries = [entry for one in images for entry in json.loads(one["index.json"])["manifests"]]
    members = {name: data for one in images for name, data in one.items()}
    if attestation:
        entries.append({"digest": "sha256:00", "annotations": {"vnd.docker.reference.type": "attestation-manifest"}})
    return _write(path, members | {"index.json": json.dumps({"manifests": entries}).encode()})
