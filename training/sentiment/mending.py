"""Undo what the files of SemEval-2017 did to their tweets."""

import re


def mended(text: str) -> str:
    r"""Undo \u2019 escapes, &amp; and the CSV quoting (`"\""so\"" he said"`) that SemEval's files carry."""
    if len(text) > 1 and text[0] == text[-1] == '"':
        text = text[1:-1]
    text = re.sub(r"\\u([0-9a-f]{4})", lambda match: chr(int(match[1], 16)), text)
    text = re.sub(r'\\+"+|"{2,}', '"', text)
    return text.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
