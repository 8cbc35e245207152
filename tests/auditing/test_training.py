"""Training audits: canaries, the game over many runs, and white-box observations."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from deniable.auditing import statistics
from deniable.auditing.training import (
    checkerboard,
    choose_canary,
    gradient_canary,
    membership_game,
    white_box_mu,
    wrong_label,
)
from deniable.conversions import gaussian_claim_to_gdp
from deniable.errors import InvalidArgument
from deniable.guarantees import GDP, ApproxDP

SIDE, CLASSES, STEPS, CLIP = 6, 3, 12, 1.0
CLAIM = ApproxDP(0.21, 1e-5)
MULTIPLIER = math.sqrt(STEPS) / float(gaussian_claim_to_gdp(CLAIM).mu)
"""The noise multiplier with which all steps together keep the claim of the notes."""


def _pictures() -> Any:
    generator = np.random.default_rng(0)
    labels = generator.integers(0, CLASSES, 40)
    pictures = generator.uniform(0, 0.2, (40, SIDE, SIDE))
    pictures[np.arange(40), labels, :] += 0.8
    return np.column_stack([pictures.reshape(40, -1), labels])


DATA = _pictures()
CANARY = np.append(checkerboard((SIDE, SIDE)).ravel(), wrong_label(0, classes=CLASSES))


def _train(rows: Any, *, noise: float) -> Any:
    """Softmax regression by noisy sums of clipped gradients, all records in every step."""
    X, y = rows[:, :-1], rows[:, -1].astype(int)
    weights = np.zeros((CLASSES, SIDE * SIDE))
    for _ in range(STEPS):
        scores = X @ weights.T
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(y)), y] -= 1
        each = chances[:, :, None] * X[:, None, :]
        norms = np.sqrt((each**2).sum(axis=(1, 2), keepdims=True))
        total = (each * np.minimum(1, CLIP / np.maximum(norms, 1e-12))).sum(axis=0)
        weights = weights - 0.05 * (total + np.random.normal(scale=noise * CLIP, size=weights.shape))
    return weights


def right(rows: Any) -> Any:
    return _train(rows, noise=MULTIPLIER)


def buggy(rows: Any) -> Any:
    """The noise is divided by the batch size although the sum is not: the kind of bug of the notes' case."""
    return _train(rows, noise=MULTIPLIER / len(DATA))


def loss(weights: Any, canary: Any) -> float:
    scores = weights @ canary[:-1]
    return float(np.log(np.exp(scores - scores.max()).sum()) + scores.max() - scores[int(canary[-1])])


def test_the_case_of_the_notes_live() -> None:
    """A correct twin is refuted with probability at most 1e-3; the buggy one stands out in hundreds of runs."""
    settings: dict[str, Any] = {"confidence": 0.999, "runs": 400, "replay": False, "seed": 3, "stop_early": False}
    refuted = membership_game(buggy, data=DATA, canary=CANARY, score=loss, claim=CLAIM, **settings)
    assert refuted.refuted
    assert refuted.lower > 0.21
    consistent = membership_game(right, data=DATA, canary=CANARY, score=loss, claim=CLAIM, **settings)
    assert not consistent.refuted
    assert consistent.lower <= 0.21


def test_the_canary_that_stands_out_is_chosen() -> None:
    candidates = [DATA[0], CANARY, np.append(np.zeros(SIDE * SIDE), 0)]
    chosen = choose_canary(buggy, data=DATA, candidates=candidates, score=loss, pilots=6)
    assert chosen.place == 1
    assert chosen.canary is CANARY


@pytest.mark.parametrize(("epsilon", "steps"), [(1, 20_000), (4, 2000), (8, 600)])
def test_white_box_reaches_nine_tenths(epsilon: int, steps: int) -> None:
    """The median of 21 audits of a true (ε, 1e-5) Gaussian step reaches 0.9 ε, and few bounds exceed ε.

    A bound lies near μ − 1.645/√n, which is 0.95 ε or more; more than 6 of 21 bounds of 95 % above the truth have
    probability 2e-5. Seeds are fixed.
    """
    mu = float(gaussian_claim_to_gdp(ApproxDP(epsilon, 1e-5)).mu)
    canary = gradient_canary(10, clip=2, away_from=np.eye(10)[:9])
    reached = []
    for seed in range(21):
        noisy = canary + np.random.default_rng(seed).normal(scale=2 / mu, size=(steps, 10))
        reached.append(statistics.gdp_epsilon(white_box_mu(noisy, canary=canary).value, delta=1e-5))
    assert np.median(reached) >= 0.9 * epsilon
    assert sum(value > epsilon for value in reached) <= 6


def test_gradient_canaries_have_the_clipping_norm_and_avoid_the_data() -> None:
    rows = np.random.default_rng(0).normal(size=(3, 6))
    canary = gradient_canary(6, clip=1.5, away_from=rows)
    assert np.linalg.norm(canary) == pytest.approx(1.5)
    assert np.abs(rows @ canary).max() < 1e-12


def test_membership_game_accepts_lists_and_refuses_the_rest() -> None:
    def train(values: list[float]) -> float:
        return sum(values) + float(np.random.normal())

    report = membership_game(
        train, data=[0.0], canary=1.0, score=lambda model, _: model, claim=GDP(1), runs=200, seed=1
    )
    assert report.verdict == "consistent"
    with pytest.raises(InvalidArgument, match="insert"):
        membership_game(train, data=3, canary=1.0, score=lambda model, _: model, claim=GDP(1))
