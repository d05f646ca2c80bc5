"""Families of checkpoints: each is exported in its layout, and the handlers answer as transformers does."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import (
    AutoImageProcessor,
    AutoModelForSequenceClassification,
    AutoTokenizer,
    BeitImageProcessorPil,
    ConvNextImageProcessorPil,
    DeiTImageProcessorPil,
    MobileViTImageProcessorPil,
    ViTImageProcessorPil,
)

from handlers.engine import Engine
from handlers.image import least_side, open_image, resize
from handlers.settings import ImageSettings, TextSettings
from handlers.text import TextEncoder, batches
from marsmith import serving
from marsmith.builder import Built, build
from marsmith.checkpoint import TEXT_LAYOUTS, resolve, text_layout
from marsmith.errors import CheckpointError, ExportError
from marsmith.export import GRAPH, Images, export_text, session
from marsmith.network import TOLERANCE, check_parity
from marsmith.processor import image_settings
from marsmith.recipe import Recipe
from marsmith.reference import ImageReference, TextReference
from tests.tiny import (
    IMAGE_SETTINGS,
    IMAGE_SIDE,
    TEXT_SETTINGS,
    food_checkpoint,
    sentiment_checkpoint,
    write_recipe,
)

# Of one token, of several, in scripts that no vocabulary here knows, and longer than the models read.
TEXTS = (
    "ok",
    "what a great day at the beach, thank you!",
    "",
    "i am tired of it " * 12,
    "我 😀 Straße",
    "no, just no.",
)
SAMPLES = [{"text": text} for text in TEXTS if text]
# Small enough that the texts need several batches, some of one text and some of more.
TOKEN_BUDGET = 60
# Logits of different inputs differ by this at least, so that a mixed-up batch is no match by chance.
APART = 1000 * TOLERANCE
SQUARE = {"height": IMAGE_SIDE, "width": IMAGE_SIDE}
LARGER = {"height": IMAGE_SIDE + 4, "width": IMAGE_SIDE + 4}
# Each image family with the processor that its checkpoints have.
IMAGE_FAMILIES: dict[str, dict[str, Any]] = {
    "vit": {},
    "deit": {"model_type": "deit", "kind": DeiTImageProcessorPil, "processor": {"size": LARGER, "crop_size": SQUARE}},
    "deit-distilled": {
        "model_type": "deit",
        "architectures": ["DeiTForImageClassificationWithTeacher"],
        "kind": DeiTImageProcessorPil,
        "processor": {"size": LARGER, "crop_size": SQUARE},
    },
    "beit": {"model_type": "beit", "kind": BeitImageProcessorPil},
    "beit-relative": {
        "model_type": "beit",
        "kind": BeitImageProcessorPil,
        "use_relative_position_bias": True,
        "use_mean_pooling": False,
    },
    "swin": {"model_type": "swin"},
    "swinv2": {"model_type": "swinv2"},
    "convnext": {
        "model_type": "convnext",
        "kind": ConvNextImageProcessorPil,
        "processor": {"size": {"shortest_edge": 32}},
    },
    "convnextv2": {
        "model_type": "convnextv2",
        "kind": ConvNextImageProcessorPil,
        "processor": {"size": {"shortest_edge": 48}, "crop_pct": 0.95},
    },
}


def text_reference(directory: Path) -> TextReference:
    return TextReference(resolve(Recipe.load(write_recipe(directory))), "none")


def answers_of_handlers(reference: TextReference, out: Path) -> np.ndarray:
    """Logits float32[texts, labels] of TEXTS: tokenised, batched and run as the handlers do."""
    reference.export(out)
    (out / "tokenizer.json").write_bytes(reference.preprocessing()["tokenizer.json"])
    settings = TextSettings(**reference.settings.model_dump())
    encoder = TextEncoder(out / "tokenizer.json", settings.normalise, settings.max_tokens)
    engine = Engine(out / GRAPH, threads=1)
    ids = [encoder.encode(text).windows[0] for text in TEXTS]
    parts = list(batches(ids, TOKEN_BUDGET, settings))
    assert 1 < len(parts) < len(TEXTS)
    return np.concatenate([engine.run(batch.feeds()) for _, batch in parts])


def answers_of_transformers(directory: Path) -> np.ndarray:
    """Logits float32[texts, labels] of TEXTS, each alone."""
    tokenizer = AutoTokenizer.from_pretrained(directory)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    with torch.inference_mode():
        logits = [model(**tokenizer(text, truncation=True, return_tensors="pt")).logits.numpy() for text in TEXTS]
    return np.concatenate(logits)


@pytest.mark.parametrize("family", TEXT_SETTINGS)
def test_handlers_answer_texts_as_each_family_does(tmp_path: Path, family: str) -> None:
    reference = text_reference(sentiment_checkpoint(tmp_path, family))
    assert reference.settings.layout == TEXT_LAYOUTS[family]
    expected = answers_of_transformers(tmp_path)
    assert np.ptp(expected, axis=0).min() > APART
    assert abs(answers_of_handlers(reference, tmp_path) - expected).max() < TOLERANCE
    assert check_parity(session(tmp_path / GRAPH), reference.cases()) < TOLERANCE


def test_every_proven_family_is_tested() -> None:
    assert TEXT_SETTINGS.keys() == TEXT_LAYOUTS.keys()


@pytest.mark.parametrize(
    ("family", "labels", "settings"),
    [
        # MiniLM is BERT or XLM-R with narrow layers.
        ("bert", 28, {"hidden_size": 24, "num_hidden_layers": 3, "num_attention_heads": 12, "intermediate_size": 96}),
        # DeBERTa v2 had positions beside distances, without buckets and with projections of their own.
        (
            "deberta-v2",
            2,
            {"position_buckets": -1, "share_att_key": False, "position_biased_input": True, "type_vocab_size": 2},
        ),
    ],
)
def test_variants_of_a_family_with_few_labels_or_many(
    tmp_path: Path, family: str, labels: int, settings: dict[str, Any]
) -> None:
    names = [f"feeling {number}" for number in range(labels)]
    reference = text_reference(sentiment_checkpoint(tmp_path, family, names, **settings))
    assert reference.settings.layout == "packed"
    answers = answers_of_handlers(reference, tmp_path)
    assert answers.shape == (len(TEXTS), labels)
    assert abs(answers - answers_of_transformers(tmp_path)).max() < TOLERANCE


def test_a_family_that_cannot_be_packed_is_found_out(tmp_path: Path) -> None:
    """MPNet counts distances through the whole sequence, so its packed graph would answer wrongly."""
    reference = text_reference(sentiment_checkpoint(tmp_path, "mpnet"))
    packed = reference.settings.model_copy(update={"layout": "packed"})
    export_text(reference.model, "packed", tmp_path)
    reference.settings = packed
    with pytest.raises(ExportError, match=r"Its logits differ from the checkpoint's by \d"):
        check_parity(session(tmp_path / GRAPH), reference.cases())


def agrees(built: Built) -> bool:
    return built.parity is not None and built.parity < TOLERANCE


def test_an_archive_with_a_packed_graph_answers_in_the_real_worker(tmp_path: Path) -> None:
    """The build asks the archive all samples at once, in TorchServe's own worker, and refuses it when one differs."""
    recipe = write_recipe(sentiment_checkpoint(tmp_path, "xlm-roberta"), samples=SAMPLES)
    built = build(recipe, tmp_path / "out")
    assert (built.golden, agrees(built)) == (len(SAMPLES), True)


