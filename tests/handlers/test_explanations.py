"""/explanations: token attributions and saliency maps, in TorchServe's worker."""

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from handlers.food import FoodHandler
from handlers.sentiment import SentimentHandler
from tests.handlers.shouter import Shouter, make_root, text
from tests.handlers.transformers_reference import Reference
from tests.handlers.worker import Answer, Part, Post, Worker
from tests.tiny import DISHES, IMAGE_SIDE, MAX_TOKENS, SENTIMENTS

TOLERANCE = 1e-4
RUNS = {"handler": {"explain_runs": 40}}
TEXTS = (
    "ok",
    "what a great day at the beach with @user",
    "no \U0001f600\U0001f44d\U0001f3fd \u0e2d\u0e23 \u6211",
    "</s> [SEP] <pad> [MASK]",
    "so tired of this coffee " * 40,
)


@pytest.fixture(params=["bert", "roberta"])
def model(references: dict[str, Reference], request: pytest.FixtureRequest) -> Reference:
    """pytorch/serve#934: stock handlers explain BERT alone."""
    return references[request.param]


@pytest.fixture
def worker(model: Reference) -> Worker:
    return Worker(SentimentHandler(), model.root, RUNS)


def explained(worker: Worker, *posts: Post) -> list[Any]:
    answers = worker.predict(*posts)
    assert [answer.status for answer in answers] == [200] * len(posts)
    return [answer.value for answer in answers]


def spelled(value: Any) -> str:
    """The explained tokens as one word."""
    return "".join(token["text"] for token in value["explanation"]["tokens"]).replace(" ", "")


def ask(value: object) -> Post:
    post = Post.json(value)
    return Post(post.body, post.content_type, explain=True)


@pytest.mark.parametrize("words", TEXTS)
def test_attributions_add_up_to_the_difference_that_transformers_sees(
    worker: Worker, model: Reference, words: str
) -> None:
    (value,) = explained(worker, ask(words))
    ids = model.ids(words)
    masked = [ids[0], *[model.tokenizer.mask_token_id] * (len(ids) - 2), ids[-1]]
    with torch.inference_mode():
        whole, baseline = (model.model(input_ids=torch.tensor([some])).logits[0].numpy() for some in (ids, masked))
    explanation = value["explanation"]
    assert list(explanation["logits"].values()) == pytest.approx(sorted(whole, reverse=True), abs=TOLERANCE)
    for index, label in enumerate(SENTIMENTS):
        added = sum(token["attributions"][label] for token in explanation["tokens"])
        assert explanation["baseline_logits"][label] == pytest.approx(baseline[index], abs=TOLERANCE)
        assert added == pytest.approx(whole[index] - baseline[index], abs=TOLERANCE)
    assert value["prediction"]["scores"] == pytest.approx(model.scores(words), abs=TOLERANCE)


def test_the_tokens_are_the_text_in_order(worker: Worker, model: Reference) -> None:
    (value,) = explained(worker, ask(TEXTS[2]))
    assert spelled(value) == TEXTS[2].replace(" ", "")
    assert all(token["text"] for token in value["explanation"]["tokens"]), "a character of several tokens is one part"


def test_one_token_is_all_that_matters_where_it_is_all_that_is_there(worker: Worker) -> None:
    (value,) = explained(worker, ask("ok"))
    tokens = value["explanation"]["tokens"]
    difference = value["explanation"]["logits"]["neutral"] - value["explanation"]["baseline_logits"]["neutral"]
    assert sum(token["attributions"]["neutral"] for token in tokens) == pytest.approx(difference, abs=1e-9)


def test_a_long_text_has_fewer_parts_and_no_more_runs(worker: Worker) -> None:
    long, short = (value["explanation"] for value in explained(worker, ask(TEXTS[-1]), ask(TEXTS[1])))
    assert max(long["runs"], short["runs"]) <= 40
    assert len(long["tokens"]) <= 20 < MAX_TOKENS - 2


def test_windows_are_explained_together(model: Reference) -> None:
    worker = Worker(SentimentHandler(), model.root, {"handler": {"explain_runs": 300, "long_text": "window"}})
    (value,) = explained(worker, ask(TEXTS[-1]))
    explanation = value["explanation"]
    assert value["prediction"]["windows"] > 1
    assert explanation["runs"] <= 300
    assert spelled(value) == TEXTS[-1].replace(" ", "")
    for label in SENTIMENTS:
        difference = explanation["logits"][label] - explanation["baseline_logits"][label]
        assert sum(token["attributions"][label] for token in explanation["tokens"]) == pytest.approx(difference)


def test_a_batch_holds_explanations_predictions_and_refusals(worker: Worker) -> None:
    texts = ["a great day", "no"]
    alone = [explained(worker, ask(one))[0] for one in texts]
    plain, first, junk, many, last = worker.predict(
        text("a great day"),
        ask(texts[0]),
        Post(b"\xff\xfe", "text/plain", explain=True),
        ask({"instances": [texts[1], "", 5]}),
        ask(texts[1]),
    )
    assert [answer.status for answer in (plain, first, junk, many, last)] == [200, 200, 400, 200, 200]
    assert "explanation" not in plain.value
    assert (first.value, last.value) == (alone[0], alone[1])
    good, *bad = many.value["predictions"]
    assert good == alone[1]
    assert [one["error"]["code"] for one in bad] == [422, 422]


