"""Pictures of a privacy curve: trade-off, profile, beliefs, ε against the number of releases.

Every line is a proven end: what an attacker can do is drawn from above, an audit's finding from below.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from deniable.accounting.theorems.compare import Comparison
from deniable.explaining.figures import BarFigure, Interval, IntervalFigure, Line, LineFigure
from deniable.guarantees import Profile
from deniable.guarantees.printing import small

_POINTS = 60

_SLACK = 2.0**-48
"""More than the rounding of a line through numbers of at most 1: what is drawn stays a proven end."""

TradeOff = Callable[[float], float]
"""False negatives at a false-positive rate."""


def tradeoff_figure(claims: Mapping[str, Profile], *, audited: Mapping[str, TradeOff] | None = None) -> LineFigure:
    """The fewest false negatives of any test, for each claim; what an audit reached beside it; guessing as reference.

    An audited line may not lie below the claim's: where it does, the claim is refuted.
    """
    rates = tuple(i / _POINTS for i in range(_POINTS + 1))
    lines = [Line(name, rates, _tradeoff(profile, rates)) for name, profile in claims.items()]
    lines += [Line(f"{name} (audited)", rates, tuple(map(f, rates))) for name, f in (audited or {}).items()]
    lines.append(Line("guessing", (0.0, 1.0), (1.0, 0.0), dashed=True))
    return LineFigure(
        "What a test about one person can achieve",
        "false positives",
        "false negatives",
        tuple(lines),
        alt="False negatives against false positives; nearer to the guessing line is more private. "
        + " ".join(
            f"{name}: at 10 % false positives at least {profile.tradeoff(Fraction(1, 10)):.0%} are missed."
            for name, profile in claims.items()
        ),
        x_range=(0, 1),
        y_range=(0, 1),
    )


def _tradeoff(profile: Profile, rates: tuple[float, ...]) -> tuple[float, ...]:
    """`Profile.tradeoff` at many rates at once: the same formula, over one fixed list of ε, each of them valid."""
    curve = [(e, profile.delta(e)) for e in (i * i / 400 for i in range(_POINTS))]
    return tuple(
        max(0.0, *(max(1 - d - math.exp(e) * a, math.exp(-e) * (1 - d - a)) - _SLACK for e, d in curve)) for a in rates
    )


def profile_figure(claims: Mapping[str, Profile], *, smallest: float = 1e-12) -> LineFigure:
    """δ against ε, down to a smallest δ."""
    most = max(profile.epsilon(smallest) for profile in claims.values())
    most = most if 0 < most < math.inf else 10.0
    grid = tuple(most * i / _POINTS for i in range(_POINTS + 1))
    lines = tuple(Line(name, grid, tuple(profile.delta(e) for e in grid)) for name, profile in claims.items())
    return LineFigure(
        "The privacy curve",
        "ε",
        "δ",
        lines,
        alt="δ against ε; lower is more private. "
        + " ".join(f"{name}: ε is {profile.epsilon(1e-6):.3g} at δ = 1e-6." for name, profile in claims.items()),
        x_range=(0, most),
        y_range=(smallest, 1),
        log_y=True,
    )


def belief_figure(profile: Profile, *, failure: Fraction = Fraction(1, 1000)) -> LineFigure:
    """The most that a belief can grow to, against what it was before."""
    at = [Fraction(i, _POINTS) for i in range(1, _POINTS)]
    priors = tuple(map(float, at))
    pure = profile.epsilon(0) < math.inf
    after = tuple(profile.posterior(p, failure=0 if pure else failure) for p in at)
    name = "after, at most" if pure else f"after, at most, but for {small(failure)} of the outputs"
    return LineFigure(
        "From belief before to belief after",
        "belief before",
        "belief after",
        (Line(name, priors, after), Line("nothing learned", (0.0, 1.0), (0.0, 1.0), dashed=True)),
        alt=f"Belief after against belief before. A belief of 10 % grows to at most"
        f" {profile.posterior(Fraction(1, 10), failure=0 if pure else failure):.0%}.",
        x_range=(0, 1),
        y_range=(0, 1),
    )


def comparison_figure(comparison: Comparison) -> LineFigure:
    """ε against the number of releases under every theorem: the graph of the lecture notes."""
    counts = tuple(map(float, comparison.counts))
    lines = tuple(
        Line(line.theorem + (" (estimate)" if line.estimate else ""), counts, line.epsilons, dashed=line.estimate)
        for line in comparison.lines
    )
    finite = [e for line in lines for e in line.ys if 0 < e < math.inf]
    wide = max(finite) > 30 * min(finite)
    basic = next((line.ys for line in lines if line.label == "basic" and math.isfinite(line.ys[-1])), None)
    # Advanced forms start above basic composition and would squeeze everything else.
    top = 1.1 * basic[-1] if basic else max(finite)
    return LineFigure(
        comparison.step,
        "number of steps k",
        f"ε at δ = {small(comparison.delta)}",
        lines,
        alt="ε against the number of steps, one line per theorem. "
        + " ".join(f"{line.label}: {line.ys[-1]:.3g} at k = {counts[-1]:,.0f}." for line in lines),
        x_range=(counts[0], counts[-1]) if len(counts) > 1 else None,
        y_range=(min(finite), top) if wide else (0, top),
        log_x=wide,
        log_y=wide,
    )


def charges_figure(days: Mapping[str, int]) -> BarFigure:
    """How many charges were made on each day."""
    bars = tuple((day, float(days[day])) for day in sorted(days))
    return BarFigure(
        "Charges over time",
        "charges a day (UTC)",
        bars,
        alt="Charges per day. " + " ".join(f"{day}: {many:.0f}." for day, many in bars[-10:]),
    )


def intervals_figure(title: str, rows: Sequence[Interval], *, x_label: str) -> IntervalFigure:
    """Released values with their intervals."""
    return IntervalFigure(
        title,
        x_label,
        tuple(rows),
        alt=" ".join(f"{row.name}: {row.value:g}, from {row.low:g} to {row.high:g}." for row in rows),
    )
