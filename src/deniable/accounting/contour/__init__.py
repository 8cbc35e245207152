"""The contour engine: δ(ε) and ε(δ) of a composition as an integral in the complex plane, with a proven bracket.

`contour_curve(folded)` answers for Gaussian, Laplace, discrete Laplace and discrete Gaussian noise, randomized
response and pure promises, the exponential mechanism, Poisson-sampled Gaussian and Laplace noise, and every mixture of
them, at a cost that does not grow with the counts. It returns None for steps it has no transform for. A curve raises
`NotCertified` when it cannot prove a narrow bracket for one query (few compositions of a loss with large atoms, for
instance). There its `smoothed` may answer, a little less narrowly, or the grid engine.

`docs/accounting-contour.md` bounds each error term, line by line.

>>> from deniable.accounting.fold import fold
>>> from deniable.events import Gaussian
>>> curve = contour_curve(fold(Gaussian(scale=1.1).sampled(rate=256 / 60_000) * 14_063))
>>> found = curve.epsilon_bracket(1e-5)
>>> print(f"{found.lower:.8f} {found.upper:.8f}")
2.38168973 2.38168973
"""

from __future__ import annotations

from deniable.accounting.certificate import NotCertified
from deniable.accounting.contour.curve import ContourCurve, contour_curve

__all__ = ["ContourCurve", "NotCertified", "contour_curve"]