def test_an_unproven_family_is_padded_and_answers_in_the_real_worker(tmp_path: Path) -> None:
    assert "megatron-bert" not in TEXT_LAYOUTS
    recipe = write_recipe(sentiment_checkpoint(tmp_path, "megatron-bert"), samples=SAMPLES)
    steps: list[str] = []
    built = build(recipe, tmp_path / "out", steps.append)
    assert (built.golden, agrees(built)) == (len(SAMPLES), True)
    assert any("no test covers megatron-bert models: this one is kept only if the export" in step for step in steps)


def test_padding_counts_against_the_budget() -> None:
    settings = TextSettings("none", max_tokens=8, first_position=0, layout="padded", pad_token=9)
    (first, pair), (second, one) = batches([[1], [2, 3, 4], [5]], 6, settings)
    assert (first, second) == (slice(0, 2), slice(2, 3))
    assert pair.feeds()["input_ids"].tolist() == [[1, 9, 9], [2, 3, 4]]
    assert pair.feeds()["attention_mask"].tolist() == [[1, 0, 0], [1, 1, 1]]
    assert one.feeds()["input_ids"].tolist() == [[5]]
    assert {array.dtype for array in pair.feeds().values()} == {np.dtype(np.int64)}


def test_layouts_need_no_known_family() -> None:
    assert text_layout({"model_type": "bert"}) == "packed"
    assert text_layout({"model_type": "longformer"}) == text_layout({}) == "padded"


def test_a_convolution_across_tokens_is_never_packed() -> None:
    assert text_layout({"model_type": "deberta-v2", "conv_kernel_size": 0}) == "packed"
    assert text_layout({"model_type": "deberta-v2", "conv_kernel_size": 3}) == "padded"


