"""How much of an archive Marsmith reads: the bounds that keep a hostile or broken one from costing more than a look."""

from __future__ import annotations

# The largest checkpoints that CPU serving sees have some hundred files; more is a mistake or an attack on the reader.
MAX_MEMBERS = 100_000
# The directory that zip files end with: more than 1 KiB for each of those members.
MAX_DIRECTORY_BYTES = 128 << 20
# Uncompressed, so that a small file cannot unpack into a full disk: a 30-billion-parameter network in 16 bits.
MAX_TOTAL_BYTES = 64 << 30
# Code, JSON and requirements that are parsed or searched; a tokenizer is only searched, and only this far.
MAX_TEXT_BYTES = 1 << 20
# Python whose syntax trees lint keeps: the handlers here have 60 KiB.
MAX_PARSED_BYTES = 1 << 20
# YAML parses slowly, and the longest model-config.yaml of TorchServe's own examples has 834 bytes.
MAX_YAML_BYTES = 64 << 10
# Enough for the first record of a file inside a member, which says what kind of file it is.
MAX_HEAD_BYTES = 4 << 10
# Deflate reaches 1032 : 1 on zeros. JSON and code stay below 100 : 1, so past this an archive is made to explode ...
MAX_RATIO = 200
# ... unless all of it is small enough to be harmless.
RATIO_FREE_BYTES = 16 << 20
# What a handler takes of one image (handlers/settings.py, max_image_bytes), so a larger sample is never answered.
MAX_SAMPLE_BYTES = 20_000_000
# What Marsmith reads of an archive's own papers: manifest, serving.json, signature. The longest are some tens of KiB.
MAX_PAPER_BYTES = 4 << 20
# Golden requests hold images, in base64.
MAX_GOLDEN_BYTES = 64 << 20
# The largest file that is sent as one request: config.properties' max_request_size is far below it.
MAX_INPUT_BYTES = 256 << 20
