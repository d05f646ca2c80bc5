from pathlib import Path

import pytest
from PIL import Image

from tests.training.food.commands import succeed
from training.errors import TrainingError
from training.food.grocery import convert, read_labels, read_split

RED, BLUE = (200, 10, 20), (0, 40, 250)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two fine apples of one coarse class with files of one name, one sour cream; ids out of order in classes.csv."""
    folder = tmp_path / "dataset"
    folder.mkdir()
    (folder / "classes.csv").write_text(
        "Class Name (str),Class ID (int),Coarse Class Name (str),Coarse Class ID (int)\n"
        "Arla-Sour-Cream,2,Sour-Cream,1\nPink-Lady,0,Apple,0\nRoyal-Gala,1,Apple,0\n",
        encoding="utf-8",
    )
    (folder / "train.txt").write_text(
        "train/Fruit/Gala/a.png, 1, 0\ntrain/Fruit/Pink/a.png, 0, 0\ntrain/Packages/cream.png, 2, 1\n",
        encoding="utf-8",
    )
    for name in ("Fruit/Gala", "Fruit/Pink", "Packages"):
        (folder / "train" / name).mkdir(parents=True)
    Image.new("RGB", (30, 50), RED).save(folder / "train/Fruit/Gala/a.png")
    Image.new("RGB", (30, 50), BLUE).save(folder / "train/Fruit/Pink/a.png")
    Image.new("RGBA", (64, 16), (*BLUE, 255)).save(folder / "train/Packages/cream.png")
    return folder


def test_labels_are_the_coarse_names_in_id_order(folder: Path) -> None:
    assert read_labels(folder) == ["Apple", "Sour-Cream"]


def test_a_split_lists_photos_with_their_coarse_class(folder: Path) -> None:
    assert read_split(folder, "train")[1:] == [
        (folder / "train/Fruit/Pink/a.png", 0),
        (folder / "train/Packages/cream.png", 1),
    ]


def test_photos_are_copied_into_a_folder_for_each_coarse_class(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert succeed("convert-grocery", folder, out) == "3 train\n"
    found = {path.relative_to(out).as_posix() for path in out.rglob("*.png")}
    assert found == {
        "train/Apple/Fruit_Gala_a.png",
        "train/Apple/Fruit_Pink_a.png",
        "train/Sour-Cream/Packages_cream.png",
    }
    copied = (out / "train/Apple/Fruit_Gala_a.png").read_bytes()
    assert copied == (folder / "train/Fruit/Gala/a.png").read_bytes()


@pytest.mark.parametrize(("png", "suffix"), [(True, ".png"), (False, ".jpg")])
def test_photos_may_be_squashed(folder: Path, tmp_path: Path, png: bool, suffix: str) -> None:
    convert(folder, tmp_path / "out", 8, png=png)
    with Image.open(tmp_path / f"out/train/Sour-Cream/Packages_cream{suffix}") as photo:
        assert (photo.size, photo.mode) == ((8, 8), "RGB")
        pixel = photo.getpixel((4, 4))
    assert isinstance(pixel, tuple)
    assert all(abs(found - wanted) <= 2 * (not png) for found, wanted in zip(pixel, BLUE, strict=True))


def test_a_fault_on_the_way_leaves_nothing(folder: Path, tmp_path: Path) -> None:
    (folder / "train/Packages/cream.png").unlink()
    with pytest.raises(FileNotFoundError):
        convert(folder, tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dataset"]


def test_another_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="is not GroceryStore's dataset folder"):
        convert(tmp_path, tmp_path / "out")
    (tmp_path / "there").mkdir()
    with pytest.raises(TrainingError, match="exists: name a folder that does not"):
        convert(tmp_path, tmp_path / "there")
