"""Hostile requests and good ones between them, sent to a real TorchServe worker; see `python -m benchmarks.hostile`."""
