"""Content-Type headers, and what a body of each media type is.

| media type                                               | the body is                                        |
|----------------------------------------------------------|----------------------------------------------------|
| application/json, text/json, anything ending in +json    | JSON                                               |
| application/jsonlines, application/x-ndjson and the like | JSON lines                                         |
| multipart/form-data, application/x-www-form-urlencoded   | a form                                             |
| none, application/octet-stream, binary/octet-stream      | what the model reads, or JSON that looks like it   |
| any other                                                | for the model's `decode` to read or to refuse      |
"""

from __future__ import annotations

import re
from email.message import Message

OCTETS = "application/octet-stream"
# No type, and the types that say nothing. The last is what Amazon S3 gives objects without a type.
UNTYPED = ("", OCTETS, "binary/octet-stream")
MULTIPART, URLENCODED = "multipart/form-data", "application/x-www-form-urlencoded"
FORMS = (MULTIPART, URLENCODED)
JSON = re.compile(r"(application|text)/(x-)?json|[^/]+/[^/]+\+json")
# jsonlines.org, ndjson.org and SageMaker spell it differently.
JSON_LINES = re.compile(r"(application|text)/(x-)?(jsonl|json-?lines|ndjson|ldjson)")
# Tables, of which each line would be an instance: to read one as a single text would be wrong without a word.
TABLES = ("text/csv", "text/tab-separated-values")
# Longer than any real header; Python's parser of parameters takes quadratic time.
MAX_HEADER_CHARACTERS = 10_000
UNREADABLE_CHARSET = "unreadable"
# A text that begins like this is JSON that lost its Content-Type.
LIKE_JSON = re.compile(rb'(\xef\xbb\xbf)?\s*(\{\s*"|\[\s*[{"])')


def content_type(header: str) -> tuple[str, str]:
    """The media type in lower case, empty for none, and the charset of a Content-Type header."""
    if not header:
        return "", "utf-8"
    message = Message()
    message["content-type"] = header if len(header) <= MAX_HEADER_CHARACTERS else OCTETS
    try:
        charset = message.get_content_charset("utf-8")
    except (LookupError, TypeError, ValueError):  # `charset*0=a; charset*=b` and other parameters of RFC 2231
        charset = UNREADABLE_CHARSET
    return message.get_content_type(), charset


def is_json(media_type: str) -> bool:
    """Whether a body of this type is one JSON value."""
    return JSON.fullmatch(media_type) is not None


def is_json_lines(media_type: str) -> bool:
    """Whether each line of a body of this type is a JSON value."""
    return JSON_LINES.fullmatch(media_type) is not None


def is_text(media_type: str) -> bool:
    """Whether a body of this type is one text."""
    return media_type.startswith("text/") and media_type not in TABLES


def looks_like_json(body: bytes | bytearray) -> bool:
    """Whether a body of no declared type was plainly meant as a JSON object, or a list of objects or strings."""
    return LIKE_JSON.match(body) is not None
