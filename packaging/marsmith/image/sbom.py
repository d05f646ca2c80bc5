"""What is in an image and under which licences: its Debian and Python packages and its models, as CycloneDX 1.6."""

from __future__ import annotations

from email.message import Message
from importlib.metadata import version

from cyclonedx.model import Property
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.tool import ToolRepository
from packageurl import PackageURL

from marsmith.errors import ImageError
from marsmith.evidence.components import declared_licences, write_bill
from marsmith.image import plan
from marsmith.image.archive import Image
from marsmith.image.packages import PythonPackage, debian_packages, os_release, python_packages
from marsmith.image.tree import Tree

IMAGE_REF = "image"


def image_sbom(image: Image, tree: Tree, name: str) -> bytes:
    """The bill of materials of an image of that name. Raises ImageError for what CycloneDX cannot say."""
    release = os_release(tree)
    components = {str(one.bom_ref.value): one for one in map(_python, python_packages(tree))}
    for fields in debian_packages(tree):
        one = _debian(fields, release)
        components[str(one.bom_ref.value)] = one
    components |= {path: _model(path) for path in tree.files if path.startswith(f"{plan.STORE}/")}
    whole = Component(
        type=ComponentType.CONTAINER,
        name=name,
        version=image.digest,
        bom_ref=IMAGE_REF,
        properties=[Property(name="marsmith:architecture", value=image.architecture)],
    )
    tool = Component(type=ComponentType.APPLICATION, name="marsmith", version=version("marsmith"), bom_ref="marsmith")
    bom = Bom(
        metadata=BomMetaData(component=whole, tools=ToolRepository(components=[tool])), components=components.values()
    )
    bom.register_dependency(whole, components.values())
    try:
        return write_bill(bom)
    except ValueError as error:
        raise ImageError(f"The image's bill of materials would not be CycloneDX: {error}.") from None


def _python(package: PythonPackage) -> Component:
    purl = PackageURL("pypi", name=package.name, version=package.version)
    return Component(
        type=ComponentType.LIBRARY,
        name=package.name,
        version=package.version,
        purl=purl,
        bom_ref=purl.to_string(),
        licenses=declared_licences(package.metadata),
    )


def _debian(fields: Message, release: dict[str, str]) -> Component:
    system, number = release.get("ID", "debian"), release.get("VERSION_ID")
    qualifiers = {"arch": str(fields["Architecture"])} | ({"distro": f"{system}-{number}"} if number else {})
    purl = PackageURL(
        "deb", namespace=system, name=str(fields["Package"]), version=str(fields["Version"]), qualifiers=qualifiers
    )
    return Component(
        type=ComponentType.LIBRARY,
        name=str(fields["Package"]),
        version=str(fields["Version"]),
        purl=purl,
        bom_ref=purl.to_string(),
    )


def _model(path: str) -> Component:
    name = path.rpartition("/")[2]
    return Component(type=ComponentType.MACHINE_LEARNING_MODEL, name=name, bom_ref=path)
