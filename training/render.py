"""A small ray marcher in numpy: bodies given as distance fields, lit as on a shop shelf.

Every thing is marched in its own frame, only where its bounding sphere covers the picture, into a depth buffer.
Shadows and ambient occlusion come from spheres that stand in for the neighbours (I. Quilez, "sphere functions"),
so the cost grows with what is seen. Arrays are float32; points and colours are [N, 3], colours linear RGB.
"""

# numpy types its ufuncs as Any.
# mypy: disable-error-code="no-any-return"

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.floating]
Field = Callable[[Floats], Floats]

# Lengths in a body's own units, in which it is about 1 thick.
MARCH_STEPS = 48
HIT = 2e-3
NORMAL_STEP = 2e-3
RELIEF_STEP = 1e-2
# Pixels shaded at once, which bounds memory: each meets every neighbour's stand-in spheres.
CHUNK = 4_000
# Things further away than this many of their own radii cast neither shadow nor occlusion.
REACH = 6.0
# A bounding sphere's outline is an ellipse; this much more than its radius covers it within 35 degrees of the axis.
OUTLINE = 1.15
# Four directions whose weighted sum is a gradient.
TETRAHEDRON = np.array([[1, -1, -1], [-1, -1, 1], [-1, 1, -1], [1, 1, 1]], np.float32)

# A warm key light from above, a greyish dome, and ceiling lamps that only gleam.
KEY_DIRECTION = np.array([-0.351, 0.251, 0.902], np.float32)
KEY_COLOUR = np.array([0.99, 0.89, 0.74], np.float32)
SHADOW_SHARPNESS = 3.0
SKY_COLOUR = np.array([0.50, 0.48, 0.46], np.float32)
# The dome's share that reaches every side; the rest comes from above.
SKY_EVEN = 0.62
# Crevices are darker than the neighbours' spheres alone make them, and filled with light of their own colour.
CREVICE_POWER, BOUNCE = 1.3, 0.6
# Where the key light fades, flesh turns this much of its softness more colourful.
WARM_SHADE = 0.3
# Lamps as seen in a mirror: strips along y at these x, on a plane one unit above.
LAMPS_AT, LAMPS_Y = (-0.9, 0.1, 1.3), 0.3
LAMP_HALF_WIDTH, LAMP_HALF_LENGTH = 0.1, 0.35
LAMP_COLOUR = np.array([12.8, 12.0, 10.4], np.float32)
GLOW = 0.25
# Reflectance of wax and skin at normal incidence (Schlick's approximation).
FRESNEL_0 = 0.04


@dataclass(frozen=True, slots=True)
class Body:
    """A solid in its own frame: `distance` (negative inside), a bounding radius, spheres [K, 4] that stand in."""

    distance: Field
    bound: float
    spheres: Floats


@dataclass(frozen=True, slots=True)
class Skin:
    """A surface: `colour` [N, 3] and `relief` (height, [N]) over points of the body's frame, and how it shines.

    `roughness` 0 mirrors the lamps, 1 is matt; `softness` lets light bleed into the shade, as flesh does.
    """

    colour: Callable[[Floats], Floats]
    relief: Field | None = None
    shine: float = 1.0
    roughness: float = 0.3
    softness: float = 0.3


@dataclass(frozen=True, slots=True)
class Thing:
    """A body with a skin, turned by `rotation` [3, 3] (own frame to world), scaled, and moved to `centre`."""

    body: Body
    skin: Skin
    rotation: Floats
    scale: float = 1.0
    centre: Floats = field(default_factory=lambda: np.zeros(3, np.float32))

    def spheres(self) -> Floats:
        """Return the stand-in spheres in the world, [K, 4]."""
        spheres = self.body.spheres * np.float32(self.scale)
        return np.concatenate([spheres[:, :3] @ self.rotation.T + self.centre, spheres[:, 3:]], axis=1)

    def to_own(self, points: Floats) -> Floats:
        """Bring points of the world into the body's frame."""
        return ((points - self.centre) @ self.rotation) / np.float32(self.scale)


