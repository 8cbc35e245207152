"""Random allocation: every unit takes part in one of t steps, drawn uniformly and in secret (balls in bins).

**One lemma for every secret pattern** (ADD_REMOVE, ZERO_OUT). A unit takes part in step i when b_i = 1; the pattern b
is random and independent of the other units' patterns. Each step adds normal noise of scale s to a sum of vectors, and
the unit adds a vector g_i, |g_i| ≤ 1, to the sums of the steps it takes part in. Then the whole adaptive run is a
post-processing of b + N(0, s²I) against N(0, s²I).

*Proof.* Condition on everybody else. Given the outputs so far, S_i and g_i are known, and S_i + g_i y_i + N(0, s²(I −
g_i g_iᵀ)) has, for y_i ~ N(b_i, s²), the mean S_i + b_i g_i and the covariance s²I. ∎

Batches of fixed size, cut from a shuffled epoch, are not covered: there the batch of one unit depends on the others'.

**The pair.** b is one of t unit vectors. With a = 1/s² and Λ = dP/dQ, under Q

    Λ = (W_1 + … + W_t)/t,   ln W_i ~ N(−a/2, a) independent,    H_g(P‖Q) = E(Λ − g)₊,   H_g(Q‖P) = E(1 − gΛ)₊

(Choquette-Choo et al. 2024, Lemma 3.2; Feldman–Shenfeld 2025). Both are expectations of a function that is convex in
every W_i. So they do not fall when every W is replaced by a variable that is larger in convex order: W moved to the
two next points of a lattice so that its mean is kept. The sum of t such variables is a convolution. W beyond the last
point counts as 0 under Q, and its share of P as an infinite loss.

**Rounding.** The convolution is a Fourier transform, taken to the power t and back. An error of the law in total
variation moves both curves by no more than that, because (1 − g/Λ)₊ under P and (1 − gΛ)₊ under Q lie in [0, 1]. The
errors below are such bounds, and they are added as infinite losses: some 10^−11 with extended precision, which is
what limits very small δ. There the run without any amplification, one Gaussian step, is a second bound.

**k of t steps.** A uniform k-subset of t steps is one uniform step in each of k blocks of a uniform partition of the
steps into blocks of ⌊t/k⌋ or ⌈t/k⌉ (neither law changes when the steps are permuted). The partition may be given
away, and given it the blocks are independent: k allocations, composed (Feldman–Shenfeld 2025).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import fft, special

from deniable.accounting.certificate import NotCertified
from deniable.accounting.pairs.law import Array, LossAtoms
from deniable.numerics.arrays import UNIT, normal_above

_FINE, _FINEST = 1e-4, 1e-6
"""By how much the lattice may raise the variance of W, relatively: where more points are taken, and where fewer do."""

_BEYOND = 1e-13
"""What W may have beyond the lattice, under P."""

_MOST = 1 << 19
"""Points of the convolution."""

_DIRECT = 8
"""Cells whose masses are differences of normal tails; those further out are integrated."""

_LOW, _HIGH = 0.2, 32.0
"""Losses below log 0.2 (removing) and below −log 32 (adding) are moved up to that: rounding there would count more."""


@dataclass(frozen=True, eq=False)
class WeightLattice:
    """W on multiples of `step`: its masses under Q, how far they may be off in all, and what lies beyond under P."""

    step: float
    masses: Array
    error: float
    weighted_error: float
    beyond: float


def lattice(square: float, steps: int, points: int, *, adding: bool) -> WeightLattice:
    """W, ln W ~ N(−a/2, a), moved to the neighbouring points so that its mean is kept.

    Removing, W has next to nothing beyond the lattice under P, where ln W ~ N(a/2, a). Adding, a smaller Λ is on the
    safe side, and the lattice may end where W has next to nothing under Q.
    """
    root = math.sqrt(square)
    far = -float(special.ndtri(_BEYOND / steps if adding else _BEYOND))
    last = math.exp((-square if adding else square) / 2 + far * root)
    wanted = math.sqrt(6 * _FINEST * math.expm1(square)) if square < 700 else math.inf
    step = max(wanted, (last + 2 * steps) / (0.45 * points))
    # few bits, so that every point is an exact float
    unit = 2.0 ** (math.floor(math.log2(step)) - 8)
    step = math.ceil(step / unit) * unit
    count = math.ceil(last / step) + 1
    if count < 4:
        raise NotCertified("the lattice would be too coarse")
    w = step * np.arange(count + 1, dtype=float)
    with np.errstate(divide="ignore"):
        centre = np.log(w) / root
    plain, moved = centre + root / 2, centre - root / 2
    p_plain, e_plain = _cells(plain)
    p_moved, e_moved = _cells(moved)
    # of a cell (w, w + h] with mass m and mean share M = E[W; cell], (M − wm)/h goes up and the rest stays
    upper = (p_moved - w[:-1] * p_plain) / step
    upper_error = (e_moved + w[:-1] * (e_plain + 4 * UNIT * p_plain)) / step + 4 * UNIT * p_plain
    upper = np.clip(upper, 0.0, p_plain)
    if count > _DIRECT:
        # further out that difference cancels, and the density is smooth on a cell
        mass, above, relative = _quadrature(w[_DIRECT:-1], step, root)
        p_plain[_DIRECT:], upper[_DIRECT:] = mass, above
        e_plain[_DIRECT:], upper_error[_DIRECT:] = relative * mass, relative * mass
    masses, error = np.zeros(count + 1), np.zeros(count + 1)
    masses[:-1] += p_plain - upper
    masses[1:] += upper
    error[:-1] += e_plain + upper_error
    error[1:] += upper_error
    masses[0] += float(normal_above(plain[-1:])[0])
    beyond = float(normal_above(moved[-1:])[0]) * (1 + 1e-9)
    return WeightLattice(step, masses, float(error.sum()) * 1.01, float(w @ error) * 1.01, beyond)


def _quadrature(w: Array, step: float, root: float) -> tuple[Array, Array, Array]:
    """The mass of each cell (w, w + h], the part that goes up, and a bound on their relative error.

    Gauss–Legendre with 16 nodes errs by at most (64/15) M ρ^{−32}/(1 − ρ^{−2}) on [−1, 1], M the largest modulus inside
    the Bernstein ellipse of ρ (Trefethen 2008, Theorem 4.5). The ellipse of ρ = 15.9 has half axes below 8 half cells,
    so that its points are within 4h of the middle. The density there is e^{−z²/2}/w with z = (ln w)/√a + √a/2; from
    the cell z moves by at most d = 5h/(w√a), also in the imaginary direction, and the density grows at most by
    e^{|z|d + 2d²}·2.
    """
    x, share = np.polynomial.legendre.leggauss(16)
    at = w[:, None] + 0.5 * step * (1 + x)
    z = np.log(at) / root + root / 2
    with np.errstate(under="ignore"):
        density = np.exp(-0.5 * z * z) / (at * (root * math.sqrt(2 * math.pi)))
    parts = density * share * (0.5 * step)
    moved = 5 * step / (w * root)
    far = np.abs(z).max(axis=1)
    grown = np.exp(np.minimum(far * moved + 2 * moved**2, 700.0))
    rounding = (128 + 16 * far * (far + 1)) * UNIT
    return parts.sum(axis=1), parts @ (0.5 * (1 + x)), rounding + 10 * grown * 15.9**-32


def _cells(z: Array) -> tuple[Array, Array]:
    """Normal masses between neighbouring points and bounds on their errors: of tails right of 0, of heads left."""
    tail, head = normal_above(z), normal_above(-z)
    right = z[:-1] > 0
    mass = np.maximum(np.where(right, tail[:-1] - tail[1:], head[1:] - head[:-1]), 0.0)
    # z is off by a few units of itself: the density times that is at most (1 + z²) units of the tail, about
    small = np.minimum(tail, head) * (1 + np.minimum(np.abs(z), 60.0)) ** 2
    return mass, 16 * UNIT * (small[:-1] + small[1:])


def divergence(square: float, steps: int, order: int) -> float:
    """D_α(P‖Q) of one epoch at a whole order α ≥ 2, removing: rounded up.

    E_Q Λ^α = t^{−α} Σ α!/(j_1! … j_t!) Π e^{j_i(j_i − 1)a/2}, so (α − 1) D_α is the logarithm of α!/t^α times the
    coefficient of z^α in (Σ_j e^{j(j−1)a/2} z^j/j!)^t. All terms are positive, so nothing cancels.
    """
    j = np.arange(order + 1, dtype=float)
    logs = j * (j - 1) * (square / 2) - special.gammaln(j + 1)
    # z is rescaled so that the largest coefficient is 1, and after every product again
    scale = max(0.0, float((logs[1:] / j[1:]).max()))
    base, total, power = np.exp(logs - scale * j), np.zeros(order + 1), steps
    total[0] = 1.0
    base_log = total_log = 0.0
    while power:
        if power & 1:
            total = np.convolve(total, base)[: order + 1]
            top = float(total.max())
            total, total_log = total / top, total_log + base_log + math.log(top)
        power >>= 1
        if power:
            base = np.convolve(base, base)[: order + 1]
            top = float(base.max())
            base, base_log = base / top, 2 * base_log + math.log(top)
    if not total[order] > 1e-250:
        return math.inf
    parts = (
        math.log(float(total[order])),
        total_log,
        scale * order,
        float(special.gammaln(order + 1)),
        -order * math.log(steps),
    )
    # order products and sums in each of 2 log t convolutions, doubled by each squaring at most t times in all
    slack = UNIT * (8 * (order + 8) * min(steps, order) + 64 * sum(map(abs, parts)) + 16 * float(np.abs(logs).max()))
    return max(math.fsum(parts) + slack, 0.0) / (order - 1) * (1 + 8 * UNIT)


def adding_divergence(square: float, steps: int, order: float) -> float:
    """D_α(Q‖P) of one epoch, adding, at any order α: rounded up; infinite where this quadrature has no proof.

    With β = α − 1 and ψ(s) = E e^{−sW}, (α − 1) D_α = log E Λ^{−β} and

        Γ(β) E Λ^{−β} = ∫ s^{β−1} ψ(s/t)^t ds = ∫ e^{βu} ψ(e^u/t)^t du.

    *Outer rule.* On the line u + iθ, θ < π/2, |ψ(s)| ≤ ψ(Re s), so the integral of the modulus is at most cos(θ)^{−β}
    times the integral itself, and a trapezoid rule of step h is off by 2cos(θ)^{−β}/(e^{2πθ/h} − 1) of it at most.
    Below u_0 it lacks e^{βu_0}/β; above u_1, for any β′ > β, e^{−(β′−β)u_1} Γ(β′) E Λ^{−β′}, and E Λ^{−β′} ≤ E W^{−β′}
    in convex order.
    *Inner rule.* 1 − ψ(s) = ∫ φ(x)(1 − e^{−sW(x)}) dx, W = e^{√a x − a/2}. On x + iθ, √a θ < π/2, Re W > 0, and
    |1 − e^{−z}| ≤ min(|z|, 2) ≤ 2.4(1 − e^{−|z|}): a relative error of 5e^{θ²/2}/(e^{2πθ/h} − 1). The same with ψ
    itself gives an absolute one.
    """
    beta, root = order - 1, math.sqrt(square)
    if beta < 0.1:
        return math.inf
    # the upper end of u
    more = np.geomspace(0.5, 2000.0, 400)
    far = beta + more
    ends = (special.gammaln(far) - special.gammaln(beta) + square * far * (far + 1) / 2 + 45.0) / more
    last, first = float(ends.min()), -(45.0 + abs(float(special.gammaln(beta))) + abs(math.log(beta))) / beta
    theta = np.linspace(0.05, 1.5, 30)
    step = float((2 * math.pi * theta / (45.0 - beta * np.log(np.cos(theta)))).max()) * 0.98
    count = math.ceil((last - first) / step) + 1
    if count > 40_000:
        return math.inf
    u = first + step * np.arange(count)
    angle = min(1.5 / root, 6.0)
    inner = 2 * math.pi * angle / (48.0 + angle**2 / 2)
    x = np.arange(-10.0, root + 10.0, inner)
    weights = np.exp(-(x**2) / 2) * (inner / math.sqrt(2 * math.pi))
    total = -math.inf
    for start in range(0, count, 2000):
        at = u[start : start + 2000]
        grown = np.exp(np.minimum(at[:, None] - math.log(steps) + root * x - square / 2, 700.0))
        with np.errstate(under="ignore"):
            lacking = -np.expm1(-grown) @ weights * (1 - 1e-14)
            kept = np.exp(-grown) @ weights * (1 + 1e-14) + 1e-18
        power = steps * np.where(lacking < 0.5, np.log1p(-np.minimum(lacking, 0.5)), np.log(np.minimum(kept, 1.0)))
        total = float(np.logaddexp(total, np.logaddexp.reduce(beta * at + power)))
    if not math.isfinite(total):
        return math.inf
    value = total + math.log(step) - float(special.gammaln(beta))
    slack = 1e-13 * (1 + beta + abs(float(special.gammaln(beta)))) + 1e-14 * abs(total)
    return max(value + slack, 0.0) / beta * (1 + 8 * UNIT)


@lru_cache(maxsize=32)
def allocation(square: float, steps: int) -> tuple[LossAtoms, LossAtoms]:
    """The laws of one epoch, removing and adding; `square` is (sensitivity/scale)², rounded up, `steps` is t."""
    return _epoch(square, steps, adding=False), _epoch(square, steps, adding=True)


def _epoch(square: float, steps: int, *, adding: bool) -> LossAtoms:
    """One direction."""
    points = 1 << 16
    while True:
        w = lattice(square, steps, points, adding=adding)
        coarse = w.step > 1.1 * math.sqrt(6 * _FINE * math.expm1(min(square, 700.0)))
        overflow = _overflow(w, steps, points)[int(adding)]
        if points >= _MOST or not (coarse or overflow > 1e-15):
            break
        points *= 2
    wide, unit = np.longdouble, float(np.finfo(np.longdouble).eps)
    x = np.zeros(points, dtype=wide)
    x[: len(w.masses)] = w.masses
    # of the t factors one is weighted by W when the masses are those under P
    y = x if adding else x * (wide(w.step) * np.arange(points))
    first = fft.rfft(x)
    spectrum = _power(first, steps - 1) * (first if adding else fft.rfft(y))
    mass = np.maximum(fft.irfft(spectrum, n=points), 0).astype(float)
    # Higham 2002, Theorem 24.2, with room: each transform is off by that much of its Euclidean norm
    once = 16 * unit * math.log2(points)
    size_x, size_y, size = (float(np.sqrt((v * v).sum())) for v in (x, y, mass))
    grown = math.exp(min(steps * (w.error + once * math.sqrt(points) * size_x), 1.0)) * max(1.0, float(y.sum()))
    euclidean = grown * (once * size_y + steps * once * size_x + (8 * steps * unit + once) * size)
    # the sum of N errors is at most √N times their Euclidean norm
    error = 1.1 * math.sqrt(points) * euclidean + 4 * UNIT + overflow
    error += grown * steps * w.error + (0.0 if adding else grown * w.weighted_error + w.beyond)
    ratio = w.step / steps * np.arange(points, dtype=np.float64)
    return (_adding if adding else _removing)(ratio, mass, error)


def _power(base: np.ndarray, exponent: int) -> np.ndarray:
    """By repeated squaring: 2·exponent roundings of a few units at most."""
    found = np.ones_like(base)
    while exponent:
        if exponent & 1:
            found = found * base
        exponent >>= 1
        if exponent:
            base = base * base
    return found


def _overflow(w: WeightLattice, steps: int, points: int) -> tuple[float, float]:
    """What the sum has beyond the window under P and under Q, by Markov's inequality for e^{θS}."""
    place = w.step * np.arange(len(w.masses))
    best = [1.0, 1.0]
    for k in (10.0, 20.0, 40.0, 80.0, 160.0):
        theta = k / place[-1]
        grown = np.exp(theta * place)
        plain = float(np.log(w.masses @ grown + w.error * math.exp(k)))
        sized = float(np.log((w.masses * place) @ grown + w.weighted_error * math.exp(k)))
        end = theta * w.step * (points - 1)
        for i, exponent in enumerate((sized + (steps - 1) * plain - end, steps * plain - end)):
            best[i] = min(best[i], math.exp(min(exponent + 1e-9, 0.0)))
    return best[0], best[1]


