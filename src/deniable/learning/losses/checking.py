"""Try to refute the constants that a loss declares. No refutation is no proof; a refutation is one.

Random pairs of parameters and records are tried, and margins on a fine grid around 0 where corners usually are:
convexity (monotone gradients), gradients against differences of values, |gradient| ≤ L, and |g − g′| ≤ β|θ − θ′|.

>>> from deniable.learning.losses import Logistic
>>> check(Logistic(), labels=[-1.0, 1.0])
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from deniable.errors import InvalidArgument
from deniable.learning.losses.base import Array, LinearLoss, Loss, PointLoss

_SLACK = 1e-7


def check(loss: Loss, *, labels: Sequence[float] = (), reach: float | None = None, trials: int = 4000) -> None:
    """Raise `InvalidArgument` with the constant that was refuted.

    `labels` are the labels that may occur; `reach` is how large a margin may be (default: the loss's own `reach`, or
    8). Low-discrepancy points are used, so that the same loss gets the same verdict every time.
    """
    if isinstance(loss, LinearLoss):
        far = float(reach if reach is not None else getattr(loss, "reach", 8.0))
        _check_linear(loss, np.asarray(labels, dtype=np.float64), far, trials)
    elif isinstance(loss, PointLoss):
        _check_points(loss, trials)
    else:
        raise InvalidArgument("loss", loss, "a LinearLoss or a PointLoss")


def _check_linear(loss: LinearLoss, labels: Array, reach: float, trials: int) -> None:
    if not labels.size:
        raise InvalidArgument("labels", [], "the labels that may occur", "For example labels=[-1.0, 1.0].")
    k = loss.outputs
    points = _points(trials, 2 * k + 1)
    margins = (2 * points[:, : 2 * k] - 1) * reach
    first, second = margins[:, :k], margins[:, k : 2 * k].copy()
    second[::2] = np.clip(first[::2] + (points[::2, k : 2 * k] - 0.5) * reach * 1e-3, -reach, reach)  # close pairs
    named = labels[(points[:, -1] * len(labels)).astype(int)]
    shaped = [m[:, 0] if k == 1 else m for m in (first, second)]
    one, two = (np.asarray(loss.residuals(m, named)).reshape(trials, k) for m in shaped)
    values = [np.asarray(loss.values(m, named)) for m in shaped]
    _judge(loss, first, second, one, two, values[0], values[1])


def _check_points(loss: PointLoss, trials: int) -> None:
    reach = min(getattr(loss, "reach", 2.0) / 2, 1.0)
    for d in (1, 2, 5):
        points = (2 * _points(trials, 3 * d) - 1) * reach / math.sqrt(d)
        x, first, second = points[:, :d], points[:, d : 2 * d], points[:, 2 * d :].copy()
        second[::2] = first[::2] + second[::2] * 1e-3
        second[1::4] = x[1::4] + (x[1::4] - first[1::4]) * 1e-3  # beside the corner
        rows = range(trials)
        one, two = (np.vstack([loss.gradients(t[i], x[i : i + 1]) for i in rows]) for t in (first, second))
        before, after = (np.array([loss.values(t[i], x[i : i + 1])[0] for i in rows]) for t in (first, second))
        _judge(loss, first, second, one, two, before, after)


def _judge(loss: Loss, a: Array, b: Array, at_a: Array, at_b: Array, before: Array, after: Array) -> None:
    longest = float(max(np.linalg.norm(at_a, axis=1).max(), np.linalg.norm(at_b, axis=1).max()))
    if longest > loss.lipschitz * (1 + _SLACK):
        raise InvalidArgument("lipschitz", loss.lipschitz, f"at least {longest:.6g}, a gradient that was found")
    move, turn = b - a, at_b - at_a
    # Convexity: f(b) ≥ f(a) + ⟨g(a), b − a⟩, which also catches gradients that are not those of the values.
    gap = after - before - np.einsum("ij,ij->i", at_a, move)
    other = before - after + np.einsum("ij,ij->i", at_b, move)
    slack = _SLACK * (1 + np.abs(before) + np.abs(after))
    if (gap < -slack).any() or (other < -slack).any():
        raise InvalidArgument("loss", loss, "convex, with residuals that are the derivatives of its values")
    distance = np.linalg.norm(move, axis=1)
    apart = distance > 1e-9
    steep = float((np.linalg.norm(turn[apart], axis=1) / distance[apart]).max())
    if steep > loss.smoothness * (1 + 1e-5) + _SLACK:
        raise InvalidArgument("smoothness", loss.smoothness, f"at least {steep:.6g}, a curvature that was found")
    flat = float((np.einsum("ij,ij->i", turn, move)[apart] / distance[apart] ** 2).min())
    if flat < loss.strong_convexity * (1 - 1e-5) - _SLACK:
        raise InvalidArgument("strong_convexity", loss.strong_convexity, f"at most {flat:.6g}, as was found")


def _points(count: int, dimensions: int) -> Array:
    """Evenly spread points of the unit cube: additive recurrence by powers of the generalised golden ratio."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1 + ratio) ** (1 / (dimensions + 1))
    steps = (1 / ratio) ** np.arange(1, dimensions + 1)
    return np.asarray((0.5 + np.outer(np.arange(1, count + 1), steps)) % 1)
