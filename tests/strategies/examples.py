"""Strategies of every kind, small enough for brute force."""

from __future__ import annotations

import numpy as np

from deniable.strategies import Banded, Buffered, Dense, Strategy, Toeplitz, Tree


def mixed_signs(steps: int, bands: int, seed: int = 0) -> Banded:
    """A banded strategy with negative entries."""
    random = np.random.default_rng(seed)
    entries = random.normal(size=(steps, bands))
    entries[:, 0] = 1 + random.random(steps)
    entries[np.add.outer(np.arange(steps), np.arange(bands)) >= steps] = 0
    return Banded(entries)


def strategies(steps: int) -> list[Strategy]:
    """One of each kind, and the awkward ones: rising coefficients, negative entries, one band."""
    random = np.random.default_rng(steps)
    lower = np.tril(random.normal(size=(steps, steps)))
    np.fill_diagonal(lower, 1 + random.random(steps))
    few = min(3, steps)
    return [
        Tree(steps),
        Dense(lower),
        Dense(np.abs(lower)),
        Banded(np.ones((steps, 1))),
        mixed_signs(steps, few),
        Toeplitz.square_root(steps),
        Toeplitz.square_root(steps, bands=few),
        Toeplitz([1.0, 2.0, 0.5][:few], steps),
        Toeplitz([1.0, 0.1, 2.0][:few], steps),
        Toeplitz([1.0, -0.7, 0.3][:few], steps),
        Buffered(decays=[0.9, 0.4], weights=[0.1, 0.4], steps=steps),
        Buffered(decays=[0.9, 0.4], weights=[0.8, 0.9], steps=steps),
    ]


def noising(strategy: Strategy) -> np.ndarray:
    """N, such that the noise is N·z: what the stream makes of unit vectors."""
    stream, found, start = strategy.stream(), np.zeros((strategy.steps, strategy.rows)), 0
    for t in range(strategy.steps):
        fresh = np.eye(stream.draws(), strategy.rows, start)
        start += len(fresh)
        found[t] = stream.next(list(fresh))
    return found