@dataclass(frozen=True, slots=True)
class Camera:
    """A pinhole at `eye`, looking at `target` with z up; `width` is that of the picture at distance 1."""

    eye: tuple[float, float, float]
    target: tuple[float, float, float] = (0.0, 0.0, 0.0)
    width: float = 0.8

    def frame(self) -> Floats:
        """Return the camera's axes as rows: right, up, forward."""
        forward = np.subtract(self.target, self.eye)
        forward = forward / np.linalg.norm(forward)
        right = np.cross(forward, [0, 0, 1])
        right = right / np.linalg.norm(right)
        return np.stack([right, np.cross(right, forward), forward]).astype(np.float32)

    def rays(self, size: int) -> Floats:
        """Return unit directions through the pixel centres, [size, size, 3], first row at the top."""
        steps = ((np.arange(size, dtype=np.float32) + 0.5) / size - 0.5) * np.float32(self.width)
        across, down = np.meshgrid(steps, steps)
        rays = np.stack([across, -down, np.ones_like(across)], axis=-1) @ self.frame()
        return rays / np.linalg.norm(rays, axis=-1, keepdims=True)


def march(body: Body, origins: Floats, directions: Floats) -> Floats:
    """Return the distance [N] along each ray at which it enters the body, infinity where it does not.

    `directions` are unit vectors and both are in the body's frame.
    """
    middle = -(origins * directions).sum(axis=1)
    inside = body.bound**2 - ((origins * origins).sum(axis=1) - middle**2)
    half = np.sqrt(np.maximum(inside, 0))
    depth, end = np.maximum(middle - half, 0), middle + half
    result = np.full(len(depth), np.inf, np.float32)
    active = np.flatnonzero((inside > 0) & (end > 0))
    for _ in range(MARCH_STEPS):
        if not len(active):
            break
        gap = body.distance(origins[active] + depth[active, None] * directions[active])
        depth[active] += gap
        hit = gap < HIT
        result[active[hit]] = depth[active[hit]]
        active = active[~hit & (depth[active] < end[active])]
    return result


def gradient(function: Field, points: Floats, step: float) -> Floats:
    """Return the gradient [N, 3] of a scalar field, from four samples a point."""
    samples = [axis * function(points + np.float32(step) * axis)[:, None] for axis in TETRAHEDRON]
    return sum(samples[1:], samples[0]) / np.float32(4 * step)


def normals(body: Body, points: Floats) -> Floats:
    """Return the outward unit normals [N, 3] of the body at surface points of its frame."""
    return unit(gradient(body.distance, points, NORMAL_STEP))


def unit(vectors: Floats) -> Floats:
    """Scale vectors to length 1."""
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), np.float32(1e-9))


def smoothstep(low: float, high: float, values: Floats) -> Floats:
    """Rise from 0 at `low` to 1 at `high` with flat ends."""
    t = np.clip((values - np.float32(low)) / np.float32(high - low), 0, 1)
    return t * t * (3 - 2 * t)


def occlusion(points: Floats, facing: Floats, spheres: Floats) -> tuple[Floats, Floats]:
    """Return how much of the sky and of the key light reach the points past the spheres, both [N] in 0..1."""
    middles, radii = spheres[:, :3].T, spheres[:, 3]
    squared = (points**2).sum(axis=1)[:, None] - 2 * points @ middles + (middles**2).sum(axis=0)
    gap = np.sqrt(np.maximum(squared, (radii * np.float32(1.02)) ** 2))
    cosine = (facing @ middles - (facing * points).sum(axis=1)[:, None]) / gap
    hidden = np.clip(cosine * 0.7 + 0.3, 0, 1) * (radii / gap) ** 2
    along = KEY_DIRECTION @ middles - (points @ KEY_DIRECTION)[:, None]
    miss = np.sqrt(np.maximum(gap**2 - along**2, 0)) - radii
    clear = smoothstep(-0.25, 1.0, SHADOW_SHARPNESS * miss / np.maximum(along, np.float32(1e-3)))
    return np.prod(1 - hidden, axis=1), np.prod(np.where(along > 0, clear, 1), axis=1)


def lamps(mirrored: Floats, roughness: float) -> Floats:
    """Return the light [N] that ceiling lamps send along the mirrored view directions, blurred by roughness."""
    height = np.maximum(mirrored[:, 2], np.float32(0.05))
    x, y = mirrored[:, 0] / height, mirrored[:, 1] / height
    edge = 0.03 + 0.8 * roughness
    along = smoothstep(edge, -edge, np.abs(y - np.float32(LAMPS_Y)) - LAMP_HALF_LENGTH)
    across = sum((smoothstep(edge, -edge, np.abs(x - at) - LAMP_HALF_WIDTH) for at in LAMPS_AT), np.zeros_like(x))
    spread = LAMP_HALF_WIDTH / (LAMP_HALF_WIDTH + 0.5 * edge)
    return across * along * smoothstep(0.0, 0.25, mirrored[:, 2]) * np.float32(spread)


