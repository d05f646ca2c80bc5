"""Handlers in TorchServe's worker, and archives of tiny checkpoints, built once for the whole run."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from tests import tiny
from tests.handlers.shouter import Shouter, make_root
from tests.handlers.transformers_reference import Reference
from tests.handlers.worker import Worker
from tests.tiers import builds

NUTRITION = """label,food,energy_kcal,protein_g,serving_g,source,source_id
ramen,"Soup, ramen",63,3.5,240,USDA,1
姓名,unknown dish,12.5,,,test,2
"""


@pytest.fixture(scope="session", autouse=True)
def _quiet_neighbour() -> Iterator[None]:
    """Nothing here asks the Hugging Face hub, and torch's threads do not fight over busy cores."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def text_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """By model type."""
    root = tmp_path_factory.mktemp("checkpoints")
    return {
        "bert": tiny.sentiment_checkpoint(root / "bert", "bert"),
        "roberta": tiny.sentiment_checkpoint(root / "roberta", "roberta"),
    }


@pytest.fixture(scope="session")
def image_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.food_checkpoint(tmp_path_factory.mktemp("food"))


@pytest.fixture(scope="session")
@builds
def text_roots(text_checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Unpacked archives by model type; the RoBERTa one normalises tweets."""
    out = tmp_path_factory.mktemp("text-archives")
    recipes = {
        name: tiny.write_recipe(path, name=name, normalise="tweet" if name == "roberta" else "none")
        for name, path in text_checkpoints.items()
    }
    return {name: unpacked(recipe, out) for name, recipe in recipes.items()}


@pytest.fixture(scope="session")
def references(text_checkpoints: dict[str, Path], text_roots: dict[str, Path]) -> dict[str, Reference]:
    """Workers with what transformers answers in their place, by model type."""
    return {name: Reference(text_checkpoints[name], root) for name, root in text_roots.items()}


@pytest.fixture(params=["bert", "roberta"])
def reference(references: dict[str, Reference], request: pytest.FixtureRequest) -> Reference:
    found: Reference = references[request.param]
    return found


@pytest.fixture(scope="session")
@builds
def image_root(image_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked archive with a nutrition table."""
    (image_checkpoint / "nutrition.csv").write_text(NUTRITION, encoding="utf-8")
    recipe = tiny.write_recipe(image_checkpoint, name="food", task="food", nutrition="nutrition.csv", top_k=3)
    return unpacked(recipe, tmp_path_factory.mktemp("image-archive"))


@pytest.fixture
def handler() -> Shouter:
    return Shouter()


@pytest.fixture
def worker(handler: Shouter, tmp_path: Path) -> Worker:
    return Worker(handler, make_root(tmp_path))


def unpacked(recipe: Path, out: Path) -> Path:
    from marsmith.builder import build
    from marsmith.mar.reader import extract_archive

    root = out / f"{recipe.parent.name}-root"
    extract_archive(build(recipe, out).path, root)
    return root
