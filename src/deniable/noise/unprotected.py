"""Random numbers that protect nobody: for rows drawn from what is already released, and for fixed starting points.

Noise that protects people is never drawn from these. They live here so that one room answers for all randomness.

>>> fixed_numbers(0).random() == fixed_numbers(0).random()
True
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from deniable.noise.source import secure

UnprotectedNumbers: TypeAlias = np.random.Generator
"""A generator of NumPy."""


def fresh_numbers() -> UnprotectedNumbers:
    """Other numbers every time."""
    return np.random.default_rng(secure().words(4).tolist())


def fixed_numbers(seed: int) -> UnprotectedNumbers:
    """The same numbers every time."""
    return np.random.default_rng(seed)
