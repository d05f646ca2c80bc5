"""Archives whose handler does one thing wrong, once a batch has neighbours in it."""

from pathlib import Path

from marsmith.mar.members import DIGESTS
from marsmith.mar.writer import write_archive
from tests.packaging.forgery import members, unpacked

ENTRY = """
import json, os, sys, time
from pathlib import Path
from handlers.sentiment import SentimentHandler

real = SentimentHandler()
happened = Path({marker!r})

def first():
    was = happened.exists()
    happened.touch()
    return not was

def handle(data, context):
    if data is None:
        return real.initialize(context)
    answers = real.handle(data, context)
    if len(data) > 1:
{fault}
    return answers

def turned(body):
    value = json.loads(body)
    if "scores" in value:
        labels, scores = list(value["scores"]), list(value["scores"].values())
        value["scores"] = dict(zip(labels, scores[1:] + scores[:1]))
        value["label"] = max(value["scores"], key=value["scores"].get)
    return json.dumps(value).encode()
"""
FAULTS = {
    "dies": "first() and os._exit(3)",
    "hangs": "first() and time.sleep(600)",
    "harms": "answers = [turned(body) for body in answers]",
    "logs": "print(data)",
    "status": "[context.set_response_status(503, 'busy', place) for place in range(len(data))]",
    "one answer less": "answers = answers[1:]",
}


def bad_archive(good: Path, path: Path, fault: str) -> Path:
    """The good archive with this fault of FAULTS in its entry point."""
    files = dict(unpacked(good.read_bytes()))
    del files[DIGESTS]
    lines = " " * 8 + FAULTS[fault]
    entry = ENTRY.replace("{marker!r}", repr(str(path.with_suffix(".happened")))).replace("{fault}", lines)
    write_archive(path, members(files | {"sentiment.py": entry.encode()}))
    return path
