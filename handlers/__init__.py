"""Marsmith's TorchServe handlers: everything that runs inside a worker.

The package travels inside every archive, so it imports only what a worker has: the standard library, numpy,
onnxruntime, tokenizers and Pillow; never `ts`, `torch`, `transformers` or `marsmith`.
"""

import os

# ONNX Runtime's newer packages report what is run to their maker, and leave an identifier in the home, unless this
# is set before they are imported.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
