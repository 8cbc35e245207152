"""Calibration: finds the value of one parameter that meets a target, on the safe side, by asking the accountant.

`calibrate` takes any function from a number to an event (a noise multiplier, a rate, a number of steps, a query's ε)
and any target: a guarantee, or a limit on what an attacker can do. It finds out by itself whether more is safer or
riskier, and returns a value that meets the target *by the proven end of the curve*, evaluated at that very value:
nothing rests on monotonicity, which holds for continuous noise but not for the discrete Gaussian (its δ at a fixed ε
rises and falls with the scale). Between the value returned and the true border lies at most `tolerance`, relatively,
where the curve is monotone.

>>> from deniable.events import Gaussian
>>> from deniable.guarantees import ApproxDP
>>> noise = calibrate(lambda scale: Gaussian(scale=scale), ApproxDP(1, 1e-5))
>>> round(noise.value, 4), noise.profile.epsilon(1e-5) <= 1
(3.7306, True)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from statistics import NormalDist
from typing import Any

from deniable import _checks
from deniable._checks import Number
from deniable._forms import Plain
from deniable._signatures import public
from deniable.accounting.accountant import account
from deniable.accounting.filters.costs import cost, mu_squared, rho_below
from deniable.errors import InvalidArgument, NoConversion
from deniable.events import Event
from deniable.guarantees import (
    FDP,
    GDP,
    RDP,
    TCDP,
    ZCDP,
    ApproxDP,
    ApproxZCDP,
    Guarantee,
    Profile,
    PureDP,
    read_promise,
)  # fmt: skip
from deniable.numerics.roots import bisect
from deniable.numerics.rounding import below, log_of
from deniable.units import Relation, one_relation, one_unit

_SMALLEST, _LARGEST = 1e-100, 1e100
"""The ends of the search for a first value that meets the target."""


@dataclass(frozen=True, repr=False)
class Risk:
    """A limit on what an attacker can do, computed from the curve. One of the four class methods makes it.

    >>> Risk.true_positive_rate(0.05, alpha=0.001)
    Risk.true_positive_rate(0.05, alpha=0.001)
    >>> print(Risk.posterior(0.2, prior=0.1, failure=1e-6))
    belief ≤ 0.2 from a prior of 0.1, but for outputs of probability 1e-06
    """

    measure: str
    limit: Fraction
    at: Fraction | None = None
    failure: Fraction = Fraction(0)

    @classmethod
    def advantage(cls, limit: Number) -> Risk:
        """True positives minus false positives of any test, at most `limit`."""
        return cls("advantage", _checks.inner_probability("limit", limit))

    @classmethod
    def true_positive_rate(cls, limit: Number, *, alpha: Number) -> Risk:
        """True positives at a false-positive rate `alpha`, at most `limit`."""
        return cls("true_positive_rate", _checks.inner_probability("limit", limit), _checks.probability("alpha", alpha))

    @classmethod
    def accuracy(cls, limit: Number, *, prior: Number) -> Risk:
        """How often the best guess of an attacker with a prior is right, at most `limit`."""
        return cls("accuracy", _checks.inner_probability("limit", limit), _checks.inner_probability("prior", prior))

    @classmethod
    def posterior(cls, limit: Number, *, prior: Number, failure: Number = 0) -> Risk:
        """What an attacker with a prior can come to believe is at most `limit`, except for outputs of probability
        `failure`.
        """
        prior_share = _checks.inner_probability("prior", prior)
        most = _checks.inner_probability("limit", limit)
        if most <= prior_share:
            raise InvalidArgument("limit", limit, "above the prior", "Nobody can be made to believe less for certain.")
        return cls("posterior", most, prior_share, _checks.probability("failure", failure))

    def __repr__(self) -> str:
        parts = [_checks.shown(self.limit)]
        if self.at is not None:
            name = "alpha" if self.measure == "true_positive_rate" else "prior"
            parts.append(f"{name}={_checks.shown(self.at)}")
        if self.failure:
            parts.append(f"failure={_checks.shown(self.failure)}")
        return f"Risk.{self.measure}({', '.join(parts)})"

    def __str__(self) -> str:
        limit, at = _checks.shown(self.limit), "" if self.at is None else _checks.shown(self.at)
        if self.measure == "advantage":
            return f"advantage of any test ≤ {limit}"
        if self.measure == "true_positive_rate":
            return f"true positives of any test ≤ {limit} at false positives of {at}"
        if self.measure == "accuracy":
            return f"right guesses ≤ {limit} from a prior of {at}"
        but = f", but for outputs of probability {_checks.shown(self.failure)}" if self.failure else ""
        return f"belief ≤ {limit} from a prior of {at}{but}"

    def of(self, profile: Profile) -> float:
        """The risk that a curve allows, rounded up."""
        if self.measure == "advantage":
            return profile.advantage
        at = self.at if self.at is not None else Fraction(0)
        if self.measure == "true_positive_rate":
            return profile.true_positive_rate(at)
        return profile.accuracy(at) if self.measure == "accuracy" else profile.posterior(at, failure=self.failure)


@dataclass(frozen=True)
class Calibrated(Plain):
    """A value on the safe side, the event it makes, and the curve of that event."""

    value: float
    event: Event
    profile: Profile

    def to_dict(self) -> dict[str, Any]:
        return {"value": self.value, "event": self.event.to_dict()}


@public
def calibrate(
    make_event: Callable[[float], Event],
    target: Guarantee | Risk | None = None,
    *,
    epsilon: Number | None = None,
    delta: Number | None = None,
    within: tuple[float, float] | None = None,
    tolerance: Number = 1e-6,
) -> Calibrated:
    """The value nearest to the border at which `make_event(value)` meets the target.

    Values that `make_event` refuses (a rate above 1) count as outside the search. If it refuses every value for the
    same reason, its own exception is raised, because then something else than the value is wrong.

    Args:
        make_event: a function from a value to the event that must meet the target.
        target: what to meet: a guarantee or a `Risk`.
        epsilon: with `delta`, the short form of `target`; its relation is that of the events.
        delta: of the short form.
        within: the ends of the search. Two whole numbers make it a search among whole numbers (steps, people). All
            positive numbers are searched if it is left out.
        tolerance: how near to the border, relative to the value.
    """
    if not callable(make_event):
        raise InvalidArgument(
            "make_event", make_event, "a function from a number to an event", "For example lambda s: Gaussian(scale=s)."
        )
    if not isinstance(target, Risk):
        relation = None if target is not None else _relation_of(make_event, within)
        target = read_promise("target", target, epsilon=epsilon, delta=delta, relation=relation)
    near = float(_checks.inner_probability("tolerance", tolerance))
    whole = within is not None and all(isinstance(end, int) for end in within)
    if within is not None and not 0 < within[0] < within[1]:
        raise InvalidArgument("within", within, "two positive numbers, the smaller one first")
    search = _Search(make_event, target, within, whole)
    value, event = search.tests(near) or search.border(near)
    profile = account(event, unit=target.unit) if isinstance(target, Guarantee) else account(event)
    return Calibrated(int(value) if whole else value, event, profile)


def _relation_of(make_event: Callable[[float], Event], within: tuple[float, float] | None) -> Relation:
    """The relation of the events, from the first value that makes one."""
    for value in within or (1.0, 0.1, 0.01, 1e-4):
        with suppress(InvalidArgument):
            event = make_event(value)
            if isinstance(event, Event):
                return event.relation
    return Relation.ADD_REMOVE


@dataclass(frozen=True)
class _Line:
    """A target: δ(ε) is at most `delta`, under any relation."""

    epsilon: float
    delta: Fraction


class _Search:
    """Computes margins and caches them. A margin at or below 0 meets the target; its size only guides the search."""

    def __init__(
        self,
        make_event: Callable[[float], Event],
        target: Guarantee | Risk | _Line,
        within: tuple[float, float] | None,
        whole: bool,
    ) -> None:
        self.make, self.target, self.within, self.whole = make_event, target, within, whole
        self.margins: dict[float, float] = {}
        self.refusals: dict[float, InvalidArgument] = {}

    def border(self, near: float) -> tuple[float, Event]:
        """The value nearest to the border that meets the target, and its event."""
        meets, fails = self.ends()
        value = self.between(meets, fails, near)
        event = self.event(value)
        if event is None or self.margin(value) > 0:
            raise InvalidArgument(
                "target", self.target, "met by the value found", "The curve is not monotone here; narrow `within`."
            )
        return value, event

    def tests(self, near: float) -> tuple[float, Event] | None:
        """`border` for a limit on true positives, by few points of the curve; None for other targets.

        A test with false positives α has at most δ(ε) + e^ε α true positives, for every ε ≥ 0 (`Profile.tradeoff`). So
        an (ε, limit − e^ε α) target proves the limit. The best ε is guessed from the Gaussian curve through (α, limit)
        and improved at the value that it leads to: an error in ε is squared in the value. The whole curve decides.
        """
        target = self.target
        if not isinstance(target, Risk) or target.measure != "true_positive_rate" or not target.at:
            return None
        # Both orders have one curve, so the roles of the two errors may change.
        alpha, limit = min((target.at, target.limit), (1 - target.limit, 1 - target.at), key=lambda ends: sum(ends))
        if not alpha < limit:
            return None
        level, low = NormalDist(), float(alpha)
        mu = level.inv_cdf(min(float(limit), 1 - 2.0**-53)) - level.inv_cdf(low)
        # −f′(α) = e^ε for the Gaussian trade-off function f.
        epsilon, value, fails = max(-mu * level.inv_cdf(low) - mu * mu / 2, 1e-6), None, None
        for tolerance in (1e-2, 1e-4, near):
            room = Fraction(0.999999999999 * (float(limit) - math.exp(epsilon) * low))
            if room <= 0:
                return None
            line = _Search(self.make, _Line(epsilon, room), self.within, self.whole)
            try:
                meets, fails = line.around(value, fails)
                value = line.between(meets, fails, tolerance)
            except InvalidArgument:
                nearest = min(line.margins, key=lambda p: line.margins[p]) if line.margins else None
                event = None if nearest is None else self.event(nearest)
                if event is None or nearest is None or min(margin(event, target), line.margins[nearest]) <= 0:
                    return None
                self.margins = line.margins
                raise InvalidArgument(
                    "target",
                    target,
                    f"on the border somewhere between {min(line.margins):g} and {max(line.margins):g}",
                    self._why_not(list(line.margins)),
                ) from None
            event = self.event(value)
            if event is not None:
                epsilon = _best_line(account(event), low, epsilon)
        for step in range(6):
            event = None if value is None else self.event(value)
            if event is None or value is None or fails is None:
                return None
            if margin(event, target) <= 0:
                return value, event
            away = math.copysign(1.0, value - fails)
            value = value + away if self.whole else value * math.exp(away * near * 2.0 ** (step - 3))
        return None

    def around(self, value: float | None, fails: float | None) -> tuple[float, float]:
        """`ends`, near the value that a similar target led to."""
        if value is not None and fails is not None and not self.whole:
            for width in (1e-3, 1e-2):
                ends = sorted((value * (1 - width), value * (1 + width)), key=self.margin)
                if self.margin(ends[0]) <= 0 < self.margin(ends[1]):
                    return ends[0], ends[1]
        return self.ends()

    def event(self, value: float) -> Event | None:
        """The event for a value; None outside the search, and where `make_event` refuses the value."""
        if self.within is not None and not self.within[0] <= value <= self.within[1]:
            return None
        try:
            event = self.make(int(value) if self.whole else value)
        except InvalidArgument as refusal:
            self.refusals[value] = refusal
            return None
        if not isinstance(event, Event):
            raise InvalidArgument(
                "make_event", type(event).__name__, "a function that returns an event",
                "For example lambda s: Gaussian(scale=s).",
            )  # fmt: skip
        return event

    def margin(self, value: float) -> float:
        """The logarithm of cost over target at a value; NaN where there is no event."""
        if value not in self.margins:
            event = self.event(value)
            self.margins[value] = math.nan if event is None else margin(event, self.target)
        return self.margins[value]

    def ends(self) -> tuple[float, float]:
        """A value that meets the target and one that does not, near each other."""
        if self.within is not None:
            low, high = map(float, self.within)
            if any(math.isnan(margin) for margin in [self.margin(low), self.margin(high)]):  # both are asked
                raise self._refusal()
            values = [low, high]
        else:
            values = self._walk()
        for one, two in pairwise(values):
            first, second = self.margin(one) <= 0, self.margin(two) <= 0
            if first != second:
                return (one, two) if first else (two, one)
        raise InvalidArgument(
            "target",
            self.target,
            f"on the border somewhere between {min(values):g} and {max(values):g}",
            self._why_not(values),
        )

    def _why_not(self, values: list[float]) -> str:
        """Why no value lies on the border."""
        if all(self.margin(value) <= 0 for value in values):
            return "Every value there meets it: it does not limit this value."
        nearest = min(values, key=self.margin)
        if self.margin(nearest) == math.inf:
            return (
                "Every value there costs infinitely much: Gaussian noise needs a δ above 0, and where a part may fail"
                " with a larger probability than the target's δ no ε is enough."
            )
        least = ""
        if isinstance(self.target, PureDP | ApproxDP) and self.target.epsilon:
            reached = float(self.target.epsilon) * math.exp(self.margin(nearest))
            least = f" The smallest ε there is about {reached:.3g}, at {nearest:g}."
        remedy = "Take less of what the value does not change" if self.within is None else "Widen `within`"
        return f"No value there meets it.{least} {remedy}, or allow more."

    def _walk(self) -> list[float]:
        """Values from 1 (or a smaller start) outwards, on the side that is nearer to the border, until it is crossed.

        A side ends where the events end or where the numbers end. The search ends where the margin has stopped moving
        on the nearer side.
        """
        here = next((value for value in (1.0, 0.1, 0.01, 1e-4) if not math.isnan(self.margin(value))), None)
        if here is None:
            raise self._refusal()
        there = next((p for p in (here * 4, here / 4) if not math.isnan(self.margin(p))), None)
        if there is None:
            return [here]
        values, open_sides = sorted((here, there)), {-1, 1}
        while len(values) < 60 and open_sides and not self._has_crossed(values):
            side = self._nearer(values, open_sides)
            last, before = (values[0], values[1]) if side < 0 else (values[-1], values[-2])
            if self._is_flat(values, side):  # and the other side is further from the border
                break
            value = self._further(before, last)
            lost = self.margin(last) == math.inf and not 1e-3 < value / here < 1e3  # nothing leads further
            if lost or not _SMALLEST < value < _LARGEST:
                open_sides.discard(side)
                continue
            if math.isnan(self.margin(value)) or not 1e-15 < value < 1e15:
                value = self._edge(last, value)
                open_sides.discard(side)
            if value != last:
                values = sorted((*values, value))
        return values

    def _has_crossed(self, values: list[float]) -> bool:
        """Whether some of the values meet the target and some do not."""
        return len({self.margin(value) <= 0 for value in values}) > 1

    def _nearer(self, values: list[float], sides: set[int]) -> int:
        """The side on which to search next: the one with the smaller margin, or else the shorter one."""
        low, high = abs(self.margin(values[0])), abs(self.margin(values[-1]))
        if len(sides) == 1 or low == high:
            return next(iter(sides)) if len(sides) == 1 else (1 if values[-1] * values[0] <= 1 else -1)
        return 1 if high < low else -1

    def _further(self, before: float, last: float) -> float:
        """The next value to try: a little beyond where a straight line crosses 0, by a factor between 1.2 and 1000."""
        rise, value = self.margin(last) - self.margin(before), self.margin(last)
        ratio = abs(value / rise) if math.isfinite(rise) and rise else 3.0
        stride = math.log(last / before)
        length = min(max(abs(stride) * (1.1 * ratio + 0.05), math.log(1.2)), math.log(1e3))
        return last * math.exp(math.copysign(length, stride))

    def _is_flat(self, values: list[float], side: int) -> bool:
        """Whether the margin has stopped moving on a side."""
        last = values[0] if side < 0 else values[-1]
        far = [value for value in values if abs(math.log(value / last)) >= math.log(1e5)]
        if not far or not math.isfinite(self.margin(last)):
            return False
        inner = max(far) if side > 0 else min(far)
        return abs(self.margin(last) - self.margin(inner)) <= 1e-4 * abs(self.margin(last))

    def _refusal(self) -> InvalidArgument:
        """Why there is nothing to search: the exception of `make_event`, if it is the same for every value tried."""
        reasons = list(self.refusals.values())
        if len(reasons) > 1 and len({str(refusal) for refusal in reasons}) == 1:
            return reasons[0]
        value, refusal = next(iter(self.refusals.items()))
        return InvalidArgument(
            "within", self.within, "two values that make_event accepts", f"It refuses {value:g}: {refusal}"
        )

    def _edge(self, inside: float, outside: float) -> float:
        """Bisects for the value nearest to `outside` for which `make_event` does not raise."""

        def value_at(share: float) -> float:
            return inside * math.pow(outside / inside, share)

        return value_at(bisect(lambda share: math.isnan(self.margin(value_at(share))), 0.0, 1.0, turns=40)[0])

    def between(self, meets: float, fails: float, near: float) -> float:
        """The border, kept on the side that meets: interpolates the logarithm of the value by the margin."""
        good, bad = (math.log(meets), self.margin(meets)), (math.log(fails), self.margin(fails))
        third, before = None, math.inf
        for turn in range(200):
            gap = abs(math.exp(good[0]) - math.exp(bad[0]))
            if gap <= (1 if self.whole else near * math.exp(good[0]) / 2):
                break
            slow = turn % 3 == 2 and abs(good[0] - bad[0]) > before / 4
            before = abs(good[0] - bad[0]) if turn % 3 == 2 else before
            candidate = self._next(good, bad, None if slow else third, near, halve=slow)
            value = self.margin(candidate)
            if math.isnan(value):
                value = 1.0
            if value <= 0:
                third, good = good, (math.log(candidate), value)
            else:
                third, bad = bad, (math.log(candidate), value)
        return float(round(math.exp(good[0]))) if self.whole else self._nearest_tried(good[0])

    def _next(
        self,
        good: tuple[float, float],
        bad: tuple[float, float],
        third: tuple[float, float] | None,
        near: float,
        *,
        halve: bool,
    ) -> float:
        """The next value to try, strictly between the two: where a parabola, else a line, crosses 0."""
        share = 0.5 if halve else _crossing_share(good, bad, third)
        # Not nearer to an end than a part of the tolerance: on the other side of the border the gap is then closed.
        edge = min(0.25, 0.3 * near / abs(good[0] - bad[0]))
        middle = math.exp(good[0] + min(max(share, edge), 1 - edge) * (bad[0] - good[0]))
        if self.whole:
            ends = sorted((round(math.exp(good[0])), round(math.exp(bad[0]))))
            return float(min(max(round(middle), ends[0] + 1), ends[1] - 1))
        return middle

    def _nearest_tried(self, logarithm: float) -> float:
        """The value that was evaluated, not a rounded neighbour of it."""
        return min(
            (tried for tried, value in self.margins.items() if value <= 0), key=lambda p: abs(math.log(p) - logarithm)
        )


def _crossing_share(good: tuple[float, float], bad: tuple[float, float], third: tuple[float, float] | None) -> float:
    """How far from `good` to `bad` the margin is 0, by inverse interpolation through (place, margin)."""
    (x, a), (y, b) = good, bad
    if not (math.isfinite(a) and math.isfinite(b) and a < b):
        return 0.5
    line = a / (a - b)
    if third is None or not math.isfinite(third[1]) or third[1] in (a, b):
        return line
    z, c = third
    place = x * b * c / ((a - b) * (a - c)) + y * a * c / ((b - a) * (b - c)) + z * a * b / ((c - a) * (c - b))
    share = (place - x) / (y - x)
    return share if 0 < share < 1 else line


def _best_line(profile: Profile, alpha: float, start: float) -> float:
    """The ε near `start` at which δ(ε) + e^ε α, a bound on the true positives of any test, is smallest.

    An estimate: every ε is a valid bound. It is convex in e^ε, so parabolas lead to its lowest point.
    """

    def true_positives(epsilon: float) -> float:
        return profile.delta(epsilon) + math.exp(epsilon) * alpha

    best, step = start, 0.1 * start
    for _ in range(4):
        left, middle, right = true_positives(best - step), true_positives(best), true_positives(best + step)
        bend = left - 2 * middle + right
        move = min(max((left - right) / (2 * bend), -3.0), 3.0) if bend > 0 else math.copysign(3.0, left - right)
        best, before = max(best + step * move, 0.25 * best), best
        if abs(best - before) <= 1e-3 * before:
            break
        step = min(step, max(0.2 * abs(best - before), 1e-3 * best), 0.5 * best)
    return best


def margin(event: Event, target: Guarantee | Risk | _Line) -> float:
    """ln(cost/limit) of an event for a target. It is at most 0 exactly when the target is proven to be met."""
    if isinstance(target, _Line):
        return _over(account(event).epsilon(target.delta), Fraction(target.epsilon))
    if isinstance(target, Risk):
        return _over(target.of(account(event)), target.limit)
    one_relation(event.relation, target.relation, doing="calibrate")
    one_unit(target.unit, event.unit, doing="calibrate")
    if isinstance(target, PureDP):
        return _over(account(event).epsilon(0), target.epsilon)
    if isinstance(target, ApproxDP):
        profile = account(event)
        if not target.epsilon:
            return _over(profile.delta(0), target.delta)
        return _over(profile.epsilon(target.delta), target.epsilon)
    if isinstance(target, GDP):
        return _over(_require_bound(mu_squared(event), target, event), target.mu**2)
    if isinstance(target, ZCDP | ApproxZCDP):
        spent = cost(event)
        if isinstance(target, ZCDP) and spent.delta:
            raise NoConversion(
                f"{event!r} may fail with probability δ > 0 and has no zCDP. Use ApproxZCDP or ApproxDP."
            )
        if isinstance(target, ApproxZCDP) and spent.delta > target.delta:
            return _over(spent.delta, target.delta)
        return _over(_require_bound(spent.rho, target, event), target.rho)
    if isinstance(target, TCDP):
        return _over(_require_bound(rho_below(event, target.omega), target, event), target.rho)
    if isinstance(target, RDP):
        spent = cost(event, (target.order,))
        return _over(_require_bound(None if spent.delta else spent.renyi[0], target, event), target.epsilon)
    if isinstance(target, FDP):
        return _fdp_margin(account(event), target)
    raise NoConversion(f"nothing can be calibrated to {type(target).__name__}")


def _over(spent: float | Fraction, allowed: Fraction) -> float:
    """ln(spent/allowed), with the sign decided exactly."""
    if spent == math.inf:
        return math.inf
    # A pure ε is known as a decimal, which a float may lie below.
    within = max(Fraction(spent), _checks.exact(spent)) <= allowed
    if not spent:
        return -math.inf if allowed or within else 0.0
    if not allowed:
        return math.inf
    size = log_of(Fraction(spent)) - log_of(allowed)
    return min(size, 0.0) if within else max(size, 5e-324)


def _require_bound(bound: Fraction | None, target: Guarantee, event: Event) -> Fraction:
    if bound is None:
        raise NoConversion(f"{event!r} has no bound of the kind {type(target).__name__}. Use ApproxDP.")
    return bound


def _fdp_margin(profile: Profile, target: FDP) -> float:
    """A piecewise linear f is met exactly when δ(ln m) ≤ 1 − c for each of its lines c − m·α with m ≥ 1."""
    worst = -math.inf
    for steep, missed in target.tradeoff.symmetrized().lines:
        if steep >= 1:
            worst = max(worst, _over(profile.delta(max(0.0, below(log_of(steep)))), 1 - missed))
    return worst
