"""Kinds of correct mechanisms, each for any ε, with claims that are exactly tight: what an audit must not refute.

Most of them do something to their noise that a careless replay mistakes for a proof: they cut, round, compare, choose,
format, sample. Their noise is NumPy's, whose *values* keep the claims; low bits have a verdict of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import deniable as dn
from deniable.auditing import Pair
from tests.auditing.correct import Correct

UP, DOWN = [1.0, -0.5], [1.0, -0.5, 1.0]
"""Sums of 0.5 and 1.5: records lie in [−1, 1], so one record moves a sum by 1 at most."""

BELOW = [-1.0, 0.5], [-1.0, 0.5, 1.0]
"""Sums of −0.5 and 0.5, on either side of a cut at 0."""

THREE = ([1, 2, 3], [1, 2])
Rows = list[float]


def _sum(rows: Rows) -> float:
    return float(np.clip(rows, -1, 1).sum())


def _laplace(epsilon: float) -> float:
    return float(np.random.laplace(0, 1 / epsilon))


class Holder:
    """A count with integer noise from a generator that it keeps."""

    def __init__(self, epsilon: float) -> None:
        self.generator, self.stop = np.random.default_rng(), 1 - math.exp(-epsilon)

    def __call__(self, rows: list[int]) -> int:
        return len(rows) + int(self.generator.geometric(self.stop)) - int(self.generator.geometric(self.stop))


def _response(epsilon: float) -> bool:
    return bool(np.random.random() < math.exp(epsilon) / (1 + math.exp(epsilon)))


def _leaky(rows: list[int], epsilon: float) -> int:
    """(ε, 0.1)-DP with equality."""
    truth = len(rows) == 3
    return 2 + truth if np.random.random() < 0.1 else int(truth == _response(epsilon))


def _chosen(utilities: list[float], epsilon: float) -> int:
    weights = np.exp(epsilon * np.asarray(utilities) / 2)
    return int(np.random.choice(len(utilities), p=weights / weights.sum()))


def _first_above(answers: list[float], epsilon: float) -> int:
    threshold = np.random.laplace(0, 2 / epsilon)
    above = (i for i, answer in enumerate(answers) if answer + np.random.laplace(0, 4 / epsilon) >= threshold)
    return next(above, -1)


def _crashing(rows: list[int], epsilon: float) -> float:
    if np.random.random() < 0.3:
        raise ValueError("bad luck")
    return len(rows) + round(_laplace(epsilon), 2)


def _missing(rows: Rows, epsilon: float) -> float:
    noisy = _sum(rows) + _laplace(epsilon)
    return noisy if noisy > 0.4 else math.nan


def _sampled(rows: Rows, epsilon: float) -> float:
    return float(np.asarray(rows)[np.random.random(len(rows)) < 0.5].sum() + np.random.normal(0, 1 / epsilon))


NEARLY = Pair([3.0, 3.0, 1.0], [4.0, 2.0, 2.0], check=False)
QUERIES = Pair([0.0] * 5, [1.0] * 5, check=False)

_MECHANISMS: dict[str, tuple[Callable[[float], Callable[[Any], Any]], Any, Callable[[float], Any]]] = {
    "plain Laplace": (lambda e: lambda rows: _sum(rows) + _laplace(e), (UP, DOWN), dn.PureDP),
    "Laplace cut at 0": (lambda e: lambda rows: max(0.0, _sum(rows) + _laplace(e)), BELOW, dn.PureDP),
    "Laplace cut on both sides": (
        lambda e: lambda rows: float(np.clip(_sum(rows) + _laplace(e), -0.25, 0.25)), BELOW, dn.PureDP),
    "an array cut at 0": (
        lambda e: lambda rows: np.maximum(np.array([_sum(rows)]) + np.random.laplace(0, 1 / e, 1), 0), BELOW, dn.PureDP,
    ),
    "rounded to a whole": (lambda e: lambda rows: round(_sum(rows) + _laplace(e)), (UP, DOWN), dn.PureDP),
    "rounded to cents": (lambda e: lambda rows: round(_sum(rows) + _laplace(e), 2), (UP, DOWN), dn.PureDP),
    "a threshold": (lambda e: lambda rows: bool(_sum(rows) + _laplace(e) > 0), BELOW, dn.PureDP),
    "its absolute value": (lambda e: lambda rows: abs(_sum(rows) + _laplace(e)), BELOW, dn.PureDP),
    "missing below a threshold": (lambda e: lambda rows: _missing(rows, e), BELOW, dn.PureDP),
    "single precision": (lambda e: lambda rows: np.float32(_sum(rows) + _laplace(e)), (UP, DOWN), dn.PureDP),
    "a text": (lambda e: lambda rows: f"about {_sum(rows) + _laplace(e):.2f}", (UP, DOWN), dn.PureDP),
    "a dict": (lambda e: lambda rows: {"sum": round(_sum(rows) + _laplace(e), 3), "kind": "a"}, (UP, DOWN), dn.PureDP),
    "three parts of ε": (
        lambda e: lambda rows: [round(len(rows) + _laplace(e / 3), 3) for _ in range(3)], THREE, dn.PureDP),
    "integers from a held generator": (Holder, THREE, dn.PureDP),
    "randomized response": (lambda e: lambda rows: (len(rows) == 3) == _response(e), THREE, dn.PureDP),
    "leaky response": (lambda e: lambda rows: _leaky(rows, e), THREE, lambda e: dn.ApproxDP(e, 0.1)),
    "exponential mechanism": (lambda e: lambda given: _chosen(given, e), NEARLY, dn.PureDP),
    "noisy maximum": (
        lambda e: lambda given: int(np.argmax(np.asarray(given) + np.random.laplace(0, 2 / e, 3))), NEARLY, dn.PureDP),
    "sparse vector": (lambda e: lambda given: _first_above(given, e), QUERIES, dn.PureDP),
    "crashes at random": (lambda e: lambda rows: _crashing(rows, e), THREE, dn.PureDP),
    "plain Gaussian": (
        lambda e: lambda rows: _sum(rows) + np.random.normal(0, 1 / e), (UP, DOWN), lambda e: dn.GDP(e)),
    "Gaussian cut at 0": (
        lambda e: lambda rows: max(0.0, _sum(rows) + np.random.normal(0, 1 / e)), BELOW, lambda e: dn.GDP(e)),
    "a Poisson sample": (
        lambda e: lambda rows: _sampled(rows, e), ([1.0] * 4, [1.0] * 5),
        lambda e: dn.Gaussian(scale=1 / e).sampled(rate=0.5)),
}  # fmt: skip


def _family(name: str, epsilon: float) -> Correct:
    mechanism, pair, claim = _MECHANISMS[name]
    return Correct(mechanism(epsilon), pair, claim(epsilon))


FAMILIES: dict[str, Callable[[float], Correct]] = {name: partial(_family, name) for name in _MECHANISMS}
EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0)
