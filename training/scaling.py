"""What training costs on several devices: figures of measured points, and a prediction by Amdahl's law.

The time of an epoch on N devices is taken as `T(N) = serial + parallel / N` hours (Amdahl 1967), fitted to the measured
times by least squares of the relative errors.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from training.errors import TrainingError

# How much faster than the devices are more is a disturbance of the measurement, and not another cause.
LINEAR_TOLERANCE = 0.02
# Relative error of a fit that nobody should plan with.
POOR_FIT = 0.10
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class Point:
    """A measured (or predicted) epoch: number of devices, and its hours of wall time."""

    devices: int
    hours: float

    @classmethod
    def of_rate(cls, devices: int, samples_per_s: float, samples_per_epoch: float) -> "Point":
        """The point of a throughput of all devices together."""
        for name, value in (("samples_per_s", samples_per_s), ("samples_per_epoch", samples_per_epoch)):
            _positive(name, value)
        return cls(devices, samples_per_epoch / samples_per_s / SECONDS_PER_HOUR)


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the sheet; `speed_up` and `efficiency` (speed-up over growth in devices) are against the first point.

    Efficiency is also how much more training a device hour buys than in the first point. `cost` of an epoch is in the
    unit of the price, None without one.
    """

    devices: int
    hours_per_epoch: float
    epochs_per_hour: float
    device_hours_per_epoch: float
    speed_up: float
    efficiency: float
    cost_per_epoch: float | None


@dataclass(frozen=True, slots=True)
class Fit:
    """Amdahl's law through points: hours that no device shortens, and hours that one device needs for the rest.

    `residual` is the root mean square of the relative errors.
    """

    serial_hours: float
    parallel_hours: float
    residual: float

    @property
    def serial_share(self) -> float:
        """The share of one device's time that stays however many there are, 0..1."""
        return self.serial_hours / (self.serial_hours + self.parallel_hours)

    def hours(self, devices: int) -> float:
        """Predicted hours of an epoch."""
        return self.serial_hours + self.parallel_hours / devices


def checked(points: Sequence[Point]) -> list[Point]:
    """Points by number of devices; raises TrainingError for none, bad figures, or one number twice."""
    if not points:
        raise TrainingError("There is nothing to reckon with: give at least one measured point.")
    for point in points:
        _positive("devices", point.devices)
        _positive("hours_per_epoch", point.hours)
    ordered = sorted(points, key=lambda point: point.devices)
    for first, second in pairwise(ordered):
        if first.devices == second.devices:
            raise TrainingError(f"{first.devices} devices are given twice: keep one of them, or their mean.")
    return ordered


def row(point: Point, base: Point, price: float | None = None) -> Row:
    """The figures of a point, beside those of the `base`."""
    speed_up, device_hours = base.hours / point.hours, point.hours * point.devices
    return Row(
        devices=point.devices,
        hours_per_epoch=point.hours,
        epochs_per_hour=1 / point.hours,
        device_hours_per_epoch=device_hours,
        speed_up=speed_up,
        efficiency=speed_up * base.devices / point.devices,
        cost_per_epoch=None if price is None else price * device_hours,
    )


def fit(points: Sequence[Point]) -> Fit:
    """Fit Amdahl's law; neither part is ever negative. Of one point, the serial part is unknown and taken as 0."""
    inverse = np.array([1 / point.devices for point in points])
    hours = np.array([point.hours for point in points])
    # Each row is divided by its time, so that the errors are relative.
    columns = np.stack([1 / hours, inverse / hours], axis=1)
    wanted = np.ones(len(points))
    candidates = [_least_squares(columns, wanted, used) for used in ([1], [0], [0, 1]) if len(used) <= len(points)]
    if len(points) == 1:
        candidates = candidates[:1]
    best = min((found for found in candidates if min(found) >= 0), key=lambda found: _error(columns, wanted, found))
    return Fit(float(best[0]), float(best[1]), _error(columns, wanted, best))


def notes(points: Sequence[Point], found: Fit) -> list[str]:
    """What a reader of the prediction has to know."""
    first, last = points[0], points[-1]
    if len(points) == 1:
        return [
            "One point says nothing about scaling, so nothing is predicted: what is shown for other numbers of devices "
            "assumes ideal scaling, which is never reached. Measure a second number of devices."
        ]
    said = [f"Serial share {found.serial_share:.1%} by Amdahl's law, relative residual {found.residual:.1%}."]
    if found.residual > POOR_FIT:
        said.append("That is no fit: predictions from these points are not to be relied on.")
    elif len(points) == 2:
        said.append("A law of two unknowns meets two points whatever they are: a third would test it.")
    gain = first.hours / last.hours / (last.devices / first.devices)
    if gain > 1 + LINEAR_TOLERANCE:
        said.append(
            f"{last.devices / first.devices:g} times the devices were {first.hours / last.hours:.1f} times as fast: "
            "more than their number changed. Measure both with all else equal before predicting."
        )
    elif last.hours >= first.hours:
        said.append(f"{last.devices} devices were no faster than {first.devices}: find out why before adding more.")
    return said


def _least_squares(columns: np.ndarray, wanted: np.ndarray, used: list[int]) -> np.ndarray:
    found = np.zeros(2)
    found[used] = np.linalg.lstsq(columns[:, used], wanted, rcond=None)[0]
    return found


def _error(columns: np.ndarray, wanted: np.ndarray, found: np.ndarray) -> float:
    return float(np.sqrt(np.mean((columns @ found - wanted) ** 2)))


def _positive(name: str, value: float) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value <= 0:
        raise TrainingError(f"{name} is {value!r}: it must be a number above 0.")
