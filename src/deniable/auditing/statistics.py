"""Fixed-sample statistics: counts in, a lower bound out. Each says what it certifies and what it needs.

| function | gives | certifies |
|---|---|---|
| `epsilon_lower` | ε at δ, Clopper–Pearson | yes |
| `joint_epsilon`, `joint_test` | ε at δ, or a p-value, from both counts together | yes |
| `mu_lower` | μ of Gaussian privacy | yes (an ε read off it needs a Gaussian curve) |
| `shift_lower` | μ from scores, not counts | if the scores are normal |
| `katz_epsilon` | ε at δ, by a normal approximation | no |
| `runs_needed` | runs until most of a Gaussian mechanism's ε is shown | – |
| `bayes_epsilon` | ε at δ, credible under a prior | no |
| `choose_threshold`, `count_at` | a rule from validation runs, and its counts on fresh runs | – |
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.conversions import gaussian_claim_to_gdp
from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP
from deniable.numerics.normal import epsilon_bracket
from deniable.numerics.roots import bisect

__all__ = [
    "Bound",
    "Counts",
    "RunsNeeded",
    "Threshold",
    "bayes_epsilon",
    "choose_threshold",
    "claimed_mu",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "count_at",
    "epsilon_lower",
    "error_rates",
    "gdp_epsilon",
    "implied_epsilon",
    "joint_epsilon",
    "joint_test",
    "katz_epsilon",
    "mu_lower",
    "posterior_below",
    "runs_needed",
    "shift_lower",
]


@dataclass(frozen=True)
class Counts:
    """How often "in" was said in either world. The runs must be independent, and the rule fixed before them.

    What a fixed number of runs gave, and what a statistic says about it.

    The attacker says "in" or "out" after each run. With D′ = D and a canary: a *true positive* is "in" on D′, a *false
    positive* is "in" on D. (ε, δ)-DP implies TPR ≤ e^ε·FPR + δ and 1 − FPR ≤ e^ε·FNR + δ.
    """

    true_positives: int
    positives: int
    false_positives: int
    negatives: int

    def __post_init__(self) -> None:
        for said, total in (("true_positives", "positives"), ("false_positives", "negatives")):
            runs = _checks.count(total, getattr(self, total))
            found = _checks.count(said, getattr(self, said), least=0)
            if found > runs:
                raise InvalidArgument(said, found, f"at most {total}={runs}")

    @property
    def false_negatives(self) -> int:
        """ "out" on D′."""
        return self.positives - self.true_positives

    @property
    def true_positive_rate(self) -> float:
        """The share of "in" on D′."""
        return self.true_positives / self.positives

    @property
    def false_positive_rate(self) -> float:
        """The share of "in" on D."""
        return self.false_positives / self.negatives


@dataclass(frozen=True)
class Bound:
    """A lower end, what it says, and what it needs."""

    value: float
    certifies: bool
    """Whether it is wrong with probability at most 1 − confidence, whatever the truth."""

    statement: str
    precondition: str

    def __str__(self) -> str:
        return f"{self.statement} ({'needs' if self.certifies else 'an estimate; needs'}: {self.precondition})"


FIXED = "independent runs, and a rule that was fixed before them"
"""What every statistic here asks for."""


def clopper_pearson_upper(successes: int, runs: int, *, level: float) -> float:
    """The upper end of a rate, exceeded with probability at most `level`."""
    from scipy import stats

    return 1.0 if successes >= runs else float(stats.beta.isf(level, successes + 1, runs - successes))


def clopper_pearson_lower(successes: int, runs: int, *, level: float) -> float:
    """The lower end of a rate."""
    from scipy import stats

    return 0.0 if successes <= 0 else float(stats.beta.ppf(level, successes, runs - successes + 1))


def error_rates(counts: Counts, *, level: float) -> tuple[float, float]:
    """Upper ends of (FPR, FNR) that both hold with probability 1 − level."""
    return (
        clopper_pearson_upper(counts.false_positives, counts.negatives, level=level / 2),
        clopper_pearson_upper(counts.false_negatives, counts.positives, level=level / 2),
    )


def implied_epsilon(false_positive: float, false_negative: float, *, delta: float) -> float:
    """The smallest ε ≥ 0 for which a test with these errors is possible under (ε, δ)-DP."""
    found = 0.0
    for one, other in ((false_positive, false_negative), (false_negative, false_positive)):
        if 1 - delta - other > 0:
            found = max(found, math.log((1 - delta - other) / one) if one > 0 else math.inf)
    return found


def epsilon_lower(counts: Counts, *, delta: Number = 0, confidence: Number = 0.95) -> Bound:
    """ε at δ is at least this, with the stated confidence; exact, for any mechanism.

    Clopper–Pearson: a lower bound on ε that is never wrong more often than stated.

    With k of n successes the exact one-sided ends at level g are BetaInv(1 − g; k + 1, n − k) and BetaInv(g; k, n − k +
    1) (Clopper–Pearson 1934). ε ≥ ln((1 − δ − FNR)/FPR) and ε ≥ ln((1 − δ − FPR)/FNR) fall in both error rates, so both
    *upper* ends are put in, at half the level each (Bonferroni). n runs in each world cannot show more than about ln n.

    >>> notes = Counts(true_positives=4922, positives=100_000, false_positives=174, negatives=100_000)
    >>> round(epsilon_lower(notes, delta=1e-5, confidence=1 - 1e-10).value, 4)
    2.795
    """
    level = float(1 - _checks.inner_probability("confidence", confidence))
    value = implied_epsilon(*error_rates(counts, level=level), delta=float(_checks.probability("delta", delta)))
    return Bound(value, True, f"ε ≥ {value:.4f} but for a chance of {level:.2g}", FIXED)


_CELLS = 24
_HALVINGS = 400
_FAR = 45.0
"""Standard deviations beyond which a binomial has no mass that a float can hold."""


def joint_test(counts: Counts, *, epsilon: Number, delta: Number = 0, gamma: Number = 1e-12) -> float:
    """The p-value of the claim (ε, δ): exact, whatever the error rates are. It is never below 2γ.

    An exact test of (ε, δ) on both worlds' counts together.

    Two intervals, each at half the level, waste power: both errors are rarely at their worst at once. Here the two
    counts are judged by one statistic,

        T = (TP/n₁ − e^ε·FP/n₀ − δ) / s(FP),

    s² being the variance of the numerator on the boundary of the claim, with FPR read off FP. T grows in TP and falls
    in FP, so the p-value is the largest probability of its upper set over the boundary TPR = e^ε·FPR + δ, whatever FPR
    is (the unconditional test of Barnard 1945), within a confidence interval for FPR of level 1 − γ, plus γ
    (Berger–Boos 1994: rates that the data exclude need not be feared). On a cell of FPRs that probability is at most
    its value with the cell's smallest FPR in one world and its largest in the other; the maximum over cells is
    therefore no underestimate. Both directions are tested, at twice the smaller p-value.

    >>> round(joint_test(Counts(60, 100, 40, 100), epsilon=0, delta=0), 3)
    0.022
    """
    aside = float(_checks.inner_probability("gamma", gamma))
    odds = math.exp(float(_checks.nonnegative("epsilon", epsilon)))
    at = float(_checks.probability("delta", delta))
    caught = _one_sided(
        counts.true_positives, counts.positives, counts.false_positives, counts.negatives,
        odds=odds, delta=at, gamma=aside,
    )  # fmt: skip
    cleared = _one_sided(
        counts.negatives - counts.false_positives, counts.negatives, counts.false_negatives, counts.positives,
        odds=odds, delta=at, gamma=aside,
    )  # fmt: skip
    return min(1.0, 2 * min(caught, cleared))


def joint_epsilon(counts: Counts, *, delta: Number = 0, confidence: Number = 0.95) -> Bound:
    """The largest ε that the joint test refutes, by bisection; its p-value grows with ε."""
    level = float(1 - _checks.inner_probability("confidence", confidence))

    def refuted(epsilon: float) -> bool:
        return joint_test(counts, epsilon=epsilon, delta=delta, gamma=level / 200) <= level

    low, high = 0.0, 1.0
    while high < 40 and refuted(high):
        low, high = high, 2 * high
    if low == 0.0 and not refuted(0.0):
        high = 0.0
    low = bisect(lambda epsilon: not refuted(epsilon), low, high, turns=16)[0]
    return Bound(low, True, f"ε ≥ {low:.4f} but for a chance of {level:.2g}", FIXED)


def _one_sided(hits: int, runs: int, misses: int, others: int, *, odds: float, delta: float, gamma: float) -> float:
    """γ + sup over the boundary of P[T ≥ observed], for `hits` of `runs` against `misses` of `others`."""
    from scipy import special

    def numerator(hit: float, miss: float) -> float:
        return hit / runs - odds * miss / others - delta

    if numerator(hits, misses) <= 0:
        return 1.0
    places = np.arange(others + 1)
    rate = (places + 0.5) / (others + 1)
    meant = np.minimum(odds * rate + delta, 1 - 0.5 / (runs + 1))
    spread = np.sqrt(meant * (1 - meant) / runs + odds**2 * rate * (1 - rate) / others)
    observed = numerator(hits, misses) / spread[misses]
    # The smallest number of hits with T ≥ observed for each number of misses; made monotone outwards.
    needed = np.ceil(runs * (odds * places / others + delta + observed * spread) - 1e-9)
    needed = np.minimum.accumulate(np.minimum(needed, np.where(places == misses, hits, math.inf))[::-1])[::-1]
    choices = special.gammaln(others + 1) - special.gammaln(places + 1) - special.gammaln(others - places + 1)
    top = (1 - delta) / odds

    def chance(low: float, high: float) -> float:
        """P[T ≥ observed] with FPR `low` in one world and the TPR that belongs to `high` in the other."""
        middle, width = others * low, _FAR * math.sqrt(others * low * (1 - low)) + _FAR
        window = places[max(0, math.floor(middle - width)) : math.ceil(middle + width) + 1]
        window = window[needed[window] <= runs]
        chances = np.exp(choices[window] + special.xlogy(window, low) + special.xlog1py(others - window, -low))
        # P[Bin(n, p) ≥ k] is the incomplete beta function.
        hit, least = min(1.0, odds * high + delta), np.maximum(needed[window], 1e-300)
        return float((chances * special.betainc(least, runs + 1 - least, hit)).sum())

    least = min(top, clopper_pearson_lower(misses, others, level=gamma / 2))
    most = min(top, clopper_pearson_upper(misses, others, level=gamma / 2))
    return min(1.0, gamma + _highest(chance, np.linspace(least, most, _CELLS).tolist()))


def _highest(chance: Callable[[float, float], float], edges: list[float]) -> float:
    """An upper bound on max chance(a, a), the cells that matter being halved until it is within a hundredth."""
    cells = [(-chance(low, high), low, high) for low, high in itertools.pairwise(edges)]
    heapq.heapify(cells)
    reached = 0.0
    for _ in range(_HALVINGS):
        upper, low, high = cells[0]
        middle = (low + high) / 2
        reached = max(reached, chance(middle, middle))
        if -upper <= 1.01 * reached or not low < middle < high:
            break
        heapq.heapreplace(cells, (-chance(low, middle), low, middle))
        heapq.heappush(cells, (-chance(middle, high), middle, high))
    return -cells[0][0]


def mu_lower(counts: Counts, *, confidence: Number = 0.95) -> Bound:
    """The mechanism is not μ-GDP for any μ below this, with the stated confidence.

    GDP: one number, μ, from the whole trade-off curve (Nasr et al. 2023).

    μ-GDP implies Φ⁻¹(1 − FPR) − Φ⁻¹(FNR) ≤ μ, so with both *upper* ends of the errors the left side is a lower bound on
    μ: the mechanism is not μ′-GDP for any smaller μ′. That needs no assumption. Reading an ε off it does: that the
    mechanism's curve is Gaussian. It says something even where δ exceeds the observed error, and far more with few
    runs.

    >>> notes = Counts(true_positives=4922, positives=100_000, false_positives=174, negatives=100_000)
    >>> mu = mu_lower(notes, confidence=1 - 1e-10).value
    >>> round(mu, 4), round(gdp_epsilon(mu, delta=1e-5), 2), round(claimed_mu(0.21, 1e-5), 4)
    (1.0806, 4.79, 0.0641)
    """
    from scipy import stats

    level = float(1 - _checks.inner_probability("confidence", confidence))
    false_positive, false_negative = error_rates(counts, level=level)
    value = max(0.0, float(stats.norm.isf(false_positive) - stats.norm.ppf(false_negative)))
    return Bound(value, True, f"μ ≥ {value:.4f} but for a chance of {level:.2g}", FIXED)


def gdp_epsilon(mu: float, *, delta: Number) -> float:
    """ε at δ of exactly μ-GDP, the lower end: what a bound on μ means *if* the mechanism's curve is Gaussian."""
    return epsilon_bracket(float(_checks.nonnegative("mu", mu)), float(_checks.probability("delta", delta))).lower