def _removing(ratio: Array, p: Array, error: float) -> LossAtoms:
    """The pair from its masses under P. Below a ratio they are moved up to it; what is off is an infinite loss."""
    low = int(np.searchsorted(ratio, _LOW))
    p = p.copy()
    p[low] += p[:low].sum()
    held = np.arange(low, len(p))[p[low:] > 0]
    return _atoms(np.log(ratio[held]), p[held], ratio[held], error)


def _adding(ratio: Array, q: Array, error: float) -> LossAtoms:
    """The pair of the other order from its masses under Q, which is P here. The ratio is that of Q here to P."""
    high = min(int(np.searchsorted(ratio, _HIGH)), len(q) - 1)
    q = q.copy()
    q[high] += q[high + 1 :].sum()
    told, infinite = q[0], error
    held = np.arange(1, high + 1)[q[1 : high + 1] > 0]
    return _atoms(-np.log(ratio[held]), q[held], 1 / ratio[held], infinite + float(told))


def _atoms(losses: Array, p: Array, ratio: Array, infinite: float) -> LossAtoms:
    """A pair of probability laws: masses under the second add up to at most 1, or a little of the first is revealed."""
    other = p / ratio
    excess = float(other.sum()) - 1
    if excess > 0:
        # Mass taken from the largest atom under the second law.
        most = int(np.argmax(other))
        taken = min((excess + 64 * UNIT) * ratio[most], p[most])
        p[most] -= taken
        infinite += float(taken)
    missing = max(0.0, 1 - float(p.sum()) - infinite)
    infinite += missing
    other = p / ratio
    vanishing = max(0.0, 1 - float(other.sum()))
    return LossAtoms.paired(
        losses, p, other, infinite=infinite, vanishing=vanishing, errors=(1e-15, 0.0), bound=math.inf
    )
