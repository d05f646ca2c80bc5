"""Whether int8 products are exact on this CPU: as Marsmith quantises, and with weights of the full range.

Prints a JSON object: {"marsmith": bool, "full range": bool}.
"""

import json
import tempfile
from pathlib import Path

import numpy as np

from marsmith.network import int8
from tests.packaging.products import in_int8, product, run

# Each pair of neighbours in a group of four channels, in a column of its own.
CHANNELS = 8
PAIRS = [(one, one + 1) for one in range(CHANNELS - 1)]
UNLIMITED = 2 * int8.LARGEST_WEIGHT


def exact(limit: int) -> bool:
    """Whether sums of two largest products are right, where two weights may be so large together."""
    int8.LARGEST_PAIR = limit
    weights = np.zeros((CHANNELS, len(PAIRS)), np.float32)
    for column, pair in enumerate(PAIRS):
        weights[list(pair), column] = 1
    with tempfile.TemporaryDirectory() as scratch:
        got = run(in_int8(product(Path(scratch, "graph"), weights)), np.ones((1, 3, CHANNELS)))
    content, scales = int8.quantised(weights)
    return bool(np.allclose(got, content.sum(axis=0, dtype=np.int64) * scales, rtol=1e-6))


if __name__ == "__main__":
    print(json.dumps({"marsmith": exact(int8.LARGEST_PAIR), "full range": exact(UNLIMITED)}))  # noqa: T201
