"""The one door to transformers: a checkpoint's model, tokenizer and image processor, loaded from its directory alone.

No code of a checkpoint is run or asked about, nothing is fetched, and whatever goes wrong in transformers or torch is a
CheckpointError of one sentence.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import constants
from transformers import AutoImageProcessor, AutoTokenizer
from transformers.utils import logging as transformers_logging

from marsmith.errors import CheckpointError, MarsmithError, first_line
from marsmith.ground.untrusted import printable
from marsmith.recipe.checkpoint import Checkpoint
from marsmith.recipe.foreign import refuse_foreign
from marsmith.recipe.weights import PICKLED_WEIGHTS, weight_files

# Marsmith shows its own progress.
transformers_logging.disable_progress_bar()
transformers_logging.set_verbosity_error()


@contextmanager
def guarded(what: str, remedy: str = "") -> Iterator[None]:
    """Turn whatever transformers or torch raise into a CheckpointError that begins with `what`; the hub stays unasked.

    `what` is a clause such as "The tokenizer of X cannot be used", `remedy` a sentence.
    """
    offline = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = True
    try:
        yield
    except (MarsmithError, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # nearly every type; a panic of a Rust library is no Exception
        reason = printable(first_line(error))
        raise CheckpointError(f"{what}: {reason}. {remedy}".rstrip()) from None
    finally:
        constants.HF_HUB_OFFLINE = offline


def load_tokenizer(path: Path) -> Any:
    """The tokenizer of a checkpoint's directory, which the tokenizers library can run. Raises CheckpointError."""
    refuse_foreign(path)
    with guarded(f"The tokenizer of {path} cannot be used", "Save it with the model as tokenizer.json."):
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False, use_fast=True)
        tokenizer.backend_tokenizer.to_str()
    return tokenizer


def load_image_processor(path: Path) -> Any:
    """The image processor of a checkpoint's directory, on Pillow. Raises CheckpointError."""
    refuse_foreign(path)
    with guarded(f"The image processor of {path} cannot be used"):
        return AutoImageProcessor.from_pretrained(path, local_files_only=True, trust_remote_code=False, backend="pil")


def load_model(kind: Any, checkpoint: Checkpoint) -> Any:
    """The checkpoint's model of the class `kind` in fp32, with every weight from it and a label for every logit.

    Raises CheckpointError.
    """
    path = checkpoint.path
    refuse_foreign(path)
    with guarded(f"The model of {path} cannot be loaded"):
        model, info = kind.from_pretrained(
            path,
            dtype=torch.float32,
            local_files_only=True,
            output_loading_info=True,
            return_dict=True,
            trust_remote_code=False,
            use_safetensors=PICKLED_WEIGHTS not in weight_files(path, allow_pickle=True),
            weights_only=True,
        )
        logits = int(model.config.num_labels)
    if info["missing_keys"] or info["mismatched_keys"]:
        names = sorted(str(key) for key in info["missing_keys"] or info["mismatched_keys"])
        raise CheckpointError(
            f"The checkpoint {path} lacks weights ({', '.join(names[:3])}, …), which would be random: "
            "fine-tune it for this task, or name the checkpoint that was."
        )
    if logits != len(checkpoint.labels):
        raise CheckpointError(
            f"The model has {logits} logits, but there are {len(checkpoint.labels)} labels: "
            "name them all in the recipe."
        )
    return model.eval()
