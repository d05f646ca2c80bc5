"""Fruit and vegetables as solids with skins, for `training.samples`; radius 1 is half their usual thickness.

Each kind is a function of a random generator that returns one piece, so that no two on a heap are alike.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from training.render import Body, Field, Floats, Skin, smoothstep, unit

GAMMA = 2.2
# Multipliers of a common integer hash (xxHash's primes), for lattice noise.
HASH_AXES = np.array([2654435761, 2246822519, 3266489917], np.uint32)
HASH_MIX = np.uint32(668265263)
UINT16 = np.uint32(0xFFFF)
WHOLE = np.array([[0, 0, 0, 1]], np.float32)

Piece = tuple[Body, Skin]


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
    """Noise of one piece's own."""

    shift: Floats

    @classmethod
    def of(cls, rng: Generator) -> "Grain":
        return cls(rng.uniform(0, 500, 3).astype(np.float32))

    def __call__(self, points: Floats, frequency: float, octaves: int = 1) -> Floats:
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
        def distance(points: Floats) -> Floats:
            t, around, gap = self.at(points)
            return (gap - self.radius(np.clip(t, -1, 1), around)) * np.float32(0.8)

        t = np.linspace(-1, 1, spheres, dtype=np.float32)
        angle, curve = t * self.bend / 2, self.length / self.bend
        middles = [curve * np.sin(angle), 0 * t, curve * (np.cos(angle) - 1), self.radius(t, 0 * t)]
        stand_ins = np.stack(middles, axis=1).astype(np.float32)
        bound = float((np.linalg.norm(stand_ins[:, :3], axis=1) + stand_ins[:, 3]).max())
        return Body(distance, bound * 1.05, stand_ins)


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


PORES = 28


def citrus(
    rng: Generator, colours: tuple[str, str, str], tip: float, tall: float, gloss: tuple[float, float]
) -> Piece:
    """Return a citrus fruit: a ball with pored skin, drawn out by `tall`, with nipples of height `tip`."""
    grain, base, uneven = Grain.of(rng), linear(colours[0]), lumps(rng, 0.06)
    tint, tall = rng.uniform(0, 1), tall * rng.uniform(0.9, 1.15)

    def radius(d: Floats) -> Floats:
        lengthened = 1 / np.sqrt(1 - d[:, 2] ** 2 * np.float32(1 - 1 / (1 + tall) ** 2))
        ends = np.exp((np.abs(d[:, 2]) - 1) / np.float32(0.03)) * tip
        return lengthened + ends - (0.05 if tip == 0 else 0.03) * pole(d, 0.008) + uneven(d)

    def relief(p: Floats) -> Floats:
        return -0.0035 * smoothstep(0.4, 0.75, grain(p, PORES)) + 0.012 * grain(p, 4)

    def colour(p: Floats) -> Floats:
        skin = blend(base, colours[1], tint * grain(p, 1.2, 3))
        skin = blend(skin, colours[2], 0.8 * smoothstep(0.55, 0.75, grain(p + 9, 0.8, 2)))
        skin = skin * (1 - 0.12 * smoothstep(0.5, 0.8, grain(p, PORES)))[:, None]
        return blend(skin, "5c5a28", smoothstep(0.994, 0.997, unit(p)[:, 2]))

    return bulb(radius, 1.1 + tall + tip), Skin(colour, relief, *gloss, 0.35)


def orange(rng: Generator) -> Piece:
    return citrus(rng, ("f0790a", "dd5c08", "f59a22"), 0.0, -0.03, (1.2, 0.45))


def lemon(rng: Generator) -> Piece:
    return citrus(rng, ("eabc18", "d8a412", "e2ca42"), 0.22, 0.32, (1.0, 0.5))


def lime(rng: Generator) -> Piece:
    return citrus(rng, ("66801c", "455f18", "aaa640"), 0.12, 0.12, (1.3, 0.38))


def tomato(rng: Generator) -> Piece:
    grain, ribs, turn, uneven = Grain.of(rng), rng.uniform(0.0, 0.035), rng.uniform(0, 6), lumps(rng, 0.05)
    ripe = rng.uniform(0, 1)

    def radius(d: Floats) -> Floats:
        ribbed = ribs * np.cos(5 * around(d) + turn) * (1 - d[:, 2] ** 2)
        return 1 - 0.16 * d[:, 2] ** 2 - 0.12 * pole(d, 0.04) + ribbed + uneven(d)

    def calyx(p: Floats) -> Floats:
        d = unit(p)
        rays = 0.5 + 0.5 * np.cos(5 * around(d) + 3 * grain(p, 2))
        return smoothstep(0.1, -0.1, np.arccos(np.clip(d[:, 2], -1, 1)) - (0.1 + 0.5 * rays**3))

    def colour(p: Floats) -> Floats:
        skin = blend(linear("d02a18"), "dd4a20", ripe * grain(p, 0.9, 2))
        skin = blend(skin, "d9651a", 0.5 * pole(unit(p), 0.05))
        return blend(skin, "4f7a20", calyx(p))

    return bulb(radius, 1.15), Skin(colour, lambda p: 0.04 * calyx(p) + 0.01 * grain(p, 3), 1.8, 0.16, 0.25)


