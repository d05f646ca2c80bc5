"""What reading an image really costs: processor time and memory, in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from handlers.errors import RequestError
from handlers.headers.examine import examine
from handlers.image import open_image, resize
from handlers.meter import Meter, check_memory
from handlers.settings import ImageSettings, Options
from handlers.work import NANOSECONDS_PER_MS, WORK_MS, Work

MB = 1_000_000
KB = 1024
# As the food starter resizes; half of photos are decoded whole.
SETTINGS = ImageSettings((140, 140), 3, 1 / 255, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
MAX_IMAGE_BYTES = Options().max_image_bytes
OK = 200
ROOT = Path(__file__).parents[2]
# What Python and Pillow load on first use is not the image's.
WARM_UP = b"GIF89a\2\0\2\0\x80\0\0" + bytes(6) + b",\0\0\0\0\2\0\2\0\0\2\3\x0c\x10\5\0;"


@dataclass(frozen=True, slots=True)
class Cost:
    """Status of an image, the seconds of one core that were stated and taken, and the megabytes that it added."""

    status: int
    stated_s: float
    taken_s: float
    grown_mb: float


def status_of(data: bytes) -> int:
    """What counting alone makes of an image: 200, or the status of its refusal."""
    try:
        extent = examine(data, 0, Meter(Work(), Options().max_pixels))
        check_memory(extent.memory if extent else 0)
    except RequestError as error:
        return error.status
    return OK


def largest(make: Callable[[int], bytes], most: int) -> int:
    """The largest amount, up to `most`, whose file is small enough and not refused by counting."""
    low, high = 1, 2
    while high < most and _passes(make(high)):
        low, high = high, 2 * high
    high = min(high, most)
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        low, high = (middle, high) if _passes(make(middle)) else (low, middle)
    return low


def _passes(data: bytes) -> bool:
    return len(data) <= MAX_IMAGE_BYTES and status_of(data) == OK


def cost_of(data: bytes, least_side: int = 0) -> Cost:
    """Decode and resize the image in a new process, as the handler does: this one's memory may lie free."""
    command = [sys.executable, "-m", __name__, str(least_side)]
    ran = subprocess.run(command, input=data, cwd=ROOT, stdout=subprocess.PIPE, check=True)  # noqa: S603 - ourselves
    return Cost(**json.loads(ran.stdout))


def _cost_here(data: bytes, least_side: int) -> Cost:
    _read(WARM_UP, 0, Work())
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before, begin, work = _memory("VmRSS"), time.process_time(), Work()
    status = _read(data, least_side, work)
    taken = time.process_time() - begin
    stated = WORK_MS / 1000 - work.left / (1000 * NANOSECONDS_PER_MS)
    return Cost(status, stated, taken, (_memory("VmHWM") - before) / MB)


def _read(data: bytes, least_side: int, work: Work) -> int:
    try:
        resize(open_image(data, Options().max_pixels, least_side, work=work), SETTINGS, work)
    except RequestError as error:
        return error.status
    return OK


def _memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return KB * next(int(line.split()[1]) for line in lines if line.startswith(name))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(asdict(_cost_here(sys.stdin.buffer.read(), int(sys.argv[1])))))
