"""The privacy-loss random variable L = ln P(Y)/Q(Y), Y ~ P, of every event.

`losses(event)` gives one `PrivacyLoss`, or two when the order of the neighbours matters (removing a unit, then adding
one). The loss of a composition is the sum of the losses of its parts, so means, variances and log moment generating
functions add. P and Q are the dominating pair that the accountant uses: for a mechanism with a law of its own that is
the mechanism's worst pair; for a promise it is the worst pair that the promise allows.

Everything is read off the tails of the law by integrals whose integrands are nowhere negative:

    E L         = ∫₀^∞ l·e^l Q[L > l] dl + ∫_{−∞}^0 (−l)·e^l Q[L ≤ l] dl,            because E_Q e^L = 1
    E e^{λL} − 1 = (λ+1)∫₀^∞ (e^{λl} − 1)·e^l Q[L > l] dl + (λ+1)∫_{−∞}^0 (1 − e^{λl})·e^l Q[L ≤ l] dl

so that the tiny losses of a sampled step keep their digits (about nine). The three tail bounds of the lecture notes are
`tail_markov` (Markov's inequality for e^L), `tail_chernoff` (the best e^{λL}: with λ = α − 1 this *is* RDP with the
classic conversion, the moments accountant) and `tail_hoeffding` (bounded losses). The central limit theorem gives an
estimate.

>>> from deniable.events import Gaussian
>>> (loss,) = losses(Gaussian(scale=2) * 4)
>>> round(loss.mean, 9), round(loss.variance, 9)                 # N(ρ, 2ρ) with ρ = 1/2
(0.5, 1.0)
>>> loss.tail(3) < loss.tail_chernoff(3) < loss.tail_markov(3)
True
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from deniable import _checks
from deniable._checks import Number
from deniable.accounting.fold import fold, within_floats
from deniable.errors import NotSupported
from deniable.events import Event

if TYPE_CHECKING:
    from deniable.accounting.pairs.law import Array, Law

_MARGIN = 1e-9
"""The relative error of an integral here; bounds are rounded up by it."""

_CUT = 1e-200
"""A smaller probability of an infinite loss is the cut tail of a law on the integers. Moments leave it out; tail bounds
count it."""

_NEGLIGIBLE = -70.0
"""The logarithm of a share that does not matter to an integral."""


def losses(event: Event) -> tuple[PrivacyLoss, ...]:
    """The loss of an event: one, or two when removing a unit and adding one differ."""
    from deniable.accounting.pairs import directions

    return tuple(PrivacyLoss(side) for side in directions(within_floats(fold(event))))


@dataclass(frozen=True, eq=False)
class PrivacyLoss:
    """A sum of independent losses: each law with how often it is added."""

    terms: tuple[tuple[Law, int], ...]

    @property
    def infinite(self) -> float:
        """P[L = ∞]: the probability that everything is told."""
        kept = math.fsum(n * math.log1p(-law.infinite) if law.infinite < 1 else -math.inf for law, n in self.terms)
        return max(-math.expm1(kept), 0.0)

    @cached_property
    def mean(self) -> float:
        """E L = KL(P‖Q)."""
        return math.fsum(n * _mean(law) for law, n in self.terms)

    @cached_property
    def variance(self) -> float:
        """Var L."""
        return math.fsum(n * _variance(law) for law, n in self.terms)

    @property
    def range(self) -> tuple[float, float]:
        """The smallest and the largest finite loss."""
        return sum(n * law.low for law, n in self.terms), sum(n * law.high for law, n in self.terms)

    def log_mgf(self, order: Number) -> float:
        """ln E e^{λL} for λ > 0; λ·D_{λ+1} in Rényi's terms."""
        at = float(_checks.positive("order", order))
        return math.fsum(n * _log_mgf(law, at) for law, n in self.terms)

    # tails

    def tail(self, at: Number) -> float:
        """P[L > t] of a single step, from its law; a sum of steps has `lattice`, and the accountant's δ(ε)."""
        import numpy as np

        law = self._only("the exact tail")
        place = float(_checks.number("at", at))
        return float(law.above(np.array([place]))[0][0])

    def tail_markov(self, at: Number) -> float:
        """P[L ≥ t] ≤ E e^L · e^{−t}: Markov's inequality, for e^L, which is not negative. Upper bound."""
        return _probability(self.log_mgf(1) - float(_checks.number("at", at)), self.infinite)

    def tail_chernoff(self, at: Number) -> float:
        """P[L ≥ t] ≤ min over λ > 0 of e^{ln E e^{λL} − λt}. Upper bound."""
        from deniable.numerics.roots import lowest

        place = float(_checks.number("at", at))
        if place <= self.mean:
            return 1.0
        guess = max((place - self.mean) / max(self.variance, 1e-300), 1e-12)
        best = lowest(lambda order: self.log_mgf(order) - order * place, guess / 100, min(guess * 100, 1e9))[1]
        return _probability(best, self.infinite)

    def tail_hoeffding(self, at: Number) -> float:
        """P[L ≥ t] ≤ exp(−2(t − E L)²/Σ(b − a)²) for losses in [a, b]. Upper bound; for adaptive steps, Azuma's."""
        place = float(_checks.number("at", at))
        spread = math.fsum(n * (law.high - law.low) ** 2 for law, n in self.terms)
        if not math.isfinite(spread) or math.isinf(self.mean):
            raise NotSupported("Hoeffding's inequality needs bounded losses; use tail_chernoff")
        if place <= self.mean or spread == 0:
            return 1.0 if place <= self.mean else 0.0
        return _probability(-2 * max(place - self.mean * (1 + _MARGIN), 0.0) ** 2 / spread, self.infinite)

    def estimate_tail(self, at: Number) -> float:
        """P[L > t] of a normal with this mean and variance: the central limit theorem's estimate, no bound."""
        from scipy.special import ndtr

        place = float(_checks.number("at", at))
        if self.variance == 0:
            return float(place < self.mean)
        return float(ndtr((self.mean - place) / math.sqrt(self.variance)))

    # shape

    @property
    def atoms(self) -> tuple[tuple[float, float], ...]:
        """(loss, probability) of a single step whose loss takes finitely many values."""
        from deniable.accounting.pairs.law import LossAtoms

        law = self._only("atoms")
        if not isinstance(law, LossAtoms):
            raise NotSupported("this loss has a density; use density(at)")
        return tuple(zip(law.losses.tolist(), law.p.tolist(), strict=True))

    def density(self, at: Number) -> float:
        """The density of a single step's loss, by a difference of its tail: for pictures and comparisons."""
        import numpy as np

        law = self._only("a density")
        place = float(_checks.number("at", at))
        width = 1e-4 * math.sqrt(self.variance)
        edges = np.array([place - width, place + width])
        under = law.below(edges)[0] if place < self.mean else -law.above(edges)[0]
        return max(float(under[1] - under[0]) / (2 * width), 0.0)

    def lattice(self, *, points: int = 2**14) -> tuple[Array, Array]:
        """Losses on an even grid and their probabilities, parts convolved by FFT: a picture, not a bound.

        Every step's loss is rounded to the grid, so thousands of small steps need more points; `density_within` draws
        them without.
        """
        import numpy as np

        size = _checks.count("points", points, least=16)
        deviation = math.sqrt(self.variance)
        low, high = self.mean - 12 * deviation, self.mean + 12 * deviation
        if not math.isfinite(high - low):
            raise NotSupported("a loss that may be infinite has no picture; leave the failing part out")
        step = (high - low) / size if deviation else 1.0 / size
        transform = np.ones(size // 2 + 1, dtype=complex)
        offset = 0
        for law, count in self.terms:
            centre = round(_mean(law) / step)
            edges = np.asarray((np.arange(-size // 2, size // 2 + 1) - 0.5 + centre) * step, dtype=np.float64)
            masses = np.diff(law.below(edges)[0])
            transform *= np.fft.rfft(np.fft.ifftshift(masses[:size])) ** count
            offset += centre * count
        summed = np.fft.fftshift(np.maximum(np.fft.irfft(transform, size), 0.0))
        places = np.asarray((np.arange(-size // 2, size // 2)[:size] + offset) * step, dtype=np.float64)
        return places, np.asarray(summed, dtype=np.float64)

    def density_within(self, places: Sequence[float], *, window: Number) -> list[float]:
        """The density of the loss at some places, over a normal window: a picture, not a bound.

        The window's transform vanishes beyond nine times its inverse. So a few hundred values of E e^{itL} give the
        density of any number of steps, and no step is rounded.

        Args:
            places: where the density is wanted.
            window: the standard deviation of the window; atoms closer than that become one smooth line.
        """
        import numpy as np

        width = float(_checks.positive("window", window))
        deviation = math.sqrt(self.variance)
        if not math.isfinite(deviation + self.mean):
            raise NotSupported("a loss that may be infinite has no picture; leave the failing part out")
        period = 2 * (max(abs(place - self.mean) for place in places) + 12 * (deviation + width))
        waves = 2 * math.pi / period * np.arange(1, math.ceil(9 * period / (2 * math.pi * width)) + 1, dtype=np.float64)
        transform: Any = np.exp(-((width * waves) ** 2) / 2)
        for law, count in self.terms:
            transform = transform * _centred_transform(law, waves) ** count
        turned = np.exp(-1j * np.outer(np.asarray(places) - self.mean, waves))
        density = (1 + 2 * (turned @ transform).real) / period
        return [float(value) for value in np.maximum(density, 0.0)]

    def _only(self, wanted: str) -> Law:
        (law, count), *more = self.terms
        if more or count > 1:
            raise NotSupported(
                f"{wanted} of a sum of losses is not given in closed form; use lattice() or the accountant"
            )
        return law


def draw_loss(loss: PrivacyLoss, axes: Any) -> None:
    """Plot the law of a loss on Matplotlib axes, next to the normal law of the central limit theorem."""
    import numpy as np

    deviation = math.sqrt(loss.variance)
    places = np.linspace(loss.mean - 6 * deviation, loss.mean + 6 * deviation, 400)
    axes.plot(places, loss.density_within(places.tolist(), window=deviation / 6), "-", label="privacy loss")
    bell = np.exp(-((places - loss.mean) ** 2) / (2 * loss.variance)) / (deviation * math.sqrt(2 * math.pi))
    axes.plot(places, bell, "--", label="normal law with the same mean and variance (estimate)")
    axes.axvline(loss.mean, linestyle=":", label=f"mean {loss.mean:.3g}")
    axes.set_xlabel("loss ln P/Q")
    axes.set_ylabel("density")
    axes.legend()


def _centred_transform(law: Law, waves: Array) -> Any:
    """E e^{it(L − E L)} at every t of `waves`, to some five digits."""
    import numpy as np

    from deniable.accounting.pairs.law import LossAtoms
    from deniable.accounting.pairs.normal import NormalLaw

    if isinstance(law, NormalLaw):
        return np.exp(-((law.mu * waves) ** 2) / 2)
    if isinstance(law, LossAtoms):
        places, masses = law.losses, law.p
    else:
        # Cells of 1/250 of a standard deviation in the middle, and of 0.4 % of their distance further out.
        edges = _mean(law) + math.sqrt(_variance(law)) * np.sinh(np.linspace(-9.0, 9.0, 4501))
        masses, places = np.diff(law.below(edges)[0]), (edges[1:] + edges[:-1]) / 2
    kept = masses > 0
    places, masses = places[kept], masses[kept] / masses[kept].sum()
    return np.exp(1j * np.outer(waves, places - masses @ places)) @ masses


def _mean(law: Law) -> float:
    """E L."""
    import numpy as np

    from deniable.accounting.pairs.law import LossAtoms
    from deniable.accounting.pairs.normal import NormalLaw

    if law.infinite > _CUT:
        return math.inf
    if isinstance(law, NormalLaw):
        return law.mu**2 / 2
    if isinstance(law, LossAtoms):
        # Σ q·(l e^l − e^l + 1) has no negative term.
        return float(np.sum(law.p * law.losses - law.p + law.q)) + law.vanishing
    return math.exp(_log_integral(law, 0.0, lambda at: np.log(np.abs(at))))


def _variance(law: Law) -> float:
    """E L² − (E L)²."""
    import numpy as np

    from deniable.accounting.pairs.law import LossAtoms
    from deniable.accounting.pairs.normal import NormalLaw

    if law.infinite > _CUT:
        return math.inf
    if isinstance(law, NormalLaw):
        return law.mu**2
    if isinstance(law, LossAtoms):
        second = float(np.sum(law.p * law.losses**2))
    else:
        # E L² = ∫₀^∞ 2l·P[L > l] + ∫_{−∞}^0 −2l·P[L ≤ l]
        logs = [_log_panels(law, sign, 0.0, lambda at, mass: np.log(2 * np.abs(at) * mass)) for sign in (1.0, -1.0)]
        second = math.fsum(map(math.exp, logs))
    return max(second - _mean(law) ** 2, 0.0)


def _log_mgf(law: Law, order: float) -> float:
    """ln E e^{λL}; infinite where the loss may be, or where the floats end before the integral does."""
    import numpy as np
    from scipy.special import logsumexp

    from deniable.accounting.pairs.law import LossAtoms
    from deniable.accounting.pairs.normal import NormalLaw

    if law.infinite > _CUT:
        return math.inf
    if isinstance(law, NormalLaw):
        return order * (order + 1) * law.mu**2 / 2
    if isinstance(law, LossAtoms):
        if order * max(abs(law.low), abs(law.high)) > 30:
            kept = law.p > 0
            return float(logsumexp(order * law.losses[kept] + np.log(law.p[kept])))
        # q·(e^{(λ+1)l} − 1 − (λ+1)(e^l − 1)) = p·(e^{λl} − (λ+1)) + λq, and Q's own mass beyond −∞ counts λ each.
        grown = law.p * (np.expm1(order * law.losses) - order) + order * law.q
        return math.log1p(max(float(np.sum(grown)) + order * law.vanishing, 0.0))
    excess = math.log(order + 1) + _log_integral(law, order, lambda at: _log_grown(order * at))
    return math.log1p(math.exp(excess)) if excess < 30 else excess


def _log_grown(x: Array) -> Array:
    """ln |e^x − 1|."""
    import numpy as np

    large = x > 30
    return np.where(large, x, np.log(np.abs(np.expm1(np.where(large, 1.0, x)))))


def _log_integral(law: Law, order: float, log: Callable[[Array], Array]) -> float:
    """ln of ∫₀^∞ w(l)·e^l Q[L > l] dl + ∫_{−∞}^0 w(l)·e^l Q[L ≤ l] dl for a weight w given by its logarithm."""
    import numpy as np

    above = _log_panels(law, 1.0, order, lambda at, _: log(at) + _safe_log(law.above(at)[1]))
    below = _log_panels(law, -1.0, 0.0, lambda at, _: log(at) + at + _safe_log(law.below(at)[1]))
    return float(np.logaddexp(above, below))


def _safe_log(mass: Array) -> Array:
    import numpy as np

    return np.log(np.maximum(mass, 5e-324))


def _log_panels(law: Law, sign: float, order: float, log: Callable[[Array, Array], Array]) -> float:
    """ln of an integral over one tail; `log` gets places and their P-mass. Gauss–Legendre panels, finer toward 0."""
    import numpy as np
    from scipy.special import logsumexp

    end = _reach(law, sign, order)
    if end <= 0 or math.isinf(end):
        return -math.inf if end <= 0 else math.inf
    nodes, weights = np.polynomial.legendre.leggauss(10)
    jumps = np.array([sign * jump for jump in law.jumps if 0 < sign * jump < end])
    even = np.linspace(0.0, end, 129)
    marks = np.unique(np.concatenate([even, np.geomspace(1e-16 * end, end, 385), jumps]))
    middle, half = (marks[1:] + marks[:-1]) / 2, (marks[1:] - marks[:-1]) / 2
    at = (middle[:, None] + half[:, None] * nodes[None, :]).ravel()
    mass = law.above(sign * at)[0] if sign > 0 else law.below(sign * at)[0]
    return float(logsumexp(log(sign * at, np.maximum(mass, 5e-324)), b=(half[:, None] * weights[None, :]).ravel()))


def _reach(law: Law, sign: float, order: float) -> float:
    """How far out an integral over a tail, tilted by e^{λl}, has to go; infinite when the masses underflow first."""
    import numpy as np

    limit = law.high if sign > 0 else -law.low
    if limit <= 0:
        return 0.0
    at = np.geomspace(1e-13, max(min(limit, 1e6), 1e-12), 400)
    masses = law.above(at)[0] if sign > 0 else law.below(-at)[0]
    levels = _safe_log(masses) + (order * at if sign > 0 else 0.0)
    done = (levels < np.maximum.accumulate(levels) + _NEGLIGIBLE) | (masses < 1e-300)
    if not done.any():
        return limit if limit <= at[-1] else math.inf
    first = int(np.argmax(done))
    underflow = (
        masses[first] < 1e-300 and math.log(1e-300) + order * at[first] > np.max(levels[: first + 1]) + _NEGLIGIBLE
    )
    return math.inf if underflow and order and sign > 0 and at[first] < limit else float(at[first])


def _probability(log: float, infinite: float) -> float:
    """e^log, rounded up by the margin of the integrals, and the probability of an infinite loss; at most 1."""
    return min(math.exp(min(log, 0.0)) * (1 + 2 * _MARGIN) + infinite, 1.0)
