"""ε against the number of steps under every theorem: the graph of the lecture notes, complete.

`compare_theorems(step, counts=…, delta=…)` gives one line per theorem that applies to the step, the accountant's own
answer last among the bounds, and the central limit estimate marked as such. `comparison_table` writes it; the room
`explaining` draws it.

>>> from deniable.guarantees import PureDP
>>> found = compare_theorems(PureDP(0.1), counts=[1, 100, 1000], delta=1e-3)
>>> [round(e, 2) for e in found["basic"]], [round(e, 2) for e in found["optimal"]]
([0.1, 10.0, 100.0], [0.1, 3.12, 14.04])
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from deniable import _checks
from deniable._checks import Number
from deniable.conversions.gdp import gaussian_to_gdp, gdp_to_approx, gdp_to_zcdp, laplace_to_gdp
from deniable.conversions.pure import pure_to_gdp, pure_to_zcdp
from deniable.conversions.zcdp import zcdp_to_approx, zcdp_to_approx_classic
from deniable.errors import InvalidArgument, NotSupported
from deniable.events import Claimed, Event, ExponentialMechanism, Gaussian, Laplace, RandomizedResponse, Sampled
from deniable.guarantees import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from deniable.guarantees.printing import rounded_up
from deniable.textbook import clt, renyi
from deniable.textbook import composition as forms
from deniable.textbook.amplification import sample_poisson
from deniable.textbook.composition import compose_gdp_repeated, exponential_mechanism_zcdp, repeat_basic
from deniable.textbook.optimal import repeat_optimal

Cost = Callable[[int], float]
"""ε for a number of steps."""


@dataclass(frozen=True)
class TheoremLine:
    """One theorem: its ε at every count; an estimate is no guarantee."""

    theorem: str
    epsilons: tuple[float, ...]
    estimate: bool = False


@dataclass(frozen=True)
class Comparison:
    """Every theorem's ε against the number of steps, at one δ."""

    step: str
    delta: Fraction
    counts: tuple[int, ...]
    lines: tuple[TheoremLine, ...]

    def __getitem__(self, theorem: str) -> tuple[float, ...]:
        """The ε's of one theorem."""
        for line in self.lines:
            if line.theorem == theorem:
                return line.epsilons
        raise KeyError(theorem)

    def rows(self) -> list[list[str]]:
        """A header and one row per theorem, rounded up; an estimate says so."""
        header = ["theorem", *(f"k = {count:,}" for count in self.counts)]
        body = [
            [line.theorem + (" (estimate)" if line.estimate else ""), *map(rounded_up, line.epsilons)]
            for line in self.lines
        ]
        return [header, *body]


def compare_theorems(step: Event | Guarantee, *, counts: Iterable[int], delta: Number) -> Comparison:
    """ε of k copies of a step at a δ, for every k and every theorem that applies."""
    times = tuple(_checks.count("counts", count) for count in counts)
    if not times:
        raise InvalidArgument("counts", times, "one count or more")
    allowed = _checks.inner_probability("delta", delta)
    known = _known(step)
    lines = [
        TheoremLine(theorem, tuple(cost(count) for count in times), estimate=theorem.startswith("central limit"))
        for theorem, cost in _costs(known, allowed).items()
    ]
    return Comparison(repr(step), allowed, times, tuple(lines))


def comparison_table(comparison: Comparison) -> str:
    """The comparison as aligned text."""
    rows = comparison.rows()
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    )


@dataclass(frozen=True)
class _Known:
    """What is known about one step; None where a notion does not apply."""

    pure: PureDP | None = None
    approx: Callable[[Fraction], ApproxDP] | None = None
    zcdp: ZCDP | None = None
    gdp: GDP | None = None
    rdp: Callable[[Fraction], float] | None = None
    mu: Callable[[int], float] | None = None
    event: Event | None = None


