"""How far a whitened fit may be from the truth: noise of the steps, noise of sampling, and what has not converged.

In the eigenbasis of the noisy second moment all of a descent is diagonal. A direction of curvature h follows

    speed ← m·speed + h(θ − θ*) + noise,    θ ← (θ − η(1 − m)·speed)/pull,

which is linear in start, optimum θ* and noises. So the released average is (1 − G)·start + G·θ* + Σ_t w_t·noise_t, with
G and the w_t computed here by running the recursion on units. Three things are added up:

* the noise of the steps, whose size is known exactly: s²·Σ w_t²;
* sampling: θ* itself is an estimate, of variance dispersion/(n·h) (one for a likelihood, the squared residual scale for
  least squares);
* what has not converged: the optimum is estimated as start + (average − start)/G, so both are divided by G.

Curvatures come from the noisy second moment, each lowered by twice its noise, so that a direction which is noise widens
the interval. For logistic regression the mean of p(1 − p) is that of margins that are normal with the released moments.

*What is assumed*: the model is right (as in every interval of a linear model), records are many, clipping is rare (the
clip grows as the noise number falls), and rows are not too far from elliptic. So these are approximate intervals; tests
hold their coverage on simulated tables to what they say.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]

_LEAST = 0.05
"""A direction of which less than this part has converged says nothing: its interval is as for this part."""


@dataclass(frozen=True)
class CoefficientSpread:
    """An estimate without shrinkage, and its covariance, in the coordinates of z."""

    estimate: NDArray[np.float64]
    covariance: NDArray[np.float64]

    def through(self, matrix: Array) -> CoefficientSpread:
        """The same after a linear map."""
        return CoefficientSpread(np.asarray(matrix @ self.estimate), np.asarray(matrix @ self.covariance @ matrix.T))

    @property
    def deviations(self) -> NDArray[np.float64]:
        """Standard deviations."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))


@dataclass(frozen=True)
class DescentRecursion:
    """A descent in one direction, for all directions at once."""

    curvature: NDArray[np.float64]
    step: float
    momentum: float
    pull: NDArray[np.float64]
    steps: int
    kept: int

    def average(self, *, optimum: float = 0.0, shock: int = -1) -> NDArray[np.float64]:
        """The average of the last iterates from 0: towards an optimum, or after one unit of noise at a step."""
        theta, speed, total = (np.zeros_like(self.curvature) for _ in range(3))
        for turn in range(self.steps):
            speed = self.momentum * speed + self.curvature * (theta - optimum) + float(turn == shock)
            theta = (theta - self.step * (1 - self.momentum) * speed) / self.pull
            if turn >= self.steps - self.kept:
                total += theta
        return np.asarray(total / self.kept)

    def spread(
        self, average: Array, start: Array, *, noise: float, dispersion: float, size: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The optimum that the average points at, and its variance, in every direction."""
        reached = np.maximum(self.average(optimum=1.0), _LEAST)
        shocks = sum(np.square(self.average(shock=turn)) for turn in range(self.steps))
        sampling = dispersion / (size * np.maximum(self.curvature, 1e-300))
        return start + (average - start) / reached, np.asarray(noise**2 * shocks / reached**2 + sampling)


def mean_curvature(center: float, variance: float) -> float:
    """The mean of p(1 − p) over normal margins, halfway to that along θ itself, where margins are far out."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    margins = center + math.sqrt(max(variance, 0.0)) * nodes
    chances = 1 / (1 + np.exp(-np.clip(margins, -500, 500)))
    bends = weights / weights.sum() * chances * (1 - chances)
    return float((bends * (1 + nodes**2)).sum() / 2)
