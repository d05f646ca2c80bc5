"""Fruit and vegetables as solids with skins, for `training.samples`; radius 1 is half their usual thickness.

Each kind is a function of a random generator that returns one piece, so that no two on a heap are alike.
"""

# numpy types its ufuncs as Any.
# mypy: disable-error-code="no-any-return"

import numpy as np
from numpy.random import Generator

from training.render import Body, Floats, Skin, smoothstep, unit
from training.solids import WHOLE, Grain, Tube, around, blend, bulb, linear, lumps, noise, oval, pole, rod

Piece = tuple[Body, Skin]

# Pores along the radius of an orange.
PORES = 28


def orange(rng: Generator) -> Piece:
    """An orange, more or less ripe, pored and with the scar of its stem."""
    grain, uneven, ripe = Grain.of(rng), lumps(rng, 0.06), rng.uniform(0, 1)

    def radius(d: Floats) -> Floats:
        return oval(d, -0.03) - 0.05 * pole(d, 0.008) + uneven(d)

    def relief(p: Floats) -> Floats:
        return -0.0035 * smoothstep(0.4, 0.75, grain(p, PORES)) + 0.012 * grain(p, 4)

    def colour(p: Floats) -> Floats:
        skin = blend(linear("f0790a"), "dd5c08", ripe * grain(p, 1.2, 3))
        skin = blend(skin, "f59a22", 0.8 * smoothstep(0.55, 0.75, grain(p + 9, 0.8, 2)))
        skin = skin * (1 - 0.12 * smoothstep(0.5, 0.8, grain(p, PORES)))[:, None]
        return blend(skin, "7a7434", 0.8 * smoothstep(0.996, 0.998, unit(p)[:, 2]))

    return bulb(radius, 1.1), Skin(colour, relief, 1.2, 0.45, 0.35)


def tomato(rng: Generator) -> Piece:
    """A tomato, its calyx a five-pointed star around the pole."""
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
    """A red apple, streaked over yellow."""
    grain, uneven, blush = Grain.of(rng), lumps(rng, 0.05), rng.uniform(0.35, 0.6)

    def radius(d: Floats) -> Floats:
        crown = 0.03 * np.cos(5 * around(d)) * smoothstep(0.2, 1.0, -d[:, 2])
        return 1.0 + 0.04 * d[:, 2] - 0.38 * pole(d, 0.07) - 0.2 * pole(-d, 0.04) + crown + uneven(d)

    def distance(p: Floats) -> Floats:
        return np.minimum(flesh.distance(p), rod(p, (0, 0, 0.55), (0.12, 0.05, 1.15), 0.045))

    def colour(p: Floats) -> Floats:
        d = unit(p)
        streaks = noise(
            np.stack([9 * np.cos(around(d)), 9 * np.sin(around(d)), 1.2 * d[:, 2]], axis=1) + grain.shift, 2
        )
        side = grain(d, 0.7) + 0.5 * (streaks - 0.5)
        skin = blend(linear("ccab40"), "ae1f1c", smoothstep(blush - 0.45, blush + 0.15, side))
        skin = blend(skin, "e8cf8a", 0.2 * smoothstep(0.78, 0.88, grain(p, 14)))
        stem = rod(p, (0, 0, 0.55), (0.12, 0.05, 1.15), 0.045) < 0.02
        return blend(blend(skin, "8a8a34", 0.8 * pole(d, 0.03)), "4a3018", stem.astype(np.float32))

    flesh = bulb(radius, 1.2)
    return Body(distance, 1.25, WHOLE), Skin(colour, lambda p: 0.008 * grain(p, 3), 1.7, 0.16, 0.3)


def pepper(rng: Generator) -> Piece:
    """A green bell pepper of three or four lobes."""
    grain, lobes, uneven = Grain.of(rng), int(rng.integers(3, 5)), lumps(rng, 0.08)
    turn, stem_end = rng.uniform(0, 6), (0.1, 0.05, 1.3)

    def radius(d: Floats) -> Floats:
        side = np.sqrt(np.maximum(1 - d[:, 2] ** 2, 0))
        folds = np.abs(np.cos(lobes / 2 * around(d) + turn))
        shoulder = 0.92 + 0.3 * d[:, 2] ** 2 + 0.08 * d[:, 2]
        return shoulder - 0.22 * (1 - folds) ** 2 * side - 0.35 * pole(d, 0.06) - 0.2 * pole(-d, 0.06) + uneven(d)

    def distance(p: Floats) -> Floats:
        return np.minimum(flesh.distance(p), rod(p, (0, 0, 0.6), stem_end, 0.1))

    def colour(p: Floats) -> Floats:
        skin = blend(linear("3f7a1e"), "2c5c18", grain(p, 1.1, 2))
        stem = np.maximum(smoothstep(0.08, 0.02, rod(p, (0, 0, 0.6), stem_end, 0.1)), pole(unit(p), 0.015))
        return blend(skin, blend(linear("5a9a30"), "8ab858", grain(p, 6)), np.clip(stem, 0, 1))

    flesh = bulb(radius, 1.4, caution=0.7)
    return Body(distance, 1.45, WHOLE * 0.95), Skin(colour, lambda p: 0.03 * grain(p, 2, 2), 2.2, 0.1, 0.3)


def cucumber(rng: Generator) -> Piece:
    """A cucumber shrunk into plastic film, whose creases catch the light, under a paper label."""
    grain, side, middle = Grain.of(rng), rng.uniform(0, 6), rng.uniform(-0.3, 0.3)

    def radius(t: Floats, angle: Floats) -> Floats:
        return 0.62 - 0.22 * smoothstep(0.75, 1.0, np.abs(t)) + 0.012 * np.cos(7 * angle)

    tube = Tube(8.5, rng.uniform(0.1, 0.5), radius)

    def relief(p: Floats) -> Floats:
        return 0.05 * np.abs(grain(p * np.array([0.5, 1, 1], np.float32), 3.0, 2) - 0.5)

    def colour(p: Floats) -> Floats:
        t, angle, _ = tube.at(p)
        skin = blend(linear("16341a"), "2d5524", smoothstep(0.2, 1, np.cos(7 * angle)) * 0.7 * grain(p, 1, 2))
        skin = blend(skin, "6c8a44", 0.6 * smoothstep(0.8, 1.1, np.abs(t)))
        label = smoothstep(0.1, 0.09, np.abs(t - middle)) * smoothstep(0.2, 0.24, np.cos(angle - side))
        band = smoothstep(0.035, 0.03, np.abs(t - middle - 0.04))
        return blend(skin, blend(linear("d8dce0"), "2a62a8", band), label)

    return tube.body(9), Skin(colour, relief, 2.6, 0.14, 0.15)


def aubergine(rng: Generator) -> Piece:
    """An aubergine."""
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
    """A banana, not yet yellow at the ends."""
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