def _known(step: Event | Guarantee) -> _Known:
    """All that the theorems can say about a step, by its kind."""
    if isinstance(step, Guarantee):
        return _known(Claimed(step))
    known = _KNOWN.get((type(step), type(getattr(step, "guarantee", getattr(step, "event", None)))))
    if known is None:
        raise NotSupported(
            f"no table of theorems for {type(step).__name__}; give one step: Gaussian, Laplace, RandomizedResponse,"
            " ExponentialMechanism, a sampled Gaussian, or a guarantee"
        )
    return known(step)


def _replaced(known: _Known, **changes: Any) -> _Known:
    return _Known(**{**known.__dict__, **changes})


def _pure(step: Event, guarantee: PureDP) -> _Known:
    return _Known(
        pure=guarantee,
        zcdp=pure_to_zcdp(guarantee),
        gdp=pure_to_gdp(guarantee),
        rdp=lambda order: renyi.pure_rdp(order, epsilon=guarantee.epsilon),
        mu=lambda count: clt.estimate_pure_mu(epsilon=guarantee.epsilon, count=count),
        event=step,
    )


def _gaussian(step: Event, guarantee: GDP) -> _Known:
    return _Known(
        approx=lambda delta: gdp_to_approx(guarantee, delta=delta),
        zcdp=gdp_to_zcdp(guarantee),
        gdp=guarantee,
        rdp=lambda order: renyi.gaussian_rdp(order, mu=guarantee.mu),
        event=step,
    )


def _sampled_gaussian(step: Sampled, inner: Gaussian) -> _Known:
    if inner.reach is not None:
        raise NotSupported("the table of theorems covers sampled Gaussians under ADD_REMOVE and ZERO_OUT")
    multiplier = inner.scale / inner.sensitivity
    plain = gaussian_to_gdp(scale=multiplier, relation=inner.relation)
    return _Known(
        # (ε₀, δ₀) of the Gaussian at δ₀/q, amplified to δ₀.
        approx=lambda delta: sample_poisson(
            gdp_to_approx(plain, delta=min(delta / step.rate, Fraction(999, 1000))), rate=step.rate
        ),
        rdp=lambda order: renyi.sampled_gaussian_rdp(order, rate=step.rate, noise_multiplier=multiplier),
        mu=lambda count: clt.estimate_dpsgd_mu(rate=step.rate, noise_multiplier=multiplier, steps=count),
        event=step,
    )


def _laplace(step: Laplace) -> _Known:
    epsilon = step.sensitivity / step.scale
    known = _pure(step, PureDP(epsilon, relation=step.relation))
    gdp = laplace_to_gdp(scale=step.scale, sensitivity=step.sensitivity, relation=step.relation)
    return _replaced(known, gdp=gdp, rdp=lambda order: renyi.laplace_rdp(order, epsilon=epsilon))


def _response(step: RandomizedResponse) -> _Known:
    known, kinds = _pure(step, PureDP(step.epsilon, relation=step.relation)), step.categories
    return _replaced(
        known, rdp=lambda order: renyi.randomized_response_rdp(order, epsilon=step.epsilon, categories=kinds)
    )


def _exponential(step: ExponentialMechanism) -> _Known:
    rho = exponential_mechanism_zcdp(epsilon=step.epsilon, relation=step.relation)
    return _replaced(_pure(step, PureDP(step.epsilon, relation=step.relation)), zcdp=rho)


_KNOWN: dict[tuple[type, type], Callable[[Any], _Known]] = {
    (Claimed, PureDP): lambda step: _pure(step, step.guarantee),
    (Claimed, ApproxDP): lambda step: _Known(approx=lambda _: step.guarantee, event=step),
    (Claimed, GDP): lambda step: _gaussian(step, step.guarantee),
    (Claimed, ZCDP): lambda step: _Known(
        zcdp=step.guarantee, rdp=lambda order: float(order * step.guarantee.rho), event=step
    ),
    (Gaussian, type(None)): lambda step: _gaussian(
        step, gaussian_to_gdp(scale=step.scale, sensitivity=step.sensitivity, relation=step.relation)
    ),
    (Laplace, type(None)): _laplace,
    (RandomizedResponse, type(None)): _response,
    (ExponentialMechanism, type(None)): _exponential,
    (Sampled, Gaussian): lambda step: _sampled_gaussian(step, step.event),
}
"""By the kind of a step, and the kind of the promise or of the step inside it."""


