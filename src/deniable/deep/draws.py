"""Drawing batches: exact samples of places 0 … size−1 from a source of random words.

A Poisson sample tosses a coin of the exact rational rate for every unit. With 2⁻ᵏ the least power of two above the
rate, k words and-ed together are 64 coins of bias 2⁻ᵏ; each unit that survives tosses one exact coin of bias rate·2ᵏ.
That is the same law at k/64 of a word per unit. No floating-point number decides anything.

>>> from deniable.noise import InsecureSource
>>> poisson(1000, rate=Fraction(1, 50), source=InsecureSource(1)).size
23
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from deniable import noise
from deniable.noise import Source

Indices = NDArray[np.int64]


def poisson(size: int, *, rate: Fraction, source: Source) -> Indices:
    """Every one of `size` places with probability `rate`, on its own."""
    if rate == 1:
        return np.arange(size)
    halvings = 0
    while rate * 2 ** (halvings + 1) <= 1:
        halvings += 1
    if not halvings:
        return np.flatnonzero(noise.bernoulli(rate, size, source=source))
    words = -(-size // 64)
    coins = np.bitwise_and.reduce(source.words(words * halvings).reshape(halvings, words), axis=0)
    kept = np.flatnonzero(np.unpackbits(coins.view(np.uint8), count=size))
    return kept[noise.bernoulli(rate * 2**halvings, kept.size, source=source)]


def without_replacement(size: int, *, batch: int, source: Source) -> Indices:
    """`batch` of `size` places, every such set equally likely: the first distinct ones of a row of uniform draws."""
    if 2 * batch > size:
        return np.sort(noise.permutation(size, source=source)[:batch])
    drawn = np.empty(0, dtype=np.int64)
    while True:
        drawn = np.concatenate([drawn, noise.uniform(size, batch, source=source)])
        values, first = np.unique(drawn, return_index=True)
        if values.size >= batch:
            return values[np.argsort(first)[:batch]]


def fixed_batch(order: Indices, *, batch: int, step: int) -> Indices:
    """The batch of a step (from 0): the same cut of the order in every epoch."""
    per_epoch = -(-order.size // batch)
    start = step % per_epoch * batch
    return order[start : start + batch]
