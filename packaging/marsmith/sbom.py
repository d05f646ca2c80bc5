"""MAR-INF/sbom.cdx.json: what is in an archive and under which licences, as a CycloneDX 1.6 bill of materials.

https://cyclonedx.org/docs/1.6/json/. Nothing here depends on the clock, the machine or the directory.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, metadata, version
from uuid import UUID, uuid5

from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType, Pedigree
from cyclonedx.model.license import DisjunctiveLicense, License, LicenseAcknowledgement, LicenseExpression
from cyclonedx.model.tool import ToolRepository
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.spdx import is_supported_id
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from marsmith.checkpoint import Checkpoint
from marsmith.errors import ArchiveError
from marsmith.provenance import origin
from marsmith.recipe import Recipe
from marsmith.serving import dump_json

SCHEMA = SchemaVersion.V1_6
# A random UUID of our own: a bill's serial number is the UUIDv5 of its content in this namespace.
SERIAL_NUMBERS = UUID("0f05bbdf-5b1e-4e5a-a9ed-f72e30ecdb22")
# The licence classifiers of PyPI that mean exactly one SPDX licence, by PEP 639's appendix; "Apache" and "BSD" do not.
CLEAR_CLASSIFIERS = {
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


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
    return _document(bom)


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
        licenses=[_licence(recipe.license)] if recipe.license else [],
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
    if declared["Version"] != release:
        return []
    classifiers = [line for line in declared.get_all("Classifier", []) if line.startswith("License ::")]
    # Of several classifiers nobody knows whether all apply, or one of them (PEP 639).
    clear = [CLEAR_CLASSIFIERS[line] for line in classifiers if len(classifiers) == 1 and line in CLEAR_CLASSIFIERS]
    for text in (*declared.get_all("License-Expression", []), *declared.get_all("License", []), *clear):
        with suppress(InvalidLicenseExpression):
            return [_licence(canonicalize_license_expression(text))]
    return []


def _licence(expression: str) -> License:
    acknowledgement = LicenseAcknowledgement.DECLARED
    if is_supported_id(expression):
        return DisjunctiveLicense(id=expression, acknowledgement=acknowledgement)
    return LicenseExpression(expression, acknowledgement=acknowledgement)


def _document(bom: Bom) -> bytes:
    """The bill as JSON that keeps to its schema. Raises ArchiveError."""
    document = json.loads(make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string())
    # The library puts the clock and chance here.
    del document["metadata"]["timestamp"]
    del document["serialNumber"]
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = uuid5(SERIAL_NUMBERS, content).urn
    text = dump_json(document)
    fault = JsonStrictValidator(SCHEMA).validate_str(text.decode("utf-8"))
    if fault is not None:
        reason = str(fault).splitlines()[0]
        raise ArchiveError(f"The archive's bill of materials would not be CycloneDX: {reason}. Change what it names.")
    return text
