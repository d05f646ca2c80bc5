from pathlib import Path

import datasets
import pytest
import torch
from PIL import Image

from training.errors import TrainingError
from training.food.photos import decode, load_photos, need_photos
from training.food.sources import UNLABELLED, open_source


def test_class_folders_are_labels_in_alphabetical_order(data: Path) -> None:
    photos = need_photos(str(data), "train", 16)
    assert photos.classes == ("Apple", "Red Beet", "Sour Cream")
    assert photos.labels.tolist() == [0] * 8 + [1] * 8 + [2] * 8
    assert photos.pixels(torch.arange(24)).shape == (24, 3, 16, 16)
    assert photos.labelled
    assert load_photos(str(data), "val", 16) is not None


def test_a_split_may_have_its_other_names_and_may_be_missing(data: Path) -> None:
    (data / "val").rename(data / "validation")
    assert len(need_photos(str(data), "val", 8)) == 6
    (data / "test").rename(data / "rest")
    assert load_photos(str(data), "test", 8) is None
    with pytest.raises(TrainingError, match="has no test split"):
        need_photos(str(data), "test", 8)


@pytest.mark.parametrize("folder", ["", "train"])
def test_photos_outside_class_folders_are_unlabelled(tmp_path: Path, folder: str) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    for number in range(3):
        Image.new("RGB", (9, 9), (number, 0, 0)).save(tmp_path / folder / f"{number}.png")
    (tmp_path / folder / "notes.txt").write_text("no photo")
    photos = need_photos(str(tmp_path), "train", 4)
    assert photos.labels.tolist() == [UNLABELLED] * 3
    assert photos.classes == ()
    assert not photos.labelled


def test_corrupt_photos_are_left_out_counted_and_named(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = (data / "train/Apple/3.png").read_bytes()
    (data / "train/Apple/3.png").write_bytes(whole[: len(whole) // 2])
    (data / "train/Red-Beet/0.png").write_bytes(b"")
    photos = need_photos(str(data), "train", 16)
    assert photos.skipped == ("Apple/3.png", "Red-Beet/0.png")
    assert photos.labels.tolist() == [0] * 7 + [1] * 7 + [2] * 8
    said = capsys.readouterr().err
    assert "2 of 24 photos of train cannot be read, left out: Apple/3.png, Red-Beet/0.png" in said
    kept = decode((data / "train/Apple/4.png").read_bytes(), 16)
    assert torch.equal(photos.pixels(torch.tensor([3]))[0], kept)


def test_only_corrupt_photos_are_a_mistake(data: Path) -> None:
    for path in (data / "train").rglob("*.png"):
        path.write_bytes(b"\x89PNG")
    with pytest.raises(TrainingError, match="None of the 24 photos of train can be read"):
        need_photos(str(data), "train", 16)


def test_an_empty_class_folder_is_named(data: Path) -> None:
    (data / "train" / "Leek").mkdir()
    with pytest.raises(TrainingError, match=r"1 class folders .* have no photos \(Leek\): fill or remove"):
        open_source(str(data), "train")


def test_what_is_no_data_is_told(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match="There is no folder"):
        open_source(str(tmp_path / "none"), "train")
    with pytest.raises(TrainingError, match="has no photos"):
        open_source(str(tmp_path), "train")


def test_a_hub_data_set_that_cannot_be_had_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", refuse)
    with pytest.raises(TrainingError, match="The data set ethz/food101 cannot be read: no network"):
        open_source("ethz/food101", "train")


def write_parquet(folder: Path, data: Path) -> None:
    features = datasets.Features(
        {"image": datasets.Image(), "label": datasets.ClassLabel(names=["apple_pie", "ramen"])}
    )
    for split, count in (("train", 4), ("validation", 2)):
        paths = sorted((data / "train/Apple").iterdir())[:count]
        rows = {"image": [{"bytes": path.read_bytes(), "path": None} for path in paths], "label": [0, 1] * (count // 2)}
        datasets.Dataset.from_dict(rows, features=features).to_parquet(folder / f"{split}-00000-of-00001.parquet")


def test_parquet_files_keep_their_classes_and_their_photos_undecoded(data: Path, tmp_path: Path) -> None:
    folder = tmp_path / "parquet"
    folder.mkdir()
    write_parquet(folder, data)
    photos = need_photos(str(folder), "train", 16)
    assert photos.classes == ("apple pie", "ramen")
    assert photos.labels.tolist() == [0, 1, 0, 1]
    assert torch.equal(photos.pixels(torch.tensor([0]))[0], decode((data / "train/Apple/0.png").read_bytes(), 16))
    assert len(need_photos(str(folder), "val", 16)) == 2


def test_a_hub_data_set_is_read_like_food101(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    features = datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["ramen", "sushi"])})
    rows = {"image": [str(data / "train/Apple/0.png"), str(data / "train/Apple/1.png")], "label": [1, 0]}
    table = datasets.DatasetDict({"train": datasets.Dataset.from_dict(rows, features=features)})
    asked = list[str]()

    def load_dataset(name: str, data_files: None) -> datasets.DatasetDict:
        asked.append(name)
        return table

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    photos = need_photos("ethz/food101", "train", 16)
    assert asked == ["ethz/food101"]
    assert photos.classes == ("ramen", "sushi")
    assert photos.labels.tolist() == [1, 0]
    assert load_photos("ethz/food101", "val", 16) is None


def test_photos_of_any_mode_and_turn_are_upright_rgb_squares(tmp_path: Path) -> None:
    photo = Image.new("L", (40, 80), 0)
    photo.paste(255, (0, 0, 40, 20))  # white on top
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    photo.save(tmp_path / "photo.png", exif=exif)
    pixels = decode((tmp_path / "photo.png").read_bytes(), 4).float()
    assert pixels.shape == (3, 4, 4)
    assert pixels[:, 3].mean() > 220
    assert pixels[:, :3].max() < 40