def photo(width: int, height: int) -> bytes:
    coarse = np.random.default_rng(width).integers(0, 256, (4, 5, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC).save(stream, "PNG")
    return stream.getvalue()


PHOTOS = (photo(64, 48), photo(50, 90), photo(33, 31), photo(12, 40))


def pixels_of_handlers(settings: ImageSettings) -> np.ndarray:
    least = least_side(settings)
    return np.stack([resize(open_image(data, 10_000_000, least), settings) for data in PHOTOS])


def values_of_handlers(settings: serving.ImageSettings) -> np.ndarray:
    """What the network makes of the handlers' pixels before its first layer."""
    network = Images(Passing(), settings)
    values: np.ndarray = network(torch.from_numpy(pixels_of_handlers(ImageSettings(**settings.model_dump())))).numpy()
    return values


class Passing:
    """Stands for a model: its logits are what it is fed."""

    def __call__(self, pixel_values: torch.Tensor) -> Any:
        return SimpleNamespace(logits=pixel_values)


def values_of_transformers(directory: Path) -> np.ndarray:
    processor = AutoImageProcessor.from_pretrained(directory, backend="pil")
    images = [Image.open(io.BytesIO(data)) for data in PHOTOS]
    return np.stack([processor(images=image, return_tensors="np")["pixel_values"][0] for image in images])


@pytest.mark.parametrize("family", IMAGE_FAMILIES)
def test_handlers_answer_photos_as_each_family_does(tmp_path: Path, family: str) -> None:
    food_checkpoint(tmp_path, **IMAGE_FAMILIES[family])
    reference = ImageReference(resolve(Recipe.load(write_recipe(tmp_path, task="food"))))
    reference.export(tmp_path)
    assert check_parity(session(tmp_path / GRAPH), reference.cases()) < TOLERANCE
    with torch.inference_mode():
        expected = reference.model(pixel_values=torch.from_numpy(values_of_transformers(tmp_path))).logits.numpy()
    assert np.ptp(expected, axis=0).min() > APART
    pixels = pixels_of_handlers(ImageSettings(**reference.settings.model_dump()))
    assert abs(Engine(tmp_path / GRAPH, threads=1).run({"pixels": pixels}) - expected).max() < TOLERANCE


def test_every_image_family_here_is_tested() -> None:
    assert {str(family.get("model_type", "vit")) for family in IMAGE_FAMILIES.values()} == IMAGE_SETTINGS.keys()


def test_an_archive_of_an_image_family_answers_in_the_real_worker(tmp_path: Path) -> None:
    for number, data in enumerate(PHOTOS):
        (tmp_path / f"{number}.png").write_bytes(data)
    samples = [{"image": f"{number}.png"} for number in range(len(PHOTOS))]
    food_checkpoint(tmp_path, **IMAGE_FAMILIES["convnext"])
    built = build(write_recipe(tmp_path, task="food", samples=samples), tmp_path / "out")
    assert (built.golden, agrees(built)) == (len(PHOTOS), True)


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        (ConvNextImageProcessorPil, {"size": {"shortest_edge": 384}}),
        (ConvNextImageProcessorPil, {"size": {"shortest_edge": 224}}),
        (ConvNextImageProcessorPil, {"size": {"shortest_edge": 30}, "crop_pct": 0.9}),
        (BeitImageProcessorPil, {"size": LARGER, "do_center_crop": True, "crop_size": SQUARE}),
        (ViTImageProcessorPil, {"size": SQUARE, "do_normalize": False}),
        (
            ViTImageProcessorPil,
            {"size": SQUARE, "do_rescale": False, "image_mean": [7, 80, 9], "image_std": [1, 2, 30]},
        ),
        (ViTImageProcessorPil, {"size": {"height": 33, "width": 47}, "rescale_factor": 1 / 127.5}),
    ],
)
def test_processors_make_the_same_pixels_on_both_sides(tmp_path: Path, kind: Any, settings: dict[str, Any]) -> None:
    kind(**settings).save_pretrained(tmp_path)
    values = values_of_handlers(image_settings(tmp_path, "full"))
    assert values.dtype == np.float32
    assert abs(values - values_of_transformers(tmp_path)).max() < TOLERANCE


@pytest.mark.parametrize(
    ("kind", "settings", "says"),
    [
        (MobileViTImageProcessorPil, {}, "it turns RGB into BGR"),
        (
            ConvNextImageProcessorPil,
            {"do_center_crop": True, "crop_size": SQUARE, "size": {"shortest_edge": 32}},
            "it crops twice",
        ),
        (ViTImageProcessorPil, {"do_resize": False}, "it does not resize"),
        (ViTImageProcessorPil, {"size": {"shortest_edge": 32}}, "images differ in size"),
        (ViTImageProcessorPil, {"size": {"longest_edge": 32}}, "a fixed size or shortest edge"),
    ],
)
def test_processors_that_the_handlers_do_not_know_are_refused(
    tmp_path: Path, kind: Any, settings: dict[str, Any], says: str
) -> None:
    kind(**settings).save_pretrained(tmp_path)
    with pytest.raises(CheckpointError, match=f"image processor of .* cannot be used: .*{says}"):
        image_settings(tmp_path, "full")
