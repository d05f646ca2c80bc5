"""Sample pictures for the demo: groceries heaped as on a shop shelf, rendered so that no photo need be shipped.

python -m training.samples models/food/samples
"""

# numpy types its ufuncs as Any.
# mypy: disable-error-code="no-any-return"

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.random import Generator
from PIL import Image, ImageFilter

from training import produce
from training.render import Body, Camera, Floats, Skin, Thing, render, smoothstep
from training.solids import blend, linear, noise

SIZE = 448
# The picture is rendered this much larger and then shrunk, against jagged edges.
OVERSAMPLE = 1.5
JPEG_QUALITY = 84

# The camera of a customer at the shelf: above the heap, tilted down.
EYE, TARGET = (0.5, -8.5, 13.5), (0.0, -0.3, 0.8)

# The look of a phone photo under shop lamps. Linear gains of R, G, B; share of grey; strength of the S-curve.
WARMTH = np.array([1.05, 0.97, 0.85], np.float32)
GREYNESS = 0.10
CONTRAST = 0.8
BRIGHTNESS = 1.3
# Automatic exposure brings the mean of the brightest channel half the way to this, in powers of two.
EXPOSURE = 0.50
LUMA = np.array([0.2126, 0.7152, 0.0722], np.float32)
GAMMA = 2.2
# Blur radius, in pixels of the large picture, far from the focus; standard deviations of the sensor's noise.
DEFOCUS = 2.5
NOISE_GREY, NOISE_COLOUR = 1.3, 0.7

SETTLING_STEPS = 240
# Share of an overlap that is undone in one step, and how far things sink in it.
PUSH, SINK = 0.3, 0.1


@dataclass(frozen=True, slots=True)
class Scene:
    """A heap of `count` pieces on a tray of half-width `half`, seen through a picture of `width` at distance 1.

    Pieces lie any way up, or, where `flat`, on their side and roughly along the view.
    """

    piece: Callable[[Generator], produce.Piece]
    count: int
    half: float = 8.5
    width: float = 0.85
    flat: bool = False


SCENES = {
    "apple": Scene(produce.apple, 200),
    "aubergine": Scene(produce.aubergine, 70, half=7, width=0.75, flat=True),
    "banana": Scene(produce.banana, 110, half=7, flat=True),
    "cucumber": Scene(produce.cucumber, 90, half=7, flat=True),
    "orange": Scene(produce.orange, 220),
    "pepper": Scene(produce.pepper, 170, half=7.5, width=0.75),
    "tomato": Scene(produce.tomato, 240),
}


def turned(axis: int, angle: float) -> Floats:
    """Return the rotation [3, 3] by `angle` about a coordinate axis."""
    cosine, sine = np.cos(angle), np.sin(angle)
    rotation = np.eye(3)
    first, second = (axis + 1) % 3, (axis + 2) % 3
    rotation[[first, first, second, second], [first, second, first, second]] = cosine, -sine, sine, cosine
    return rotation.astype(np.float32)


def any_way(rng: Generator) -> Floats:
    """Return a uniformly random rotation: turns about z, then tilts the pole to a random direction."""
    tilt = np.arccos(rng.uniform(-1, 1))
    return turned(2, rng.uniform(0, 2 * np.pi)) @ turned(1, tilt) @ turned(2, rng.uniform(0, 2 * np.pi))


def on_its_side(rng: Generator) -> Floats:
    """Return a rotation that lays a rod along the view, either end first, its bend in the tray's plane."""
    yaw = rng.normal(1.2, 0.4) + np.pi * rng.integers(2)
    return turned(2, yaw) @ turned(1, rng.normal(0, 0.1)) @ turned(0, rng.normal(np.pi / 2, 0.5))


