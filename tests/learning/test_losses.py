"""Declared constants hold, and wrong ones are refuted."""

from __future__ import annotations

from dataclasses import dataclass

import mpmath
import numpy as np
import pytest

from deniable.errors import InvalidArgument
from deniable.learning import losses
from deniable.learning.losses import check

LINEAR = [
    (losses.Logistic(), [-1.0, 1.0]),
    (losses.Hinge(), [-1.0, 1.0]),
    (losses.SmoothedHinge(0.3), [-1.0, 1.0]),
    (losses.Squared(2.0), [-1.0, 0.25, 1.0]),
    (losses.Huber(0.5), [-1.0, 0.25, 1.0]),
    (losses.Pinball(0.8), [-1.0, 0.25, 1.0]),
    (losses.SmoothedPinball(0.8, 0.3), [-1.0, 0.25, 1.0]),
    (losses.Multinomial(4), [0.0, 1.0, 2.0, 3.0]),
]
POINTS = [losses.Distance(), losses.SmoothedDistance(0.1), losses.HalfSquare(2.0)]


@pytest.mark.parametrize(("loss", "labels"), LINEAR, ids=lambda value: type(value).__name__)
def test_constants_of_linear_losses_hold(loss: losses.LinearLoss, labels: list[float]) -> None:
    check(loss, labels=labels)


@pytest.mark.parametrize("loss", POINTS, ids=lambda value: type(value).__name__)
def test_constants_of_point_losses_hold(loss: losses.PointLoss) -> None:
    check(loss, trials=600)


@pytest.mark.parametrize(("loss", "labels"), LINEAR[:7], ids=lambda value: type(value).__name__)
def test_constants_are_attained(loss: losses.LinearLoss, labels: list[float]) -> None:
    """A constant that no margin comes near would be wasted noise: L and β are both reached within 2 %."""
    reach = getattr(loss, "reach", 30.0)
    margins = np.linspace(-reach, reach, 60_001)
    steepest = max(float(np.abs(loss.residuals(margins, np.full(margins.shape, y))).max()) for y in labels)
    assert 0.98 * loss.lipschitz <= steepest <= loss.lipschitz * (1 + 1e-12)
    if loss.smooth:
        turns = [np.diff(loss.residuals(margins, np.full(margins.shape, y))).max() for y in labels]
        assert 0.98 * loss.smoothness <= max(turns) / (margins[1] - margins[0]) <= loss.smoothness * (1 + 1e-6)


def test_multinomial_constants_are_attained() -> None:
    """|p − e_y| → √2 when another class is certain; the Hessian's top eigenvalue is 1/2 for two equal classes."""
    loss = losses.Multinomial(3)
    sure = loss.residuals(np.array([[40.0, 0.0, 0.0]]), np.array([1]))
    assert np.linalg.norm(sure) == pytest.approx(loss.lipschitz)
    even = loss.curvatures(np.array([[0.0, 0.0, -40.0]]), np.array([0]))[0]
    assert np.linalg.eigvalsh(even).max() == pytest.approx(loss.smoothness)


def test_logistic_against_mpmath() -> None:
    for m in (-700.0, -3.0, 0.0, 2.5, 40.0):
        exact = mpmath.log1p(mpmath.exp(-m))
        found = losses.Logistic().values(np.array([m]), np.array([1.0]))[0]
        assert found == pytest.approx(float(exact), rel=1e-13)
        slope = losses.Logistic().residuals(np.array([m]), np.array([1.0]))[0]
        assert slope == pytest.approx(float(-1 / (1 + mpmath.exp(m))), rel=1e-13)


@dataclass(frozen=True)
class Declared(losses.Logistic):
    """The logistic loss with constants of one's own choice."""

    bound: float = 1.0
    bend: float = 0.25
    sign: float = 1.0

    @property
    def lipschitz(self) -> float:
        return self.bound

    @property
    def smoothness(self) -> float:
        return self.bend

    def values(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return self.sign * super().values(margins, labels)

    def residuals(self, margins: np.ndarray, labels: np.ndarray) -> np.ndarray:
        return self.sign * super().residuals(margins, labels)


@pytest.mark.parametrize(
    ("loss", "refuted"),
    [
        (Declared(bound=0.9), "lipschitz"),
        (Declared(bend=0.24), "smoothness"),
        (Declared(sign=-1.0), "convex"),
    ],
)
def test_wrong_constants_are_refuted(loss: Declared, refuted: str) -> None:
    check(Declared(), labels=[-1.0, 1.0])
    with pytest.raises(InvalidArgument, match=refuted):
        check(loss, labels=[-1.0, 1.0])


def test_wrong_strong_convexity_is_refuted() -> None:
    class Flat(losses.Distance):
        strong_convexity = 0.5

    with pytest.raises(InvalidArgument, match="strong_convexity"):
        check(Flat(), trials=400)


def test_labels_are_needed() -> None:
    with pytest.raises(InvalidArgument, match="labels"):
        check(losses.Logistic())
