"""Random words to normal and Laplace numbers, in double precision.

A uniform number u is (w + ½)/2⁶³ for a 63-bit whole number w, as a double, so it is never 0 and keeps 53 bits wherever
it is small. Then −ln u is exponential, and

- **normal**: √(−2 ln u) times cosine and sine of a 32-bit angle (Box and Muller 1958), two numbers for three words of
  32 bits;
- **Laplace**: −ln u with the sign of a third word, one number for three words.

`normal` and `laplace` take 32-bit words in rows, as ChaCha20 gives them on a device, and are made to be compiled.
`normal_pair` and `laplace_one` take the 64-bit words of a CPU's source and work in memory that stays in its cache:
there fresh memory costs more than logarithms. The law is the same.

*What floating point may leak.* A double has gaps, the functions are right to about 10⁻¹⁵, and on a GPU noise is rounded
to single precision before it is added: from the low bits of one released number an attacker could in principle learn
more than the real mechanism tells (Mironov 2012; Jin et al. 2022). Noise never exceeds 9.42 standard deviations, where
a true normal pair has 5·10⁻²⁰ of its mass. `GridNoise` has none of these.

>>> three = torch.tensor([[0, -1], [-(2**31), 5], [1 << 30, 0]], dtype=torch.int32)
>>> [round(float(x), 3) for x in normal(three)]
[0.0, 0.0, 9.419, 0.0]
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from deniable.noise.source import Words

WORDS = 3
"""Random words of 32 bits that one call of a law takes for each column."""

ROWS = 3
"""Rows of doubles that a law works in on a CPU."""


def normal(words: Tensor) -> Tensor:
    """Standard normal numbers: 2n doubles from three rows of n words."""
    radius = exponential(words[0], words[1]).mul_(2).sqrt_()
    angle = words[2].double().mul_(math.pi / 2**31)
    return torch.stack([torch.cos(angle), torch.sin(angle)]).mul_(radius).view(-1)


def laplace(words: Tensor) -> Tensor:
    """Laplace numbers of scale 1: n doubles from three rows of n words."""
    return torch.where(words[2] < 0, -1.0, 1.0) * exponential(words[0], words[1])


def exponential(high: Tensor, low: Tensor) -> Tensor:
    """−ln u, for the uniform number that two words make."""
    whole = (high & 0x7FFFFFFF).double().mul_(2.0**32).add_(low).add_(2.0**31 + 0.5)
    return whole.mul_(2.0**-63).log_().neg_()


def normal_pair(words: Words, scale: float, room: Tensor) -> tuple[Tensor, ...]:
    """Normal numbers: two rows of 2n doubles from 3n words of 64 bits, in a room of three such rows."""
    columns = room.shape[1]
    radius = _logarithm(words[:columns], room[0]).mul_(-2 * scale * scale).sqrt_()
    angle = _scaled(words[columns:].view(np.int32), math.pi / 2**31, room[1])
    cosine = torch.cos(angle, out=room[2])
    return cosine.mul_(radius), angle.sin_().mul_(radius)


def laplace_one(words: Words, scale: float, room: Tensor) -> tuple[Tensor, ...]:
    """Laplace numbers: a row of 2n doubles from 3n words of 64 bits."""
    columns = room.shape[1]
    signs = _scaled(words[columns:].view(np.int32), 1.0, room[1])
    return (_logarithm(words[:columns], room[0]).mul_(scale).copysign_(signs),)


def _logarithm(words: Words, out: Tensor) -> Tensor:
    """ln u for a 64-bit word each: |x + ½| is w + ½ for the signed word x and a 63-bit w, x or its complement."""
    return _scaled(words.view(np.int64), 2.0**-63, out).add_(2.0**-64).abs_().log_()


def _scaled(whole: NDArray[np.signedinteger], factor: float, out: Tensor) -> Tensor:
    """Whole numbers as doubles, times a factor."""
    np.copyto(out.numpy(), whole)
    return out.mul_(factor)
