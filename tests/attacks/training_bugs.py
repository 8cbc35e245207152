"""Training: clipping, batches, sampling, stopping."""

from __future__ import annotations

from typing import Any

import numpy as np

from deniable.events import Gaussian
from deniable.guarantees import GDP, PureDP
from deniable.units import ZERO_OUT
from tests.attacks.zoo import broken

SMALL = np.full((8, 4), 0.1)
GRADIENTS = np.vstack([SMALL, [[50.0, 0, 0, 0]]])
CLIP = 1.0


def _clipped(rows: Any) -> Any:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows * np.minimum(1, CLIP / np.maximum(norms, 1e-12))


def _normal(scale: float, size: int = 4) -> Any:
    return np.random.normal(scale=scale, size=size)


@broken((GRADIENTS, SMALL), GDP(1))
def clipping_the_average(rows: Any) -> Any:
    """The average is clipped, not each gradient: one record can turn all of it."""
    mean = rows.mean(axis=0)
    return mean * min(1, CLIP / np.linalg.norm(mean)) + _normal(CLIP / 8)


@broken((GRADIENTS, SMALL), GDP(1))
def divided_by_the_batch_that_came(rows: Any) -> Any:
    """The batch size is private: the divisor must be the expected one."""
    return (_clipped(rows).sum(axis=0) + _normal(CLIP)) / len(rows)


@broken((GRADIENTS, SMALL), GDP(1))
def noise_divided_twice(rows: Any) -> Any:
    """The sum is averaged, and so is its noise, which was already the noise of an average."""
    return (_clipped(rows).sum(axis=0) + _normal(CLIP / 8)) / 8


@broken((GRADIENTS, SMALL), GDP(1))
def no_clipping_at_all(rows: Any) -> Any:
    return rows.sum(axis=0) + _normal(CLIP)


@broken((np.vstack([SMALL, np.full((1, 4), 9.0)]), SMALL), GDP(1))
def clipping_each_coordinate(rows: Any) -> Any:
    """Every coordinate within C: the norm of four of them may be 2C."""
    return np.clip(rows, -CLIP, CLIP).sum(axis=0) + _normal(CLIP)


@broken((GRADIENTS, SMALL), GDP(1))
def several_rows_of_one_person(rows: Any) -> Any:
    """Each row is clipped; a person with a large row appears three times, once per augmentation."""
    copies = np.repeat(rows, 3, axis=0)
    return _clipped(copies).sum(axis=0) + _normal(CLIP)


@broken((np.vstack([SMALL, [[1.0, 0, 0, 0]]]), np.vstack([SMALL, [[0.0, 0, 0, 0]]])),
        Gaussian(1, relation=ZERO_OUT).sampled(rate=0.1))  # fmt: skip
def fixed_batches_accounted_as_sampling(rows: Any) -> Any:
    """Every record is in its batch; the claim counts on one in ten."""
    return rows.sum(axis=0) + _normal(1.0)


@broken((GRADIENTS, SMALL), GDP(0.1), by="testing", best=(1.0, 0.0))
def stopping_on_the_private_loss(rows: Any) -> int:
    """Training stops when the loss on private data is low; how long it took is released."""
    loss, steps = float(np.abs(rows).sum()), 0
    while loss > 1 and steps < 100:
        loss, steps = loss / 2, steps + 1
    return steps


@broken((GRADIENTS, SMALL), PureDP(1), by="testing", best=(1.0, 0.0))
def sample_released_with_the_answer(rows: Any) -> Any:
    """Which records were sampled must stay secret."""
    chosen = np.random.random(len(rows)) < 0.5
    return len(chosen), float(_clipped(rows)[chosen].sum() + np.random.laplace(scale=8))


@broken((GRADIENTS, SMALL), GDP(1))
def half_the_noise_by_torch(rows: Any) -> Any:
    """The same bug with another library's generator."""
    import torch

    return _clipped(rows).sum(axis=0) + 0.5 * torch.randn(4, dtype=torch.float64).numpy()
