"""What a TorchServe server has: pip's torchserve, `marsmith serve`, the ARM64 image, and TorchServe's own image.

Read in TorchServe 0.12: what setup.py declares, what ts/model_service_worker.py imports, requirements/common.txt and
requirements/torch_linux.txt, which TorchServe's install script and its image install, and ts/torch_handler.
"""

from __future__ import annotations

# Every worker has these, or it would not start: what it imports itself, and what torchserve declares. (The ARM64 image
# does without torch, and has it by a lock of the user's own.)
WORKER = frozenset({"PIL", "packaging", "psutil", "torch", "ts", "wheel", "yaml"})
# Beside those, what `marsmith serve`, the ARM64 image and TorchServe's image have. Whoever installs torchserve alone
# must add them, and hardly any handler does without numpy.
COMMON = frozenset({"numpy", "requests"})
EVERY_SERVER = WORKER | COMMON
# What only TorchServe's own image and install script bring.
SOME_SERVERS = frozenset({"captum", "model_archiver", "ninja", "pynvml", "torchaudio", "torchtext", "torchvision"})
KNOWN = EVERY_SERVER | SOME_SERVERS

# Which of these modules of TorchServe itself import, by their dotted names.
MODULE_IMPORTS: dict[str, frozenset[str]] = {
    "ts.torch_handler.vision_handler": frozenset({"captum"}),
    "ts.torch_handler.dali_handler": frozenset({"captum"}),
    "ts.torch_handler.dali_image_classifier": frozenset({"captum"}),
    "ts.torch_handler.image_classifier": frozenset({"captum", "torchvision"}),
    "ts.torch_handler.image_segmenter": frozenset({"captum", "torchvision"}),
    "ts.torch_handler.object_detector": frozenset({"captum", "torchvision"}),
    "ts.torch_handler.text_handler": frozenset({"captum"}),
    "ts.torch_handler.text_classifier": frozenset({"captum"}),
}
HANDLERS = "ts.torch_handler"
