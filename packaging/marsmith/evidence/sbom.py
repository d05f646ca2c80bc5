"""MAR-INF/sbom.cdx.json: what is in an archive and under which licences, as a CycloneDX 1.6 bill of materials.

https://cyclonedx.org/docs/1.6/json/. Nothing here depends on the clock, the machine or the directory.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, metadata, version

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType, Pedigree
from cyclonedx.model.license import License
from cyclonedx.model.tool import ToolRepository
from packageurl import PackageURL

from marsmith.errors import ArchiveError
from marsmith.evidence.components import declared_licences, licence, write_bill
from marsmith.evidence.provenance import origin
from marsmith.recipe.checkpoint import Checkpoint
from marsmith.recipe.recipe import Recipe


def sbom(recipe: Recipe, checkpoint: Checkpoint | None, requirements: bytes, files: Mapping[str, str]) -> bytes:
    """The bill of materials of the archive of `recipe`, whose task may have no checkpoint.

    `requirements` is the archive's requirements.txt, whose pins are exact; `files` maps the model's members to their
    sha256 in hexadecimal. Raises ArchiveError for what CycloneDX cannot say.
    """
    model = _model(recipe, checkpoint, files)
    packages = [_package(line) for line in requirements.decode("utf-8").split()]
    handlers = Component(
        type=ComponentType.LIBRARY,
        name="handlers",
        version=version("marsmith"),
        bom_ref="handlers",
        licenses=_declared("marsmith", version("marsmith")),
    )
    tool = Component(type=ComponentType.APPLICATION, name="marsmith", version=version("marsmith"), bom_ref="marsmith")
    bom = Bom(
        metadata=BomMetaData(component=model, tools=ToolRepository(components=[tool])),
        components=[handlers, *packages],
    )
    bom.register_dependency(model, [handlers, *packages])
    bom.register_dependency(handlers, packages)
    try:
        return write_bill(bom)
    except ValueError as error:
        raise ArchiveError(
            f"The archive's bill of materials would not be CycloneDX: {error}. Change what it names."
        ) from None


def _model(recipe: Recipe, checkpoint: Checkpoint | None, files: Mapping[str, str]) -> Component:
    hub = origin(checkpoint) if checkpoint else None
    ancestors = [hub] if hub else []
    if recipe.base:
        ancestors.append(PackageURL.from_string(recipe.base))
    properties: dict[str, str] = {"task": recipe.task}
    if checkpoint:
        properties |= {"precision": recipe.precision, "labels": str(len(checkpoint.labels))}
    return Component(
        type=ComponentType.MACHINE_LEARNING_MODEL,
        name=recipe.name,
        version=recipe.version,
        bom_ref="model",
        description=recipe.description,
        licenses=[licence(recipe.license)] if recipe.license else [],
        pedigree=Pedigree(ancestors=map(_ancestor, ancestors)) if ancestors else None,
        properties=[Property(name=f"marsmith:{name}", value=value) for name, value in properties.items()],
        components=[
            Component(
                type=ComponentType.FILE,
                name=name,
                bom_ref=name,
                hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256)],
            )
            for name, sha256 in files.items()
        ],
    )


def _ancestor(purl: PackageURL) -> Component:
    on_hub = purl.type == "huggingface"
    return Component(
        type=ComponentType.MACHINE_LEARNING_MODEL if on_hub else ComponentType.LIBRARY,
        group=purl.namespace,
        name=purl.name,
        version=purl.version,
        purl=purl,
    )


def _package(requirement: str) -> Component:
    name, pin, release = requirement.partition("==")
    if not (name and pin and release):
        raise ArchiveError(f"The requirement {requirement} is not pinned: write it as name==version.")
    purl = PackageURL("pypi", name=name, version=release)
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=release,
        purl=purl,
        bom_ref=purl.to_string(),
        licenses=_declared(name, release),
    )


def _declared(name: str, release: str) -> list[License]:
    """The licence in the metadata of an installed release; nothing where it is not there or not clear."""
    try:
        declared = metadata(name)
    except PackageNotFoundError:
        return []
    return declared_licences(declared) if declared["Version"] == release else []
