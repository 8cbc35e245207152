"""Pairs of steps of which only a bound on the curve is known.

If δ(ε) ≤ h(ε) at finitely many nodes, then, because δ is convex in e^ε, δ lies at or below the largest convex function
under those points, which is piecewise linear. That function is the curve of a pair with atoms at the nodes (its slopes
are Q-masses), and this pair dominates the step. Beyond the last node the curve is flat: that mass is an infinite loss.

Three bounds come this way, each the same in both orders of the neighbours:

* **Rényi.** δ(ε) ≤ inf_α exp((α−1)(D_α − ε))·(1−1/α)^α/(α−1) (Canonne–Kamath–Steinke 2020, Prop. 12), and at most
  √(D_1/2) (Pinsker).
* **Groups.** Along a path of k neighbours, δ_k(kη) ≤ δ(η)·(1 + e^η + … + e^{(k−1)η}) (by induction from
  P − e^{kη}R = (P − e^η Q) + e^η(Q − e^{(k−1)η}R)).
* **Sampling when nothing is known about absence.** (1−q)P₀ + qP₁ against (1−q)P₀ + qP₁′ has δ′(ε) ≤ q·δ(ε) for ε ≥ 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

import numpy as np

from deniable.accounting.pairs.law import Array, Law, LossAtoms
from deniable.guarantees import RDP, TCDP, ZCDP, Guarantee, TradeOff
from deniable.numerics.rounding import float_above

_RARE = Fraction(1, 10**300)

NODES = 4000
"""How many nodes a bounded curve gets on either side of 0."""


def bounded(
    profile: Callable[[Array], Array], *, reach: float, peak: float = math.inf, nodes: Array | None = None
) -> LossAtoms:
    """The pair of a bound h(ε), ε ≥ 0, that holds in both orders. `reach` is where the nodes end, `peak` a pure ε;
    `nodes` are given where a few are known to be enough.
    """
    if nodes is None:
        nodes = np.concatenate(([0.0], np.geomspace(reach * 1e-6, reach, NODES) if reach > 0 else []))
    # The masses below are second differences of h: their rounding moves the curve by at most NODES units or so.
    values = np.clip(profile(nodes) * (1 + 1e-11), 0.0, 1.0)
    return hull(nodes, np.minimum.accumulate(values), peak=peak)


def hull(nodes: Array, values: Array, *, peak: float = math.inf) -> LossAtoms:
    """The pair of the largest convex curve under (e^ε, h), ε ≥ 0, and under its mirror image for ε < 0."""
    kept = _corners(nodes, values)
    epsilon, h = nodes[kept], values[kept]
    # P-mass at a node is e^ε times the change of slope there: slope·e^{ε_i} = (h_i − h_{i+1})/(e^gap − 1) on its right.
    gap = np.diff(epsilon)
    with np.errstate(over="ignore"):
        right = np.append((h[:-1] - h[1:]) / np.expm1(gap), 0.0)
    # From the mirror image of the first corner the slope is −(1 − h)/(e^ε + 1), as for randomized response.
    first = (1 - h) / (1 + np.exp(-epsilon))
    start = int(np.argmax(first >= right))
    # On its left the slope is the same difference over 1 − e^−gap, which stays a number however wide the gap.
    falls = (h[start:-1] - h[start + 1 :]) / -np.expm1(-gap[start:])
    epsilon, right = epsilon[start:], right[start:]
    left = np.concatenate(([first[start]], falls))
    p = np.maximum(left - right, 0.0)
    with np.errstate(under="ignore"):
        mirrored = p * np.exp(-epsilon)
    # A bound that underflows to 0 is not 0, unless nothing lies beyond the last node.
    held, top = p > 0, float(h[-1]) if peak <= epsilon[-1] else max(float(h[-1]), 1e-300)
    losses = np.concatenate((-epsilon[held][::-1], epsilon[held]))
    masses = np.concatenate((mirrored[held][::-1], p[held]))
    return LossAtoms.of(losses, masses, infinite=top, vanishing=top, bound=peak)


def _corners(nodes: Array, values: Array) -> list[int]:
    """Indices of the lower convex hull of the points (e^ε, h)."""
    found: list[int] = []
    for i in range(len(nodes)):
        while len(found) >= 2 and not _turns(nodes, values, found[-2], found[-1], i):
            found.pop()
        found.append(i)
    return found


def _turns(nodes: Array, values: Array, a: int, b: int, c: int) -> bool:
    """Whether the slope in e^ε grows at b: (h_a − h_b)/(e^b − e^a) > (h_b − h_c)/(e^c − e^b)."""
    before = (values[a] - values[b]) / -math.expm1(nodes[a] - nodes[b])
    gap = nodes[c] - nodes[b]
    after = (values[b] - values[c]) / (math.expm1(gap) if gap < 700 else math.inf)
    return bool(before > after)


def renyi_divergence(promises: Iterable[tuple[Guarantee, int]], order: float) -> float:
    """The sum of what Rényi promises allow at one order; infinite where one of them says nothing."""
    total = 0.0
    for promise, count in promises:
        if isinstance(promise, ZCDP):
            total += float(promise.rho * count) * order
        elif isinstance(promise, TCDP):
            total += float(promise.rho * count) * order if order < promise.omega else math.inf
        elif isinstance(promise, RDP):
            # D_α does not decrease in α, so a promise at one order holds at all lower ones.
            total += float(promise.epsilon * count) if order <= promise.order else math.inf
    return total * (1 + 1e-14)


def renyi_orders(promises: Iterable[tuple[Guarantee, int]]) -> Array:
    """Orders to try: dense near 1 and out to where the promises end, those themselves included."""
    held = list(promises)
    last = min((float(getattr(g, "omega", getattr(g, "order", math.inf))) for g, _ in held), default=math.inf)
    rho = sum((g.rho * n for g, n in held if isinstance(g, ZCDP | TCDP)), Fraction(0))
    far = min(last, 1e12 if not rho else max(1e3, 40 / math.sqrt(float(rho)), 1e3 / float(rho)))
    orders = 1 + np.geomspace(1e-6, max(far - 1, 1e-6), 4000)
    exact = [float(g.order) for g, _ in held if isinstance(g, RDP)]
    return np.unique(np.concatenate((orders[orders < last], exact, [last * (1 - 1e-12)] if last < math.inf else [])))


def renyi_profile(promises: tuple[tuple[Guarantee, int], ...]) -> Callable[[Array], Array]:
    """δ(ε) by the best of many orders. Any order is valid; more can only help."""
    orders = renyi_orders(promises)
    spent = np.array([renyi_divergence(promises, a) for a in orders])
    usable = np.isfinite(spent) & (orders > 1)
    a, d = orders[usable], spent[usable]
    slack = a * np.log1p(-1 / a) - np.log(a - 1)

    # Pinsker: δ(ε) ≤ δ(0) ≤ √(KL/2), and KL is at most the divergence of any order above 1.
    most = min(1.0, math.sqrt(renyi_divergence(promises, 1.0) / 2) * (1 + 1e-12))

    def profile(epsilon: Array) -> Array:
        if not len(a):
            # Promises at orders that no float tells from 1.
            return np.full(len(epsilon), most)
        with np.errstate(over="ignore"):
            best = np.array([max(float(np.min((a - 1) * (d - e) + slack)), -1e9) for e in epsilon])
        # Up by what rounding may have taken: the terms are of the size of (α − 1)·ε and cancel little at the best
        # order.
        return np.asarray(np.minimum(np.exp(np.minimum(best + 1e-12 * (1 + np.abs(best)), 0.0)), most))

    return profile


def farthest(law: Law) -> float:
    """A loss beyond which an unbounded law has next to nothing: where P[L > l] falls below 1e-300."""
    sizes = 2.0 ** np.arange(0.0, 51.0)
    low, high = 0.0, float(sizes[_first_rare(law, sizes)])
    if high > 1.0:
        low = high / 2
    for _ in range(6):
        between = np.linspace(low, high, 33)[1:]
        place = _first_rare(law, between)
        low, high = low if not place else float(between[place - 1]), float(between[place])
    return high


def _first_rare(law: Law, losses: Array) -> int:
    """The first of rising losses above which a law has next to nothing, or the last."""
    rare = law.above(losses)[0] <= max(1e-300, 2 * law.infinite)
    return int(rare.argmax()) if rare.any() else len(losses) - 1


def path(inner: tuple[Law, ...], length: int) -> Law:
    """The pair of a path of neighbours: δ_k(kη) ≤ δ(η)(e^{kη} − 1)/(e^η − 1), with δ the larger of both orders."""

    def profile(epsilon: Array) -> Array:
        each = epsilon / length
        one = np.max([law.profile(each) for law in inner], axis=0)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            growth = np.where(
                each > 0, np.expm1(np.minimum(epsilon, 700.0)) / np.expm1(np.maximum(each, 1e-300)), length
            )
            log_growth = np.where(
                epsilon > 600,
                (length - 1) * each + np.log1p(-np.exp(-epsilon)) - np.log1p(-np.exp(-each)),
                np.log(growth),
            )
            return np.where(one > 0, np.exp(np.minimum(np.log(np.maximum(one, 1e-320)) + log_growth + 1e-12, 0.0)), 0.0)

    top = max(min(law.high, farthest(law)) for law in inner)
    return bounded(profile, reach=length * top, peak=length * max(max(law.peak, 0.0) for law in inner))


def tradeoff_law(tradeoff: TradeOff) -> Law:
    """The pair of a piecewise linear trade-off function: its atoms are (false positives, true positives)."""
    # A true positive too rare for a float counts as certain; so does one whose false positives are.
    told = [(false, caught) for false, caught in tradeoff.atoms if min(false, caught) > _RARE]
    sure = sum((caught for false, caught in tradeoff.atoms if min(false, caught) <= _RARE), Fraction(0))
    missed = sum((false for false, caught in tradeoff.atoms if min(false, caught) <= _RARE), Fraction(0))
    p, q = (np.array([float(pair[world]) for pair in told]) for world in (1, 0))
    return LossAtoms.paired(np.log(p / q), p, q, infinite=float_above(sure), vanishing=float_above(missed))