def apple(rng: Generator) -> Piece:
    grain, uneven, blush = Grain.of(rng), lumps(rng, 0.05), rng.uniform(0.35, 0.6)

    def radius(d: Floats) -> Floats:
        crown = 0.03 * np.cos(5 * around(d)) * smoothstep(0.2, 1.0, -d[:, 2])
        return 1.0 + 0.04 * d[:, 2] - 0.38 * pole(d, 0.07) - 0.2 * pole(-d, 0.04) + crown + uneven(d)

    def distance(p: Floats) -> Floats:
        return np.minimum(flesh.distance(p), rod(p, (0, 0, 0.55), (0.12, 0.05, 1.15), 0.045))

    def colour(p: Floats) -> Floats:
        d = unit(p)
        streaks = noise(np.stack([9 * np.cos(around(d)), 9 * np.sin(around(d)), 1.2 * d[:, 2]], axis=1) + grain.shift, 2)
        side = grain(d, 0.7) + 0.5 * (streaks - 0.5)
        skin = blend(linear("d09a3a"), "b0201a", smoothstep(blush - 0.45, blush + 0.15, side))
        skin = blend(skin, "e8cf8a", 0.2 * smoothstep(0.78, 0.88, grain(p, 14)))
        stem = rod(p, (0, 0, 0.55), (0.12, 0.05, 1.15), 0.045) < 0.02
        return blend(blend(skin, "8a8a34", 0.8 * pole(d, 0.03)), "4a3018", stem.astype(np.float32))

    flesh = bulb(radius, 1.2)
    return Body(distance, 1.25, WHOLE), Skin(colour, lambda p: 0.008 * grain(p, 3), 1.7, 0.16, 0.3)


def kiwi(rng: Generator) -> Piece:
    grain, uneven, tall = Grain.of(rng), lumps(rng, 0.07), rng.uniform(0.15, 0.35)
    label = unit(rng.normal(size=3)) if rng.uniform() < 0.35 else None

    def radius(d: Floats) -> Floats:
        return 1 / np.sqrt(1 - d[:, 2] ** 2 * np.float32(1 - 1 / (1 + tall) ** 2)) - 0.06 * pole(d, 0.02) + uneven(d)

    def colour(p: Floats) -> Floats:
        fuzz = grain(p * np.array([1, 1, 0.35], np.float32), 18, 2)
        skin = blend(blend(linear("7d6444"), "a88c66", fuzz), "63503a", grain(p, 1.1, 2))
        skin = blend(skin, "3c2c14", pole(unit(p), 0.006))
        return skin if label is None else sticker(skin, p, label)

    return bulb(radius, 1.5), Skin(colour, lambda p: 0.012 * grain(p, 14), 1.2, 0.55, 0.3)


def avocado(rng: Generator) -> Piece:
    grain, uneven, ripe = Grain.of(rng), lumps(rng, 0.06), rng.uniform(0, 1)

    def radius(d: Floats) -> Floats:
        return 0.98 + 0.6 * smoothstep(0.0, 1.1, d[:, 2]) + uneven(d)

    def relief(p: Floats) -> Floats:
        return 0.025 * grain(p, 11, 2)

    def colour(p: Floats) -> Floats:
        skin = blend(linear("30261e"), "42401f" if ripe > 0.5 else "40271f", grain(p, 1.3, 3))
        skin = blend(skin, "75603f", 0.35 * smoothstep(0.55, 0.8, grain(p, 12, 2)))
        return blend(skin, "7a6236", smoothstep(0.992, 0.996, unit(p)[:, 2]))

    return bulb(radius, 1.7, np.array([[0, 0, 0, 1], [0, 0, 0.6, 0.78]])), Skin(colour, relief, 1.6, 0.45, 0.2)


def melon(rng: Generator) -> Piece:
    """A watermelon."""
    grain, tall = Grain.of(rng), rng.uniform(0.05, 0.2)

    def radius(d: Floats) -> Floats:
        return 1 / np.sqrt(1 - d[:, 2] ** 2 * np.float32(1 - 1 / (1 + tall) ** 2)) - 0.04 * pole(np.abs(d), 0.02)

    def colour(p: Floats) -> Floats:
        d = unit(p)
        wave = 10 * around(d) + 2.4 * (grain(p, 3.5, 3) - 0.5) * 2
        stripe = smoothstep(-0.25, 0.35, np.cos(wave) + 1.2 * (grain(p, 5, 2) - 0.5))
        pale = blend(linear("8f9f5c"), "6f8644", grain(p, 9, 2))
        return blend(pale, blend(linear("1c3216"), "2c4520", grain(p, 7, 2)), stripe)

    return bulb(radius, 1.25), Skin(colour, lambda p: 0.006 * grain(p, 3), 1.3, 0.25, 0.2)


