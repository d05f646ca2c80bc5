"""The food handler, from the wire to the wire, against transformers."""

import base64
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from transformers import AutoImageProcessor, AutoModelForImageClassification

from handlers.food import FoodHandler
from tests.handlers.pictures import encode
from tests.handlers.worker import Part, Post, Worker
from tests.tiny import DISHES

RAMEN = {
    "food": "Soup, ramen",
    "per_100g": {"energy_kcal": 63.0, "protein_g": 3.5},
    "serving_g": 240.0,
    "per_serving": {"energy_kcal": 151.2, "protein_g": 8.4},
    "source": "USDA",
    "source_id": "1",
    "licence": None,
}
UNKNOWN_DISH = {
    "food": "unknown dish",
    "per_100g": {"energy_kcal": 12.5},
    "serving_g": None,
    "per_serving": None,
    "source": "test",
    "source_id": "2",
    "licence": None,
}
NUTRITION = {"ramen": RAMEN, "apple pie": None, "姓名": UNKNOWN_DISH, "sushi": None}


def photo(width: int, height: int, seed: int) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 256, (4, 4, 3), np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.NEAREST)


PHOTOS = [photo(32, 32, 1), photo(64, 48, 2), photo(31, 77, 3), photo(200, 10, 4), photo(5, 5, 5)]


class Reference:
    """What transformers answers to each image alone."""

    def __init__(self, checkpoint: Path) -> None:
        self.processor = AutoImageProcessor.from_pretrained(checkpoint, backend="pil", trust_remote_code=False)
        self.model = AutoModelForImageClassification.from_pretrained(checkpoint, trust_remote_code=False).eval()
        self.known: dict[tuple[object, ...], dict[str, float]] = {}

    def scores(self, image: Image.Image) -> dict[str, float]:
        key = (image.size, image.tobytes())
        if key not in self.known:
            pixels = self.processor(image, return_tensors="pt")["pixel_values"]
            with torch.inference_mode():
                probabilities = torch.softmax(self.model(pixel_values=pixels).logits[0], -1).tolist()
            self.known[key] = dict(zip(DISHES, probabilities, strict=True))
        return self.known[key]

    def best(self, image: Image.Image) -> list[str]:
        scores = self.scores(image)
        return sorted(scores, key=lambda label: -scores[label])


@pytest.fixture(scope="module")
def reference(image_checkpoint: Path) -> Reference:
    return Reference(image_checkpoint)


@pytest.fixture(scope="module")
def worker(image_root: Path) -> Worker:
    """All dishes in every answer: a top_k past their number."""
    return Worker(FoodHandler(), image_root, {"handler": {"top_k": 50, "threads": 1}})


def scores(value: dict[str, list[dict[str, object]]]) -> dict[object, object]:
    return {dish["label"]: dish["score"] for dish in value["dishes"]}


def test_a_batch_is_answered_as_each_photo_alone(worker: Worker, reference: Reference) -> None:
    answers = worker.predict(*(Post(encode(image), "image/png") for image in PHOTOS))
    for image, answer in zip(PHOTOS, answers, strict=True):
        assert answer.status == 200
        assert scores(answer.value) == pytest.approx(reference.scores(image), abs=1e-4)
        assert [dish["label"] for dish in answer.value["dishes"]] == reference.best(image)


def test_the_photos_are_told_apart(reference: Reference) -> None:
    """The tolerance above means something: no two photos' scores are within ten times of it."""
    rows = [np.array(list(reference.scores(image).values())) for image in PHOTOS]
    for place, one in enumerate(rows):
        assert all(abs(one - other).max() > 1e-3 for other in rows[place + 1 :])


def test_eight_images_in_one_request_are_answered_in_order(worker: Worker, reference: Reference) -> None:
    """pytorch/serve#730, pytorch/serve#2853"""
    images = [photo(20 + seed, 30, seed) for seed in range(8)]
    bodies = [{"b64": base64.b64encode(encode(image)).decode()} for image in images]
    plain, kserve = worker.predict(Post.json(bodies), Post.json({"instances": bodies}))
    expected = [pytest.approx(reference.scores(image), abs=1e-4) for image in images]
    assert [scores(element) for element in plain.value] == expected
    assert [scores(element) for element in kserve.value["predictions"]] == expected


@pytest.mark.parametrize("image_batch", [1, 2, 3, 100])
def test_the_image_batch_changes_no_answer(image_root: Path, reference: Reference, image_batch: int) -> None:
    worker = Worker(FoodHandler(), image_root, {"handler": {"image_batch": image_batch, "top_k": 9, "threads": 1}})
    answers = worker.predict(*(Post(encode(image)) for image in PHOTOS))
    assert [scores(answer.value) for answer in answers] == [
        pytest.approx(reference.scores(image), abs=1e-4) for image in PHOTOS
    ]


@pytest.mark.parametrize("top_k", [1, 2, 4, 5, 1000])
def test_top_k_dishes_are_answered_or_all_there_are(image_root: Path, reference: Reference, top_k: int) -> None:
    """pytorch/serve#410: topk past the number of classes"""
    worker = Worker(FoodHandler(), image_root, {"handler": {"top_k": top_k, "threads": 1}})
    (answer,) = worker.predict(Post(encode(PHOTOS[1])))
    assert [dish["label"] for dish in answer.value["dishes"]] == reference.best(PHOTOS[1])[:top_k]


def test_the_recipes_top_k_is_the_default(image_root: Path) -> None:
    (answer,) = Worker(FoodHandler(), image_root).predict(Post(encode(PHOTOS[0])))
    assert len(answer.value["dishes"]) == 3


