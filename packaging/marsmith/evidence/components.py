"""What all bills of materials have in common: CycloneDX 1.6 in JSON, and licences by their SPDX names.

https://cyclonedx.org/docs/1.6/json/. Nothing here depends on the clock, the machine or the directory.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Protocol
from uuid import UUID, uuid5

from cyclonedx.model.bom import Bom
from cyclonedx.model.license import DisjunctiveLicense, License, LicenseAcknowledgement, LicenseExpression
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from cyclonedx.spdx import is_supported_id
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from marsmith.ground.serving import dump_json

SCHEMA = SchemaVersion.V1_6
# A random UUID of our own: a bill's serial number is the UUIDv5 of its content in this namespace.
SERIAL_NUMBERS = UUID("0f05bbdf-5b1e-4e5a-a9ed-f72e30ecdb22")
# The licence classifiers of PyPI that mean exactly one SPDX licence, by PEP 639's appendix; "Apache" and "BSD" do not.
CLEAR_CLASSIFIERS = {
    "License :: OSI Approved :: ISC License (ISCL)": "ISC",
    "License :: OSI Approved :: MIT License": "MIT",
    "License :: OSI Approved :: Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}


class Metadata(Protocol):
    """A distribution's METADATA, as importlib.metadata and the email package read it."""

    def get_all(self, name: str, failobj: Any = None) -> Any:
        """The values of a field."""


def declared_licences(metadata: Metadata) -> list[License]:
    """The licence that a distribution's metadata declare; nothing where they are not clear."""
    classifiers = [line for line in metadata.get_all("Classifier", []) if line.startswith("License ::")]
    # Of several classifiers nobody knows whether all apply, or one of them (PEP 639).
    clear = [CLEAR_CLASSIFIERS[line] for line in classifiers if len(classifiers) == 1 and line in CLEAR_CLASSIFIERS]
    for text in (*metadata.get_all("License-Expression", []), *metadata.get_all("License", []), *clear):
        with suppress(InvalidLicenseExpression):
            return [licence(canonicalize_license_expression(text))]
    return []


def licence(expression: str) -> License:
    """A licence as it was declared: an SPDX id, or an expression."""
    acknowledgement = LicenseAcknowledgement.DECLARED
    if is_supported_id(expression):
        return DisjunctiveLicense(id=expression, acknowledgement=acknowledgement)
    return LicenseExpression(expression, acknowledgement=acknowledgement)


def write_bill(bom: Bom) -> bytes:
    """The bill as JSON that keeps to its schema. Raises ValueError, which says where it would not."""
    from cyclonedx.validation.json import JsonStrictValidator  # seconds, for its grammar of addresses

    document = json.loads(make_outputter(bom, OutputFormat.JSON, SCHEMA).output_as_string())
    # The library puts the clock and chance here.
    del document["metadata"]["timestamp"]
    del document["serialNumber"]
    content = json.dumps(document, sort_keys=True)
    document["serialNumber"] = uuid5(SERIAL_NUMBERS, content).urn
    text = dump_json(document)
    fault = JsonStrictValidator(SCHEMA).validate_str(text.decode("utf-8"))
    if fault is not None:
        raise ValueError(str(fault).splitlines()[0])
    return text