def _costs(known: _Known, delta: Fraction) -> dict[str, Cost]:
    """The theorems that apply, each as ε of a count."""
    costs: dict[str, Cost] = {}
    if known.pure is not None or known.approx is not None:
        costs |= {name: _by_promise(known, delta, form) for name, form in _FORMS.items()}
    if known.zcdp is not None:
        rho = known.zcdp
        costs["zCDP, classic conversion"] = lambda k: float(zcdp_to_approx_classic(_times(rho, k), delta=delta).epsilon)
        costs["zCDP"] = lambda k: float(zcdp_to_approx(_times(rho, k), delta=delta).epsilon)
    if known.rdp is not None:
        # Large orders are for tiny steps; they are dear for a sampled one, and seldom the best there.
        few = isinstance(known.event, Sampled)
        curve = renyi.rdp_curve_of(known.rdp, orders=[a for a in renyi.ORDERS if a <= 2048 or not few])
        costs["moments accountant"] = lambda k: float(
            renyi.moments_accountant(renyi.repeat_rdp(curve, count=k), delta=delta).epsilon
        )
        costs["Rényi"] = lambda k: float(renyi.best_order(renyi.repeat_rdp(curve, count=k), delta=delta)[1].epsilon)
    if known.gdp is not None:
        mu = known.gdp
        costs["Gaussian DP"] = lambda k: float(gdp_to_approx(compose_gdp_repeated(mu, count=k), delta=delta).epsilon)
    if known.event is not None:
        costs["accountant"] = _accounted(known.event, delta)
    if known.mu is not None:
        estimate = known.mu
        costs["central limit"] = lambda k: clt.estimate_epsilon(estimate(k), delta=delta)
    return costs


def _times(rho: ZCDP, count: int) -> ZCDP:
    return ZCDP(count * rho.rho, relation=rho.relation, unit=rho.unit)


def _accounted(event: Event, delta: Fraction) -> Cost:
    from deniable.accounting.accountant import account

    return lambda k: account(event * k).epsilon(delta)


Form = Callable[[PureDP | ApproxDP, int, Fraction], float]
"""ε of k steps that have one promise, with a slack δ′ to spend."""


def _by_promise(known: _Known, delta: Fraction, form: Form) -> Cost:
    """A theorem about (ε₀, δ₀) alone. A step without a δ₀ of its own gets a share of half of δ; the rest is slack."""

    def cost(count: int) -> float:
        if known.pure is not None:
            return form(known.pure, count, delta)
        if known.approx is None:
            return math.inf
        share = delta / (2 * count)
        promise = known.approx(share)
        left = delta - count * promise.delta
        return form(promise, count, left) if left > 0 else math.inf

    return cost


def _basic(promise: PureDP | ApproxDP, count: int, slack: Fraction) -> float:
    return float(repeat_basic(promise, count=count).epsilon)


def _optimal(promise: PureDP | ApproxDP, count: int, slack: Fraction) -> float:
    spent = promise.delta * count if isinstance(promise, ApproxDP) else Fraction(0)
    return repeat_optimal(promise, count=count).epsilon(min(slack + spent, Fraction(1)))


def _advanced(form: Callable[..., ApproxDP]) -> Form:
    def cost(promise: PureDP | ApproxDP, count: int, slack: Fraction) -> float:
        try:
            return float(form(promise, count=count, slack=slack).epsilon)
        except InvalidArgument:  # this form is printed for small ε only
            return math.inf

    return cost


_FORMS: dict[str, Form] = {
    "basic": _basic,
    "advanced, kε(e^ε − 1)": _advanced(forms.advanced_exponential),
    "advanced, kε²": _advanced(forms.advanced_square),
    "advanced, kε²/2": _advanced(forms.advanced_half),
    "advanced, kε·tanh(ε/2)": _advanced(forms.advanced_tanh),
    "optimal": _optimal,
}
