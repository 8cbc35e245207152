"""Convex losses with certified constants.

A loss of a linear model sees a record through its margins ⟨row, θ⟩, with |row| ≤ 1: its constants are bounds on the
first and second derivative in the margin. A loss of points sees θ itself. Constants are promises on which privacy
rests; each is proved beside its formula, and `check` tries to refute them.

| loss | in the margin m (or the point) | Lipschitz L | smoothness β |
|---|---|---|---|
| `Squared(reach)` | (m − y)²/2, |y| ≤ 1, |m| ≤ reach | 1 + reach | 1 |
| `Huber(width)` | (m − y)²/2 near 0, linear beyond `width` | width | 1 |
| `Pinball(level)` | level·(y − m) below y, (1 − level)·(m − y) above | max(level, 1 − level) | none |
| `SmoothedPinball(level, width)` | the same, rounded within `width` of y | max(level, 1 − level) | 1/(2 width) |
| `Logistic()` | ln(1 + e^{−ym}) | 1 | 1/4 |
| `Multinomial(k)` | ln Σ e^{m_j} − m_y | √2 | 1/2 |
| `Hinge()` | max(0, 1 − ym) | 1 | none |
| `SmoothedHinge(width)` | hinge, rounded within `width` of its corner | 1 | 1/(2 width) |
| `Distance()` | |θ − x| | 1 | none |
| `SmoothedDistance(width)` | √(|θ − x|² + width²) − width | 1 | 1/width |
| `HalfSquare(reach)` | |θ − x|²/2, |θ − x| ≤ reach | reach | 1 |
"""

from deniable.learning.losses.base import LinearLoss, PointLoss
from deniable.learning.losses.checking import check
from deniable.learning.losses.classification import Hinge, Logistic, Multinomial, SmoothedHinge
from deniable.learning.losses.points import Distance, HalfSquare, SmoothedDistance
from deniable.learning.losses.regression import Huber, Pinball, SmoothedPinball, Squared

__all__ = [
    "Distance",
    "HalfSquare",
    "Hinge",
    "Huber",
    "LinearLoss",
    "Logistic",
    "Multinomial",
    "Pinball",
    "PointLoss",
    "SmoothedDistance",
    "SmoothedHinge",
    "SmoothedPinball",
    "Squared",
    "check",
]