@pytest.mark.parametrize("name", ["EXPLAIN", "Explain"])
def test_a_clients_own_header_explains_nothing(worker: Worker, name: str) -> None:
    """TorchServe adds its own spelling beside it."""
    (answer,) = worker.predict(Post(b"a great day", "True", header=name))
    assert answer.status == 200
    assert set(answer.value) == {"label", "score", "scores", "tokens", "truncated"}


def test_a_space_at_the_end_is_no_part_of_its_own(worker: Worker) -> None:
    (value,) = explained(worker, ask("great day "))
    assert all(token["text"] for token in value["explanation"]["tokens"])


def test_an_archive_without_explanations_says_so(model: Reference) -> None:
    worker = Worker(SentimentHandler(), model.root)
    explanation, prediction = worker.predict(ask("a great day"), Post.json("a great day"))
    assert (explanation.status, explanation.error["type"]) == (501, "not_supported")
    assert "explain = true" in explanation.error["message"]
    assert prediction.status == 200


def test_a_handler_that_explains_nothing_says_so(tmp_path: Path) -> None:
    (answer,) = Worker(Shouter(), make_root(tmp_path, explain_runs=5)).predict(ask("good"))
    assert (answer.status, answer.error["type"]) == (501, "not_supported")


def test_an_explanation_that_fails_hurts_nobody_else(tmp_path: Path) -> None:
    class Explainer(Shouter):
        def explain(self, instance: str) -> object:
            if "bad" in instance:
                raise KeyError(instance)
            return {"score": np.float32(0.5), "why": instance} if "nan" not in instance else float("nan")

    worker = Worker(Explainer(), make_root(tmp_path, explain_runs=5))
    answers = worker.predict(ask("good"), ask("bad"), ask("nan"), text("good"))
    assert [answer.status for answer in answers] == [200, 500, 500, 200]
    assert answers[0].value == {"score": 0.5, "why": "good"}
    assert answers[3].value == {"shout": "GOOD"}


def test_what_no_time_is_left_for_is_overloaded(model: Reference) -> None:
    handler = SentimentHandler()
    worker = Worker(handler, model.root, RUNS)
    handler.begin_seconds = 0
    (answer,) = worker.predict(ask("a great day"))
    assert (answer.status, answer.error["type"]) == (503, "overloaded")


# Food


@pytest.fixture(scope="module")
def food(image_root: Path) -> tuple[FoodHandler, Worker]:
    handler = FoodHandler()
    return handler, Worker(handler, image_root, RUNS)


def photo(seed: int = 1, size: tuple[int, int] = (50, 40), **post: Any) -> Post:
    pixels = np.random.default_rng(seed).integers(0, 256, (4, 5, 3), np.uint8)
    stream = io.BytesIO()
    Image.fromarray(pixels).resize(size).save(stream, "PNG")
    return Post(stream.getvalue(), "image/png", **post)


def overlay(answer: Answer) -> Image.Image:
    header, _, data = answer.value["explanation"]["overlay"].partition(",")
    assert header == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(data, validate=True)))


def test_a_saliency_map_adds_up_and_is_drawn(food: tuple[FoodHandler, Worker]) -> None:
    handler, worker = food
    answer, prediction = worker.predict(photo(explain=True), photo())
    value, explanation = answer.value, answer.value["explanation"]
    assert answer.status == 200
    assert value["prediction"] == prediction.value
    assert explanation["label"] == prediction.value["dishes"][0]["label"]
    grid = np.array(explanation["attributions"])
    assert grid.shape == (4, 4), "as many cells as 40 runs allow"
    assert grid.sum() == pytest.approx(explanation["logit"] - explanation["baseline_logit"], abs=TOLERANCE)
    grey = np.full((IMAGE_SIDE, IMAGE_SIDE, 3), 128, np.uint8)
    (baseline,) = handler.logits([grey])
    assert explanation["baseline_logit"] == pytest.approx(baseline[DISHES.index(explanation["label"])], abs=TOLERANCE)
    image = overlay(answer)
    assert (image.format, image.mode, image.size) == ("PNG", "RGB", (IMAGE_SIDE, IMAGE_SIDE))


def test_images_of_a_batch_are_explained_apart(food: tuple[FoodHandler, Worker]) -> None:
    _, worker = food
    posts = [photo(1, explain=True), Post(b"GIF89a", "image/gif", explain=True), photo(2, (31, 90), explain=True)]
    first, junk, last = worker.predict(*posts)
    assert (first.status, junk.status, last.status) == (200, 400, 200)
    assert first.value == worker.predict(posts[0])[0].value
    assert last.value == worker.predict(posts[2])[0].value
    assert first.value["explanation"]["attributions"] != last.value["explanation"]["attributions"]


def test_several_fields_of_a_form_are_explained_each(food: tuple[FoodHandler, Worker]) -> None:
    _, worker = food
    parts = (Part("a", photo().body, "image/png"), Part("b", b"junk", "image/png"))
    form = Post.form(*parts)
    (answer,) = worker.predict(Post(parts=form.parts, content_type=form.content_type, explain=True))
    good, bad = answer.value
    assert "overlay" in good["explanation"]
    assert bad["error"]["code"] == 400