def test_nutrition_is_null_where_the_table_does_not_know_the_dish(worker: Worker) -> None:
    (answer,) = worker.predict(Post(encode(PHOTOS[0])))
    assert {dish["label"]: dish["nutrition"] for dish in answer.value["dishes"]} == NUTRITION
    assert "姓名".encode() in answer.body


def test_every_way_to_send_a_photo_gets_the_same_answer(worker: Worker, reference: Reference) -> None:
    """pytorch/serve#1019"""
    data = encode(PHOTOS[2])
    text = base64.b64encode(data).decode()
    posts = [
        Post(data),
        Post(data, "image/png"),
        Post(data, "application/octet-stream"),
        Post.form(Part("data", data, "image/png")),
        Post.form(Part("photo", data, "application/octet-stream")),
        Post.json(text),
        Post.json(f"data:image/png;base64,{text}"),
        *(Post.json({key: text}) for key in ("b64", "data", "inputs")),
        Post(f'{{"b64": "{text}"}}'.encode(), "application/json; charset=utf-8"),
    ]
    expected = pytest.approx(reference.scores(PHOTOS[2]), abs=1e-4)
    for answer in worker.predict(*posts):
        assert answer.status == 200
        assert scores(answer.value) == expected


@pytest.mark.parametrize("mode", ["L", "LA", "P", "RGBA", "1", "CMYK", "I;16"])
def test_a_photo_of_any_mode_is_answered(worker: Worker, reference: Reference, mode: str) -> None:
    """pytorch/serve#65, gladiaio/gladia#668"""
    grey = photo(40, 30, 9).convert("L").point(lambda value: 255 if value > 127 else 0)
    image = Image.fromarray(np.asarray(grey).astype(np.uint16) * 257) if mode == "I;16" else grey.convert(mode)
    data = encode(image, "TIFF" if mode == "CMYK" else "PNG")
    (answer,) = worker.predict(Post(data))
    assert scores(answer.value) == pytest.approx(reference.scores(grey.convert("RGB")), abs=1e-4)


def test_a_turned_photo_is_answered_as_the_upright_one(worker: Worker, reference: Reference) -> None:
    """sgl-project/sglang#33464, mistralai/mistral-common#330"""
    exif = Image.Exif()
    exif[0x0112] = 6
    stored = PHOTOS[1].transpose(Image.Transpose.ROTATE_90)
    (answer,) = worker.predict(Post(encode(stored, exif=exif)))
    assert scores(answer.value) == pytest.approx(reference.scores(PHOTOS[1]), abs=1e-4)


def test_bad_photos_fail_alone(worker: Worker, reference: Reference) -> None:
    """pytorch/serve#1230, microsoft/Biodiversity#575, awslabs/multi-model-server#621, pytorch/serve#1120"""
    data = encode(PHOTOS[0])
    answers = worker.predict(
        Post(data),
        Post(b"junk"),
        Post(encode(PHOTOS[1], "JPEG")[:300], "image/jpeg"),
        Post(b"hello", "text/plain"),
        Post(b""),
        Post(encode(Image.new("1", (20_000, 20_000)))),
        Post.json([base64.b64encode(data).decode(), "junk"]),
        Post(data),
    )
    assert [answer.status for answer in answers] == [200, 400, 400, 415, 422, 413, 200, 200]
    expected = pytest.approx(reference.scores(PHOTOS[0]), abs=1e-4)
    good = [answers[0].value, answers[-2].value[0], answers[-1].value]
    assert [scores(value) for value in good] == [expected] * 3
    assert answers[-2].value[1]["error"]["code"] == 400


def test_the_operators_limits_hold(image_root: Path) -> None:
    data = encode(PHOTOS[1])
    limits = {"max_pixels": 64 * 48 - 1, "max_image_bytes": len(data), "threads": 1}
    worker = Worker(FoodHandler(), image_root, {"handler": limits})
    pixels, small, size = worker.predict(Post(data), Post(encode(PHOTOS[4])), Post(data + b"\0"))
    assert (pixels.status, pixels.error["message"]) == (413, f"An image may have at most {64 * 48 - 1} pixels.")
    assert small.status == 200
    assert (size.status, size.error["message"]) == (413, f"One instance may have at most {len(data)} bytes.")


@settings(max_examples=80, deadline=None)
@given(
    post=st.builds(Post, st.binary(max_size=80), st.sampled_from(["", "image/png", "text/plain", "application/json"]))
)
def test_any_bytes_leave_their_neighbours_answers_as_they_are(worker: Worker, reference: Reference, post: Post) -> None:
    """pytorch/serve#1230"""
    first, answer, last = worker.predict(Post(encode(PHOTOS[3])), post, Post(encode(PHOTOS[4])))
    assert answer.status in {400, 415, 422}
    assert answer.error["message"]
    assert scores(first.value) == pytest.approx(reference.scores(PHOTOS[3]), abs=1e-4)
    assert scores(last.value) == pytest.approx(reference.scores(PHOTOS[4]), abs=1e-4)


def test_an_archive_without_a_table_answers_null(image_root: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for file in (image_root / "model").iterdir():
        if file.name != "nutrition.json":
            (model / file.name).write_bytes(file.read_bytes())
    (answer,) = Worker(FoodHandler(), tmp_path).predict(Post(encode(PHOTOS[0])))
    assert [dish["nutrition"] for dish in answer.value["dishes"]] == [None] * 3


def test_a_text_archive_is_refused_at_load(text_roots: dict[str, Path]) -> None:
    with pytest.raises(RuntimeError, match=r"^Model failed to load: serving\.json has no image section"):
        Worker(FoodHandler(), text_roots["bert"])
