from dataclasses import replace

import numpy as np
import pytest

from training.render import Body, Camera, Floats, Skin, Thing, march, normals, occlusion, render, unit
from training.samples import SCENES, any_way, heap, on_its_side, picture, turned
from training.solids import WHOLE, Tube, noise

BALL = Body(lambda points: np.linalg.norm(points, axis=1) - 1, 1.05, WHOLE)
GREY = Skin(lambda points: np.full_like(points, 0.5))
UPRIGHT = np.eye(3, dtype=np.float32)


def directions(seed: int, count: int) -> Floats:
    return unit(np.random.default_rng(seed).normal(size=(count, 3)).astype(np.float32))


def test_a_ray_enters_a_ball_where_geometry_says() -> None:
    aims = np.array([[0, 0, -1], [0.2, 0, -1], [0, 0.3, -1]], np.float32)
    rays = unit(aims)
    origins = np.broadcast_to(np.array([0, 0, 3], np.float32), rays.shape)
    middle = -(origins * rays).sum(axis=1)
    expected = middle - np.sqrt(1 - (9 - middle**2))
    np.testing.assert_allclose(march(BALL, origins, rays), expected, atol=5e-3)


def test_a_ray_past_or_away_from_a_ball_hits_nothing() -> None:
    rays = unit(np.array([[0.5, 0, -1], [0, 0, 1], [1, 0, 0]], np.float32))
    origins = np.broadcast_to(np.array([0, 0, 3], np.float32), rays.shape)
    assert np.isinf(march(BALL, origins, rays)).all()


def test_the_normals_of_a_ball_point_away_from_its_middle() -> None:
    points = directions(1, 50)
    np.testing.assert_allclose(normals(BALL, points), points, atol=2e-3)


def test_a_straight_tube_is_a_rounded_cylinder() -> None:
    tube = Tube(4.0, 1e-3, lambda t, _: np.full_like(t, 0.5)).body()
    points = np.array([[0, 0, 2], [1.5, 1, 0], [3, 0, 0]], np.float32)
    outside = np.array([1.5, 0.5, 0.5])  # 2 - 0.5, 1 - 0.5, and 1 beyond the end at x = 2
    np.testing.assert_allclose(tube.distance(points) / 0.8, outside, atol=2e-3)


def test_the_picture_shows_the_ball_where_the_camera_looks() -> None:
    ball = Thing(BALL, GREY, UPRIGHT, scale=0.5, centre=np.array([1, 2, 0.5], np.float32))
    colour, depth = render([ball], Camera(eye=(1, 2, 8.5), target=(1, 2.001, 0), width=0.5), 33)
    assert depth[16, 16] == pytest.approx(7.5, abs=0.01)
    assert np.isinf(depth[0]).all()
    hit = np.isfinite(depth)
    # The silhouette's half-angle has sine r / distance; 33 pixels span 0.5 at distance 1.
    radius = np.tan(np.arcsin(0.5 / 8)) / 0.5 * 33
    assert hit.sum() == pytest.approx(np.pi * radius**2, rel=0.1)
    assert (colour[hit] > 0).all()
    assert (colour[~hit] == 0).all()


def test_the_nearer_of_two_things_is_seen_whatever_their_order() -> None:
    low = Thing(BALL, GREY, UPRIGHT)
    high = replace(low, centre=np.array([0, 0, 2.5], np.float32))
    camera = Camera(eye=(0, 0, 8), target=(0, 0.001, 0), width=0.6)
    for things in ([low, high], [high, low]):
        _, depth = render(things, camera, 9)
        assert depth[4, 4] == pytest.approx(4.5, abs=0.01)


def test_a_ball_above_takes_sky_and_light_and_none_takes_nothing() -> None:
    point, up = np.zeros((1, 3), np.float32), np.array([[0, 0, 1]], np.float32)
    np.testing.assert_array_equal(occlusion(point, up, np.zeros((0, 4), np.float32)), [[1], [1]])
    from_key = np.array([[-0.35, 0.25, 0.9, 0.5]], np.float32) * 2
    sky, key = occlusion(point, up, from_key)
    assert 0 < sky[0] < 1
    assert key[0] < 0.1


def test_noise_is_within_bounds_and_the_same_each_time() -> None:
    points = directions(2, 1000) * 20
    values = noise(points, octaves=3)
    assert 0 <= values.min() < 0.35
    assert 0.65 < values.max() <= 1
    np.testing.assert_array_equal(values, noise(points, octaves=3))


@pytest.mark.parametrize("pose", [any_way, on_its_side, lambda _: turned(1, 0.7)])
def test_a_pose_is_a_rotation(pose: object) -> None:
    assert callable(pose)
    rotation = pose(np.random.default_rng(5))
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-5)
    assert np.linalg.det(rotation) == pytest.approx(1, abs=1e-5)


def test_a_heap_lies_on_the_tray_and_hardly_overlaps() -> None:
    balls = [Thing(BALL, GREY, UPRIGHT) for _ in range(30)]
    centres = np.stack([thing.centre for thing in heap(balls, 3.0, np.random.default_rng(0))])
    assert centres[:, 2].min() >= 1 - 1e-5
    assert np.abs(centres[:, :2]).max() <= 3 + 1e-5
    gaps = np.linalg.norm(centres[:, None] - centres, axis=-1) + 9 * np.eye(30)
    assert gaps.min() > 1.6


@pytest.mark.parametrize("name", SCENES)
def test_a_piece_fits_its_bounding_sphere_and_has_a_colour(name: str) -> None:
    body, skin = SCENES[name].piece(np.random.default_rng(4))
    rays = directions(3, 200)
    depth = march(body, rays * np.float32(body.bound + 1), -rays)
    hit = np.isfinite(depth)
    assert hit.any()
    assert (body.distance(rays * np.float32(body.bound)) > 0).all()
    colour = skin.colour((rays * (body.bound + 1 - depth[:, None]))[hit])
    assert colour.min() >= 0
    assert colour.max() <= 1


@pytest.mark.slow
def test_a_seed_gives_the_same_picture_each_time() -> None:
    scene = replace(SCENES["orange"], count=12, half=3.0)
    first, again, other = (np.asarray(picture(scene, 24, seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert first.shape == (24, 24, 3)
    assert (first != other).any()