def potato(rng: Generator) -> Piece:
    grain, uneven, tall = Grain.of(rng), lumps(rng, 0.28), rng.uniform(0.2, 0.7)

    def radius(d: Floats) -> Floats:
        return 1 / np.sqrt(1 - d[:, 2] ** 2 * np.float32(1 - 1 / (1 + tall) ** 2)) + uneven(d)

    def colour(p: Floats) -> Floats:
        skin = blend(linear("bb9468"), "a07a52", grain(p, 1.5, 3))
        skin = blend(skin, "7d5f42", 0.5 * smoothstep(0.55, 0.8, grain(p, 6, 3)))
        return blend(skin, "5a4028", 0.7 * smoothstep(0.84, 0.92, grain(p, 4)))

    return bulb(radius, 2.0), Skin(colour, lambda p: -0.04 * smoothstep(0.8, 0.92, grain(p, 4)), 0.5, 0.6, 0.3)


def pepper(rng: Generator) -> Piece:
    grain, lobes, uneven = Grain.of(rng), rng.choice([3, 4]), lumps(rng, 0.08)
    turn, stem_end = rng.uniform(0, 6), (0.1, 0.05, 1.3)

    def radius(d: Floats) -> Floats:
        side = np.sqrt(np.maximum(1 - d[:, 2] ** 2, 0))
        folds = np.abs(np.cos(lobes / 2 * around(d) + turn))
        shoulder = 0.92 + 0.3 * d[:, 2] ** 2 + 0.08 * d[:, 2]
        return shoulder - 0.22 * (1 - folds) ** 2 * side - 0.35 * pole(d, 0.06) - 0.2 * pole(-d, 0.06) + uneven(d)

    def distance(p: Floats) -> Floats:
        return np.minimum(flesh.distance(p), rod(p, (0, 0, 0.6), stem_end, 0.1))

    def colour(p: Floats) -> Floats:
        skin = blend(linear("c01c18"), "cc3018", grain(p, 1.1, 2))
        stem = np.maximum(smoothstep(0.08, 0.02, rod(p, (0, 0, 0.6), stem_end, 0.1)), pole(unit(p), 0.015))
        return blend(skin, blend(linear("4c8a24"), "7aa848", grain(p, 6)), np.clip(stem, 0, 1))

    flesh = bulb(radius, 1.4, caution=0.7)
    return Body(distance, 1.45, WHOLE * 0.95), Skin(colour, lambda p: 0.03 * grain(p, 2, 2), 2.2, 0.1, 0.3)


def carrots(rng: Generator) -> Piece:
    grain, thick = Grain.of(rng), rng.uniform(0.75, 1.1)

    def radius(t: Floats, _around: Floats) -> Floats:
        return (0.52 - 0.2 * t - 0.14 * smoothstep(0.5, 1.0, t) - 0.16 * smoothstep(-0.93, -1.0, t)) * thick

    tube = Tube(6.0, rng.uniform(0.05, 0.4), radius)

    def relief(p: Floats) -> Floats:
        return -0.025 * smoothstep(0.62, 0.8, grain(p * np.array([6, 1, 1], np.float32), 1.6, 2))

    def colour(p: Floats) -> Floats:
        t, _, _ = tube.at(p)
        skin = blend(linear("e5720f"), "cf5a0c", grain(p, 1.5, 3))
        skin = blend(skin, "a8541c", 0.7 * smoothstep(0.62, 0.8, grain(p * np.array([6, 1, 1], np.float32), 1.6, 2)))
        return blend(skin, "5c5420", smoothstep(-0.96, -1.01, t))

    return tube.body(), Skin(colour, relief, 0.9, 0.4, 0.4)


def cucumber(rng: Generator) -> Piece:
    """A cucumber shrunk into plastic film, whose creases catch the light."""
    grain = Grain.of(rng)

    def radius(t: Floats, angle: Floats) -> Floats:
        return 0.62 - 0.22 * smoothstep(0.75, 1.0, np.abs(t)) + 0.012 * np.cos(7 * angle)

    tube = Tube(8.5, rng.uniform(0.1, 0.5), radius)

    def relief(p: Floats) -> Floats:
        return 0.05 * np.abs(grain(p * np.array([0.5, 1, 1], np.float32), 3.0, 2) - 0.5)

    def colour(p: Floats) -> Floats:
        t, angle, _ = tube.at(p)
        skin = blend(linear("16341a"), "2d5524", smoothstep(0.2, 1, np.cos(7 * angle)) * 0.7 * grain(p, 1, 2))
        return blend(skin, "6c8a44", 0.6 * smoothstep(0.8, 1.1, np.abs(t)))

    return tube.body(9), Skin(colour, relief, 2.6, 0.14, 0.15)