def shade(thing: Thing, points: Floats, view: Floats, spheres: Floats) -> Floats:
    """Return the linear colours [N, 3] of surface points in the world, seen along unit directions `view`."""
    own, skin = thing.to_own(points), thing.skin
    smooth = normals(thing.body, own)
    facing = smooth
    if skin.relief is not None:
        slope = gradient(skin.relief, own, RELIEF_STEP)
        facing = unit(smooth - (slope - (slope * smooth).sum(axis=1, keepdims=True) * smooth))
    facing, smooth = facing @ thing.rotation.T, smooth @ thing.rotation.T
    albedo = skin.colour(own)
    sky, key = occlusion(points, smooth, spheres)
    sky = (sky ** np.float32(CREVICE_POWER))[:, None]
    sky = sky / (1 - albedo * BOUNCE * (1 - sky)) * (SKY_EVEN + (1 - SKY_EVEN) * facing[:, 2:])
    cosine = facing @ KEY_DIRECTION
    lit = np.clip((cosine + skin.softness) / (1 + skin.softness), 0, 1) * key
    fading = 1 - smoothstep(0.0, 0.5, cosine)
    flesh = albedo ** (1 - WARM_SHADE * skin.softness * fading)[:, None]
    matt = albedo * SKY_COLOUR * sky + flesh * KEY_COLOUR * lit[:, None]
    towards_eye = -(view * facing).sum(axis=1)
    mirrored = view + 2 * towards_eye[:, None] * facing
    fresnel = FRESNEL_0 + (1 - FRESNEL_0) * np.clip(1 - towards_eye, 0, 1) ** 5
    gleam = skin.shine * fresnel * (0.35 + 0.65 * key)
    glow = GLOW * (1 - skin.roughness) * np.clip(mirrored[:, 2], 0, 1) * sky.mean(axis=1)
    return matt + gleam[:, None] * (lamps(mirrored, skin.roughness)[:, None] * LAMP_COLOUR + glow[:, None])


def render(things: Sequence[Thing], camera: Camera, size: int) -> tuple[Floats, Floats]:
    """Return linear colour [size, size, 3] and depth [size, size]; where nothing is hit, black and infinity."""
    rays, eye = camera.rays(size), np.asarray(camera.eye, np.float32)
    depth = np.full((size, size), np.inf, np.float32)
    owner = np.full((size, size), -1)
    nearest = [float(np.linalg.norm(thing.centre - eye)) - thing.body.bound * thing.scale for thing in things]
    for index in np.argsort(nearest):
        thing = things[index]
        rows, columns = _window(thing, camera, size)
        open_to = np.nonzero(depth[rows, columns] > nearest[index])
        at = open_to[0] + rows.start, open_to[1] + columns.start
        origin = np.broadcast_to(thing.to_own(eye[None]), (len(at[0]), 3))
        found = march(thing.body, origin, rays[at] @ thing.rotation) * np.float32(thing.scale)
        nearer = found < depth[at]
        at = at[0][nearer], at[1][nearer]
        depth[at], owner[at] = found[nearer], index
    colour = np.zeros((size, size, 3), np.float32)
    stand_ins = [thing.spheres() for thing in things]
    for index, thing in enumerate(things):
        seen = np.argwhere(owner == index)
        others = [s for other, s in enumerate(stand_ins) if other != index and _near(things[other], thing)]
        spheres = np.concatenate(others) if others else np.zeros((0, 4), np.float32)
        for part in np.array_split(seen, len(seen) // CHUNK + 1):
            at = tuple(part.T)
            points = eye + depth[at][:, None] * rays[at]
            colour[at] = shade(thing, points, rays[at], spheres)
    return colour, depth


def _window(thing: Thing, camera: Camera, size: int) -> tuple[slice, slice]:
    """Return the rows and columns that the thing's bounding sphere may cover."""
    right, up, forward = camera.frame() @ (thing.centre - np.asarray(camera.eye, np.float32))
    radius = thing.body.bound * thing.scale
    if forward < radius * OUTLINE:
        return slice(0, size), slice(0, size)
    reach = OUTLINE * radius * (1 + (abs(right) + abs(up)) / forward)
    scale = size / (camera.width * forward)

    def span(middle: float) -> slice:
        low, high = size / 2 + (middle - reach) * scale, size / 2 + (middle + reach) * scale
        return slice(max(0, int(low)), max(0, min(size, int(high) + 1)))

    return span(-float(up)), span(float(right))


def _near(thing: Thing, other: Thing) -> bool:
    gap = float(np.linalg.norm(thing.centre - other.centre))
    return gap < REACH * thing.body.bound * thing.scale
