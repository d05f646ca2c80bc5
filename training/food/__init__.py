"""Distil an image classifier: fine-tune a teacher, teach a small student to answer as it does, score both.

`python -m training.food COMMAND`, or `torchrun --nproc-per-node N -m training.food distil ...` for N processes.
"""
