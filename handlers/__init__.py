"""Marsmith's TorchServe handlers: everything that runs inside a worker.

The package travels inside every archive, so it imports only what a worker has: the standard library, numpy,
onnxruntime, tokenizers and Pillow; never `ts`, `torch`, `transformers` or `marsmith`.
"""
