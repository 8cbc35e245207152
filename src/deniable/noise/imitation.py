"""Integer noise in place of the continuous Gaussian: how much wider, and what is left between the two.

Let the sum x be an integer and let Y = x + N(0, τ²). Round Y at random to the integer k with probability
exp(−(k − Y)²/(2r²))/Z(Y). By Poisson summation Z(Y) = r√(2π)(1 + η(Y)) with |η| ≤ η₀ = 2 Σ_{j≥1} exp(−2π²r²j²). The
product of two Gaussians integrates to one of variance σ² = τ² + r², so the law P̃ of k and the discrete Gaussian P of
variance σ² around x satisfy (1 − η₀)/(1 + η₀) ≤ P/P̃ ≤ (1 + η₀)/(1 − η₀) at every integer. P̃ is a post-processing of
N(0, τ²): P promises what the Gaussian of variance τ² promises, but for a factor e^{±c}, c = 2.1η₀, per number drawn.

Where only a sum over a *sample* of the records gets noise, or a minimisation runs on it, read the factor as a leak:
P ≥ (1 − 2η₀)·P̃ says that a mechanism which gives itself away with probability 2η₀ and otherwise rounds the continuous
answer can imitate P, on both neighbours at once. So δ grows by `LEAK` per number drawn.

>>> round(float(LEAK) * 1e308)
2
"""

from __future__ import annotations

from fractions import Fraction

SPREAD = 36
"""r²: what is added to the variance, in squared steps of the integers."""

LEAK = Fraction(2, 10**308)
"""2.1η₀ for r² = 36 is 4.2·exp(−72π²)·(1 + …) = 1.02·10⁻³⁰⁸; rounded up."""