def claimed_mu(epsilon: Number, delta: Number) -> float:
    """The μ of a Gaussian claim that was stated as (ε, δ)."""
    return float(gaussian_claim_to_gdp(ApproxDP(epsilon, delta)).mu)


def shift_lower(without: Any, with_: Any, *, confidence: Number = 0.95) -> Bound:
    """μ is at least this, with the stated confidence, if scores are normal; the direction was fixed before: up.

    μ from scores that are normal: the whole sample instead of one threshold.

    White-box canaries give scores that are N(m, s²) without the canary and N(m + μs, s²) with it. The difference of the
    means over the pooled deviation, times r = √(n₀n₁/(n₀ + n₁)), then has the noncentral t law with n₀ + n₁ − 2 degrees
    of freedom and noncentrality rμ; its quantile in the noncentrality is an exact lower bound. It needs scores that are
    normal with one variance, which a mechanism under audit need not give: where that is in doubt, use `mu_lower`.

    P[T ≥ t] = E Φ(rμ − tS), S² a chi-square over its degrees of freedom, is computed by quadrature: SciPy's own
    quantile is off by orders of magnitude at levels below 1e-6.

    >>> scores = np.random.default_rng(0).normal(size=(2, 1000))
    >>> round(shift_lower(scores[0], scores[1] + 1).value, 2)      # the truth is 1
    0.96
    """
    level = float(1 - _checks.inner_probability("confidence", confidence))
    out, inside = (np.asarray(scores, dtype=np.float64).ravel() for scores in (without, with_))
    if min(out.size, inside.size) < 2 or not np.isfinite(out).all() or not np.isfinite(inside).all():
        raise InvalidArgument("scores", f"{out.size} and {inside.size}", "two or more finite scores from each world")
    freedom = out.size + inside.size - 2
    pooled = math.sqrt((out.var() * out.size + inside.var() * inside.size) / freedom)
    if pooled == 0:
        raise InvalidArgument("scores", "all equal", "scores that vary")
    root = math.sqrt(out.size * inside.size / (out.size + inside.size))
    observed = (inside.mean() - out.mean()) / pooled * root
    return noncentral_lower(observed, root=root, freedom=freedom, level=level)


