"""Random words to normal and Laplace numbers, in double precision.

A uniform number is (w + ½)/2⁶³ for a 63-bit whole number w, made from two 32-bit words as a double, so it is never 0
and keeps 53 bits wherever it is small. Then −ln u is exponential, and

- **normal**: √(−2 ln u) times cosine and sine of a 32-bit angle (Box and Muller 1958), two numbers for three words;
- **Laplace**: −ln u with the sign of a third word, one number for three words.

*What floating point may leak.* A double has gaps, the functions are right to about 10⁻¹⁵, and the sum that the noise is
added to is rounded: from the low bits of one released number an attacker could in principle learn more than the real
mechanism tells (Mironov 2012; Jin et al. 2022). Noise never exceeds 9.42 standard deviations, where a true normal pair
has 5·10⁻²⁰ of its mass. `GridNoise` has none of these.

>>> three = torch.tensor([[0, -1], [-(2**31), 5], [1 << 30, 0]], dtype=torch.int32)
>>> [round(float(x), 3) for x in normal(three)]
[0.0, 0.0, 9.419, 0.0]
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

WORDS = 3
"""Random words that one call of a law takes for each column."""


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