def heap(things: Sequence[Thing], half: float, rng: Generator) -> list[Thing]:
    """Let the things fall onto a tray of half-width `half`, pushing apart those that overlap."""
    local = [thing.spheres() for thing in things]
    owner = np.repeat(np.arange(len(things)), [len(spheres) for spheres in local])
    offsets, radii = np.concatenate(local)[:, :3], np.concatenate(local)[:, 3]
    rest = np.array([(spheres[:, 3] - spheres[:, 2]).max() for spheres in local])
    centres = rng.uniform((-half, -half, 0), (half, half, 4), (len(things), 3)) + rest[:, None] * (0, 0, 1)
    reach = np.where(owner[:, None] != owner, radii[:, None] + radii, 0)
    for step in range(SETTLING_STEPS):
        centres[:, 2] -= SINK * (1.2 - step / SETTLING_STEPS)
        placed = centres[owner] + offsets
        gaps = placed[:, None] - placed
        length = np.sqrt((gaps**2).sum(axis=-1)) + 1e-6
        overlap = np.maximum(reach - length, 0) / length
        np.add.at(centres, owner, PUSH * (gaps * overlap[..., None]).sum(axis=1))
        centres[:, :2] = np.clip(centres[:, :2], -half, half)
        centres[:, 2] = np.maximum(centres[:, 2], rest)
    return [replace(thing, centre=c.astype(np.float32)) for thing, c in zip(things, centres, strict=True)]


def board() -> Thing:
    """Return the wooden bottom of the tray: the plane z = 0."""

    def colour(points: Floats) -> Floats:
        grain = noise(points * np.array([0.6, 6, 1], np.float32), 3)
        return blend(linear("4a3420"), "6b4c30", grain)

    plane = Body(lambda points: points[:, 2], 200.0, np.zeros((0, 4), np.float32))
    return Thing(plane, Skin(colour, shine=0.3, roughness=0.8), np.eye(3, dtype=np.float32))


def develop(colour: Floats, depth: Floats, size: int, rng: Generator) -> Image.Image:
    """Make the photo from linear colour [S, S, 3] and depth [S, S]: exposure, tone, depth of field, noise."""
    light = colour * WARMTH * np.sqrt(EXPOSURE / colour.max(axis=-1).mean())
    light = light + GREYNESS * ((light @ LUMA)[..., None] - light)
    tone = np.clip(BRIGHTNESS * light * (1 + light / 4) / (1 + light), 0, 1) ** np.float32(1 / GAMMA)
    tone = tone + CONTRAST * (tone * tone * (3 - 2 * tone) - tone)
    sharp = Image.fromarray((tone * 255).astype(np.uint8))
    far = smoothstep(0.12, 0.5, np.abs(depth / np.median(depth) - 1))
    mask = Image.fromarray((far * 255).astype(np.uint8))
    photo = Image.composite(sharp.filter(ImageFilter.GaussianBlur(DEFOCUS)), sharp, mask)
    noise_of_sensor = rng.normal(0, NOISE_GREY, (size, size, 1)) + rng.normal(0, NOISE_COLOUR, (size, size, 3))
    pixels = np.asarray(photo.resize((size, size), Image.Resampling.LANCZOS)) + noise_of_sensor
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def picture(scene: Scene, size: int = SIZE, seed: int = 0) -> Image.Image:
    """Render a scene, `size` x `size` RGB; the same seed gives the same picture."""
    rng = np.random.default_rng(seed)
    pose = on_its_side if scene.flat else any_way
    pieces = [
        Thing(*scene.piece(rng), rotation=pose(rng), scale=float(rng.uniform(0.88, 1.08))) for _ in range(scene.count)
    ]
    things = [board(), *heap(pieces, scene.half, rng)]
    colour, depth = render(things, Camera(EYE, TARGET, scene.width), int(size * OVERSAMPLE))
    return develop(colour, depth, size, rng)


def main() -> None:
    """Write a JPEG of each scene, named after the label."""
    parser = argparse.ArgumentParser(description="Render the demo's pictures of groceries.")
    parser.add_argument("folder", type=Path, help="where the pictures go")
    parser.add_argument("names", nargs="*", help=f"which ones, of {', '.join(SCENES)}; all if none is named")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name in arguments.names or SCENES:
        picture(SCENES[name]).save(arguments.folder / f"{name}.jpg", quality=JPEG_QUALITY, optimize=True)


if __name__ == "__main__":
    main()