def noncentral_lower(observed: float, *, root: float, freedom: int, level: float) -> Bound:
    """μ is at least this if `observed` has the noncentral t law with noncentrality root·μ."""
    from scipy import special

    spreads, chances = _spreads(freedom)

    def possible(noncentrality: float) -> bool:
        return float((chances * special.ndtr(noncentrality - observed * spreads)).sum()) > level

    # P[T ≥ observed] grows with the noncentrality, and is about ½ at the observed one.
    value = float(bisect(possible, 0.0, max(0.0, float(observed)))[0] / root)
    return Bound(
        value, True, f"μ ≥ {value:.4f} but for a chance of {level:.2g}", f"{FIXED}; normal scores of one variance"
    )


def _spreads(freedom: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Nodes and weights of a quadrature over √(chi-square/freedom), in panels between its quantiles."""
    from scipy import special

    nodes, weights = np.polynomial.legendre.leggauss(40)
    tails = np.array([1e-40, 1e-25, 1e-15, 1e-8, 1e-3, 0.1])
    lower, upper = 2 * special.gammaincinv(freedom / 2, tails), 2 * special.gammainccinv(freedom / 2, tails[::-1])
    edges = np.sqrt(np.concatenate([lower, [freedom - 2 / 3], upper]) / freedom)
    low, wide = edges[:-1, None], np.diff(edges)[:, None]
    at = low + wide * (nodes + 1) / 2
    square = freedom * at**2
    # The density of the root: 2·freedom·at times that of the chi-square.
    density = (freedom / 2 - 1) * np.log(square / 2) - square / 2 - special.gammaln(freedom / 2)
    return at.ravel(), (wide / 2 * weights * np.exp(density) * freedom * at).ravel()


def katz_epsilon(counts: Counts, *, delta: Number = 0, confidence: Number = 0.95) -> Bound:
    """An estimate of a lower end of ε at δ, the better of both directions; 0 where a count is 0.

    Katz: the logarithm of the ratio of two rates, by a normal approximation.

    ln((TPR − δ)/FPR) − z·√(TPR(1 − TPR)/(n₁(TPR − δ)²) + 1/FP − 1/n₀), z the two-sided quantile. With δ = 0 the first
    term under the root is 1/TP − 1/n₁ (Katz et al. 1978); with δ > 0 it is the delta method for ln(TPR − δ). It is
    asymptotic, and it breaks where a count is 0 or TPR ≤ δ: an estimate beside the certificate of Clopper and Pearson.

    >>> notes = Counts(true_positives=4922, positives=100_000, false_positives=174, negatives=100_000)
    >>> round(katz_epsilon(notes, confidence=1 - 1e-10).value, 3)
    2.844
    >>> round(katz_epsilon(notes, delta=0.01, confidence=1 - 1e-10).value, 3)
    2.613
    """
    from scipy import stats

    level = float(1 - _checks.inner_probability("confidence", confidence))
    excused = float(_checks.probability("delta", delta))
    far = float(stats.norm.isf(level / 2))
    caught = (counts.true_positives, counts.positives, counts.false_positives, counts.negatives)
    cleared = (
        counts.negatives - counts.false_positives, counts.negatives, counts.false_negatives, counts.positives,
    )  # fmt: skip
    value = max(_lower(*caught, far, excused), _lower(*cleared, far, excused), 0.0)
    needs = f"{FIXED}; counts large enough for a normal law"
    said = "ln of the ratio of rates" if not excused else f"ln of the ratio of rates, less δ = {excused:.3g},"
    return Bound(value, False, f"{said} is about {value:.4f} or more", needs)


def _lower(hits: int, runs: int, misses: int, others: int, far: float, delta: float) -> float:
    rate = hits / runs
    if rate <= delta or not misses:
        return 0.0
    width = math.sqrt(rate * (1 - rate) / (runs * (rate - delta) ** 2) + 1 / misses - 1 / others)
    return math.log((rate - delta) * others / misses) - far * width


class RunsNeeded(NamedTuple):
    """Runs in each world with which an audit of a Gaussian mechanism shows most of its ε."""

    epsilon: float
    clopper_pearson: int
    gaussian: int

    @property
    def ratio(self) -> float:
        """How many times more runs an (ε, δ) bound needs than a bound on μ."""
        return self.clopper_pearson / self.gaussian


def runs_needed(epsilon: Number, *, delta: Number = 1e-5, share: Number = 0.9, confidence: Number = 0.95) -> RunsNeeded:
    """Runs in each world until `share` of a Gaussian mechanism's ε is certified, if the counts are the expected ones.

    The attacker thresholds a normal score, at the place that is best for each method: `epsilon_lower` (Clopper and
    Pearson, any mechanism) or `mu_lower` with the ε of a Gaussian curve (Nasr et al. 2023).

    >>> found = runs_needed(1)
    >>> found.clopper_pearson > 50 * found.gaussian
    True
    """
    target = float(_checks.positive("epsilon", epsilon)) * float(_checks.inner_probability("share", share))
    small = float(_checks.inner_probability("delta", delta))
    mu = claimed_mu(epsilon, delta)
    wanted_mu = claimed_mu(target, delta)
    level = float(1 - _checks.inner_probability("confidence", confidence)) / 2
    # Thresholds from the middle of the two laws far into the tail.
    thresholds = np.linspace(mu / 2, mu / 2 + 6, 61)

    def shows(runs: int, certified: Callable[[float, float], bool]) -> bool:
        for threshold in thresholds.tolist():
            positive, missed = _normal_tail(threshold), _normal_tail(mu - threshold)
            upper = [clopper_pearson_upper(round(runs * rate), runs, level=level) for rate in (positive, missed)]
            if certified(*upper):
                return True
        return False

    def by_line(false_positive: float, false_negative: float) -> bool:
        return implied_epsilon(false_positive, false_negative, delta=small) >= target

    def by_curve(false_positive: float, false_negative: float) -> bool:
        from scipy import stats

        return bool(stats.norm.isf(false_positive) - stats.norm.ppf(false_negative) >= wanted_mu)

    counts = [_first_runs(partial(shows, certified=by)) for by in (by_line, by_curve)]
    return RunsNeeded(float(epsilon), counts[0], counts[1])


def _normal_tail(place: float) -> float:
    return 0.5 * math.erfc(place / math.sqrt(2))


def _first_runs(shows: Callable[[int], bool]) -> int:
    """The number of runs, to two digits, from which on enough is shown."""
    runs = 10
    while not shows(runs) and runs < 10**14:
        runs *= 2
    low, high = runs // 2, runs
    while high - low > max(1, high // 50):
        middle = (low + high) // 2
        low, high = (low, middle) if shows(middle) else (middle, high)
    return high


_LARGEST = 60.0


def posterior_below(counts: Counts, epsilon: float, *, delta: float, prior: float = 0.5) -> float:
    """P[ε ≤ `epsilon`] under the posterior."""
    from scipy import stats

    missed = stats.beta(counts.false_negatives + prior, counts.true_positives + prior)
    said = stats.beta(counts.false_positives + prior, counts.negatives - counts.false_positives + prior)
    nodes, weights = np.polynomial.legendre.leggauss(64)
    total = 0.0
    # Panels between quantiles, so that no mass hides between two nodes.
    levels = [0.0, 1e-30, 1e-20, 1e-14, 1e-10, 1e-6, 1e-3, 0.05, 0.3, 0.7, 0.95]
    edges = np.concatenate([missed.ppf(levels), missed.isf([1e-3, 1e-6, 1e-10, 1e-14, 1e-20, 0.0])])
    for low, high in itertools.pairwise(edges):
        b = low + (high - low) * (nodes + 1) / 2
        least = np.maximum((1 - delta - b) * math.exp(-epsilon), 1 - delta - b * math.exp(epsilon))
        total += float((weights * missed.pdf(b) * said.sf(np.clip(least, 0, 1))).sum() * (high - low) / 2)
    return min(1.0, total)


def bayes_epsilon(counts: Counts, *, delta: Number = 0, confidence: Number = 0.95, prior: Number = 0.5) -> Bound:
    """ε is at least this with the stated posterior probability, under Beta(prior, prior) for both rates.

    The joint posterior of both error rates, pushed through to ε (Zanella-Béguelin et al. 2023).

    With independent Beta(a, a) priors (a = ½, Jeffreys) the rates have independent Beta posteriors, and

        P[ε ≤ v] = ∫ f(b)·P[FPR ≥ max((1 − δ − b)·e^{−v}, 1 − δ − b·e^v)] db        over FNR = b,

    which is computed by quadrature, not by samples: credible bounds at 1e-10 are as easy as at 0.05. The bound is
    credible under the prior; it does not promise how often it is wrong.

    >>> notes = Counts(true_positives=4922, positives=100_000, false_positives=174, negatives=100_000)
    >>> round(bayes_epsilon(notes, delta=1e-5, confidence=1 - 1e-10).value, 3)
    2.886
    """
    level = float(1 - _checks.inner_probability("confidence", confidence))
    shape = float(_checks.positive("prior", prior))
    at = float(_checks.probability("delta", delta))

    def possible(epsilon: float) -> bool:
        return posterior_below(counts, epsilon, delta=at, prior=shape) > level

    low = 0.0 if possible(0.0) else bisect(possible, 0.0, _LARGEST)[0]
    needs = f"{FIXED}; a Beta({shape:g}, {shape:g}) prior on both error rates"
    return Bound(low, False, f"ε ≥ {low:.4f} with posterior probability {1 - level:.12g}", needs)


Floats: TypeAlias = NDArray[np.float64]
Whole: TypeAlias = NDArray[np.int64]

_CANDIDATES = 512


@dataclass(frozen=True)
class Threshold:
    """Say "in" for scores above the value, or for scores at most the value."""

    value: float
    above: bool


def choose_threshold(without: Any, with_: Any, *, delta: Number = 0, confidence: Number = 0.95) -> Threshold:
    """The rule with the best Clopper–Pearson bound on validation runs in D and D′. Never count on these again.

    A threshold from validation runs, and the counts it gives on fresh ones.

    A threshold chosen on the runs that it is judged by makes every statistic here wrong: an in-sample best threshold
    alarms in about 40 % of audits where 5 % is nominal. So choose on validation runs, then count on others.

    >>> rule = choose_threshold([0.1, 0.2, 0.3, 0.2] * 9, [0.9, 0.8, 0.2, 0.9] * 9, delta=0)
    >>> rule.above, 0.3 < rule.value < 0.8, count_at(rule, [0.1, 0.2], [0.9, 0.1])
    (True, True, Counts(true_positives=1, positives=2, false_positives=0, negatives=2))
    """
    out, inside = _scores("without", without), _scores("with_", with_)
    level, at = float(1 - _checks.inner_probability("confidence", confidence)), float(delta)
    values = np.unique(np.concatenate([out, inside]))
    places = (values[1:] + values[:-1]) / 2 if len(values) > 1 else values
    if len(places) > _CANDIDATES:
        places = np.quantile(places, np.linspace(0, 1, _CANDIDATES))
    hits = np.searchsorted(np.sort(inside), places, side="right")  # scores at most the place
    misses = np.searchsorted(np.sort(out), places, side="right")
    worth = []
    for above in (True, False):
        said, wrong = (len(inside) - hits, len(out) - misses) if above else (hits, misses)
        # Where no rule shows anything, the one with the widest gap between the rates.
        gap = said / len(inside) - wrong / len(out)
        worth.append(_bounds(said, len(inside), wrong, len(out), delta=at, level=level) + 1e-6 * gap)
    below, place = divmod(int(np.argmax(np.concatenate(worth))), len(places))
    return Threshold(float(places[place]), below == 0)


def _bounds(hits: Whole, runs: int, misses: Whole, others: int, *, delta: float, level: float) -> Floats:
    """Clopper–Pearson bounds on ε for many rules at once."""
    from scipy import stats

    false_negative = np.where(hits == 0, 1.0, stats.beta.isf(level / 2, runs - hits + 1, np.maximum(hits, 1)))
    false_positive = np.where(
        misses == others, 1.0, stats.beta.isf(level / 2, misses + 1, np.maximum(others - misses, 1))
    )
    ratios = [
        np.maximum(1 - delta - one, 1e-300) / other
        for one, other in ((false_negative, false_positive), (false_positive, false_negative))
    ]
    return np.asarray(np.maximum(np.log(np.maximum(*ratios)), 0.0))


def count_at(rule: Threshold, without: Any, with_: Any) -> Counts:
    """What the rule says on other runs."""
    out, inside = _scores("without", without), _scores("with_", with_)
    said = [(scores > rule.value) if rule.above else (scores <= rule.value) for scores in (out, inside)]
    return Counts(int(said[1].sum()), len(inside), int(said[0].sum()), len(out))


def _scores(name: str, scores: Any) -> Floats:
    found = np.asarray(scores, dtype=np.float64).ravel()
    if not len(found) or np.isnan(found).any():
        raise InvalidArgument(name, f"{len(found)} scores", "at least one score, and no NaN")
    return found
