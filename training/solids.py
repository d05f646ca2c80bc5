"""Solids, noise and colours that fruit and vegetables are made of (see `training.produce`)."""

# numpy types its ufuncs as Any.
# mypy: disable-error-code="no-any-return"

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from training.render import Body, Field, Floats

GAMMA = 2.2
# Multipliers of a common integer hash (xxHash's primes), for lattice noise.
HASH_AXES = np.array([2654435761, 2246822519, 3266489917], np.uint32)
HASH_MIX = np.uint32(668265263)
UINT16 = np.uint32(0xFFFF)
WHOLE = np.array([[0, 0, 0, 1]], np.float32)


def noise(points: Floats, octaves: int = 1) -> Floats:
    """Return value noise [N] in 0..1 with one bump a unit; each further octave is twice as fine and half as strong."""
    total = np.zeros(len(points), np.float32)
    for octave in range(octaves):
        scaled = points * np.float32(2**octave) + np.float32(17.3 * octave)
        cell = np.floor(scaled)
        part = scaled - cell
        part = part * part * (3 - 2 * part)
        keys = cell.astype(np.int64).astype(np.uint32) * HASH_AXES
        corners = (keys, keys + HASH_AXES)
        shares = (1 - part, part)
        for x, y, z in np.ndindex(2, 2, 2):
            mixed = corners[x][:, 0] ^ corners[y][:, 1] ^ corners[z][:, 2]
            mixed = (mixed ^ (mixed >> 15)) * HASH_MIX
            mixed = (mixed ^ (mixed >> 13)) & UINT16
            total += shares[x][:, 0] * shares[y][:, 1] * shares[z][:, 2] * mixed * np.float32(0.5**octave)
    return total / np.float32(UINT16 * (2 - 0.5 ** (octaves - 1)))


@dataclass(frozen=True, slots=True)
class Grain:
    """Noise of one piece's own: no two pieces share their spots."""

    shift: Floats

    @classmethod
    def of(cls, rng: Generator) -> "Grain":
        """Draw a piece's grain."""
        return cls(rng.uniform(0, 500, 3).astype(np.float32))

    def __call__(self, points: Floats, frequency: float, octaves: int = 1) -> Floats:
        """Return noise [N] in 0..1 with `frequency` bumps a unit."""
        return noise(points * np.float32(frequency) + self.shift, octaves)


def linear(text: str) -> Floats:
    """Return the linear RGB [3] of a hex colour such as "f07d0c"."""
    return np.array([(int(text[at : at + 2], 16) / 255) ** GAMMA for at in (0, 2, 4)], np.float32)


def blend(first: Floats, second: Floats | str, share: Floats | float) -> Floats:
    """Mix colours: `share` [N] of the second into the first."""
    other = linear(second) if isinstance(second, str) else second
    return first + (other - first) * np.asarray(share, np.float32)[..., None]


def bulb(radius: Field, bound: float, spheres: Floats = WHOLE, caution: float = 0.85) -> Body:
    """Return a star-shaped solid: `radius` [N] over unit directions [N, 3], never above `bound`."""

    def distance(points: Floats) -> Floats:
        length = np.maximum(np.linalg.norm(points, axis=1), np.float32(1e-4))
        return (length - radius(points / length[:, None])) * np.float32(caution)

    return Body(distance, bound, spheres.astype(np.float32))


@dataclass(frozen=True, slots=True)
class Tube:
    """A rod of `length` bent by `bend` radians in the xz plane; `radius` over t in -1..1 and the angle around."""

    length: float
    bend: float
    radius: Callable[[Floats, Floats], Floats]

    def at(self, points: Floats) -> tuple[Floats, Floats, Floats]:
        """Return t (beyond -1..1 at the rounded ends), the angle around the axis and the distance from it."""
        curve = np.float32(self.length / self.bend)
        height = points[:, 2] + curve
        angle = np.arctan2(points[:, 0], height)
        held = np.clip(angle, -self.bend / 2, self.bend / 2)
        across = points - curve * np.stack([np.sin(held), 0 * held, np.cos(held) - 1], axis=1)
        outward = across[:, 0] * np.sin(held) + across[:, 2] * np.cos(held)
        return angle * np.float32(2 / self.bend), np.arctan2(across[:, 1], outward), np.linalg.norm(across, axis=1)

    def body(self, spheres: int = 7) -> Body:
        """Return the solid, with as many stand-in spheres along its axis."""

        def distance(points: Floats) -> Floats:
            t, around, gap = self.at(points)
            return (gap - self.radius(np.clip(t, -1, 1), around)) * np.float32(0.8)

        t = np.linspace(-1, 1, spheres, dtype=np.float32)
        angle, curve = t * np.float32(self.bend / 2), np.float32(self.length / self.bend)
        middles = curve * np.stack([np.sin(angle), 0 * t, np.cos(angle) - 1], axis=1)
        stand_ins = np.concatenate([middles, self.radius(t, 0 * t)[:, None]], axis=1).astype(np.float32)
        bound = float((np.linalg.norm(stand_ins[:, :3], axis=1) + stand_ins[:, 3]).max())
        return Body(distance, bound * 1.05, stand_ins)


def oval(directions: Floats, stretch: float) -> Floats:
    """Return the radius [N] of a ball drawn out along z by the share `stretch`."""
    return 1 / np.sqrt(1 - directions[:, 2] ** 2 * np.float32(1 - 1 / (1 + stretch) ** 2))


def lumps(rng: Generator, strength: float, waves: int = 4) -> Field:
    """Return a smooth random field over unit directions, cheap enough to march through."""
    along = (rng.normal(size=(3, waves)) * 1.6).astype(np.float32)
    phase = rng.uniform(0, 2 * np.pi, waves).astype(np.float32)
    return lambda d: np.sin(d @ along + phase).sum(axis=1) * np.float32(strength / waves)


def pole(directions: Floats, width: float) -> Floats:
    """Return a bump [N] around the upper pole."""
    return np.exp((directions[:, 2] - 1) / np.float32(width))


def around(points: Floats) -> Floats:
    """Return the angle [N] around the z axis."""
    return np.arctan2(points[:, 1], points[:, 0])


def rod(points: Floats, start: tuple[float, float, float], end: tuple[float, float, float], radius: float) -> Floats:
    """Return the distance [N] to a straight round-ended rod."""
    axis = np.subtract(end, start).astype(np.float32)
    offset = points - np.asarray(start, np.float32)
    along = np.clip(offset @ axis / (axis @ axis), 0, 1)
    return np.linalg.norm(offset - along[:, None] * axis, axis=1) - np.float32(radius)
