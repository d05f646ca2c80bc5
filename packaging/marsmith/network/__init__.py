"""Checkpoint -> network: exported, packed, quantised, compared. Only here are torch, transformers or onnx imported."""