def zucchini(rng: Generator) -> Piece:
    grain = Grain.of(rng)

    def radius(t: Floats, angle: Floats) -> Floats:
        stem = smoothstep(0.8, 0.97, t)
        return 0.7 - 0.08 * t - 0.38 * stem - 0.2 * smoothstep(-0.85, -1.0, t) + 0.03 * np.cos(5 * angle)

    tube = Tube(6.5, rng.uniform(0.1, 0.6), radius)

    def colour(p: Floats) -> Floats:
        t, angle, _ = tube.at(p)
        skin = blend(linear("305a22"), "22461a", 0.5 + 0.5 * np.cos(5 * angle))
        skin = blend(skin, "6f8f48", 0.6 * smoothstep(0.52, 0.75, grain(p * np.array([0.5, 1, 1], np.float32), 22, 2)))
        return blend(skin, "8aa05c", smoothstep(0.86, 0.95, t))

    return tube.body(), Skin(colour, lambda p: 0.01 * grain(p, 4), 1.4, 0.22, 0.2)


def aubergine(rng: Generator) -> Piece:
    grain, turn = Grain.of(rng), rng.uniform(0, 6)

    def radius(t: Floats, angle: Floats) -> Floats:
        flesh = 0.85 - 0.3 * smoothstep(-0.5, 0.75, t) - 0.25 * smoothstep(-0.7, -1.0, t)
        return flesh - 0.4 * smoothstep(0.74, 0.84, t) + 0.05 * calyx(t, angle)

    def calyx(t: Floats, angle: Floats) -> Floats:
        return smoothstep(-0.03, 0.03, t - 0.62 + 0.16 * np.cos(5 * angle + turn) ** 3)

    tube = Tube(4.2, rng.uniform(0.1, 0.5), radius)

    def colour(p: Floats) -> Floats:
        t, angle, _ = tube.at(p)
        skin = blend(linear("1a0a18"), "3a1430", 0.7 * grain(p, 0.8, 2))
        return blend(skin, blend(linear("5c7a30"), "87984e", grain(p, 5, 2)), calyx(t, angle))

    return tube.body(), Skin(colour, lambda p: 0.008 * grain(p, 2), 3.0, 0.1, 0.1)


def banana(rng: Generator) -> Piece:
    grain, green = Grain.of(rng), rng.uniform(0, 0.5)

    def radius(t: Floats, angle: Floats) -> Floats:
        girth = 0.62 * (1 - 0.25 * t**2) - 0.36 * smoothstep(0.72, 0.95, t) - 0.26 * smoothstep(-0.82, -0.98, t)
        return girth * (1 + 0.05 * np.cos(5 * angle))

    tube = Tube(6.0, rng.uniform(1.1, 1.5), radius)

    def colour(p: Floats) -> Floats:
        t, angle, _ = tube.at(p)
        skin = blend(linear("e3b81c"), "d8a51a", grain(p, 1.2, 2))
        skin = blend(skin, "93a32e", green * smoothstep(0.3, 1.0, np.abs(t)))
        skin = blend(skin, "8f6a20", 0.35 * smoothstep(0.85, 1.0, np.cos(5 * angle)) * grain(p, 3, 2))
        skin = blend(skin, "5a3c14", smoothstep(0.72, 0.85, grain(p, 5, 3)))
        return blend(skin, "3a2a14", np.maximum(smoothstep(-0.97, -1.0, t), smoothstep(0.99, 1.02, t)))

    return tube.body(9), Skin(colour, lambda p: 0.01 * grain(p, 3), 0.9, 0.38, 0.35)


def rod(points: Floats, start: tuple[float, float, float], end: tuple[float, float, float], radius: float) -> Floats:
    """Return the distance [N] to a straight round-ended rod."""
    axis = np.subtract(end, start).astype(np.float32)
    offset = points - np.asarray(start, np.float32)
    along = np.clip(offset @ axis / (axis @ axis), 0, 1)
    return np.linalg.norm(offset - along[:, None] * axis, axis=1) - np.float32(radius)


def sticker(skin: Floats, points: Floats, towards: Floats) -> Floats:
    """Put a white oval sticker with a green band onto the skin, on the side `towards`."""
    from_middle = 1 - unit(points) @ towards.astype(np.float32)
    return blend(blend(skin, "e8e6da", smoothstep(0.052, 0.047, from_middle)), "2f7a3a", smoothstep(0.022, 0.018, from_middle))
