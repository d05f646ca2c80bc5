"""The arrays that the handlers pass to each other."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Uint8Array = npt.NDArray[np.uint8]
Float32Array = npt.NDArray[np.float32]
