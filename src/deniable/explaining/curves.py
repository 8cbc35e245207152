"""Pictures of a privacy curve: trade-off, profile, beliefs, ε against the number of releases.

Every line is a proven bound: an upper bound of what an attacker can do, or a lower bound that an audit measured.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from deniable.explaining.figures import BarFigure, FigureLine, Interval, IntervalFigure, LineFigure
from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.guarantees import Profile
from deniable.guarantees.printing import small
from deniable.numerics.rounding import above
from deniable.textbook.compare import Comparison

_POINTS = 60
"""Points along an axis."""

_TANGENTS = 28
"""How many ε a trade-off curve is drawn from. Each gives two lines that no test lies below."""

_SEEN = 1e-3
"""A smaller δ cannot be seen in a picture."""

_SLACK = 2.0**-48
"""More than the rounding error of a line through numbers of at most 1, so that the drawn line stays a proven bound."""


def tradeoff_figure(claims: Mapping[str, Profile], *, labels: Labels = ENGLISH_LABELS) -> LineFigure:
    """The fewest false negatives of any test, for each claim, and guessing as reference.

    Args:
        claims: curves by the names that the legend shows.
        labels: the words of the picture.
    """
    rates = tuple(i / _POINTS for i in range(_POINTS + 1))
    tangents = {name: _tangents(profile) for name, profile in claims.items()}
    lines = [
        FigureLine(name, rates, tuple(_miss_rate(points, at) for at in rates)) for name, points in tangents.items()
    ]
    lines.append(FigureLine(labels.guessing, (0.0, 1.0), (1.0, 0.0), dashed=True))
    sentences = [
        labels.tradeoff_alt_line.format(name=name, missed=math.floor(100 * _miss_rate(points, 0.1)))
        for name, points in tangents.items()
    ]
    return LineFigure(
        labels.tradeoff,
        labels.false_positives,
        labels.false_negatives,
        tuple(lines),
        alt=" ".join([labels.tradeoff_alt, *sentences]),
        x_range=(0, 1),
        y_range=(0, 1),
    )


def _tangents(profile: Profile) -> list[tuple[float, float]]:
    """Points (ε, δ(ε)) of a curve, from ε = 0 to where δ cannot be seen."""
    last = min(profile.epsilon(_SEEN), 12.0)
    epsilons = sorted({last * (i / (_TANGENTS - 1)) ** 1.5 for i in range(_TANGENTS)})
    return [(epsilon, profile.delta(epsilon)) for epsilon in epsilons]


def _miss_rate(tangents: Sequence[tuple[float, float]], rate: float) -> float:
    """`Profile.tradeoff` computed from a few points of the curve. Every point gives a valid bound."""
    lines = (max(1 - d - math.exp(e) * rate, math.exp(-e) * (1 - d - rate)) - _SLACK for e, d in tangents)
    return max(0.0, *lines)


def profile_figure(
    claims: Mapping[str, Profile], *, smallest: float = 1e-12, labels: Labels = ENGLISH_LABELS
) -> LineFigure:
    """δ against ε.

    Args:
        claims: curves by the names that the legend shows.
        smallest: the least δ that is drawn.
        labels: the words of the picture.
    """
    most = max(profile.epsilon(smallest) for profile in claims.values())
    most = most if 0 < most < math.inf else 10.0
    grid = tuple(most * i / _POINTS for i in range(_POINTS + 1))
    lines = tuple(
        FigureLine(name, grid, tuple(max(profile.delta(e), smallest) for e in grid)) for name, profile in claims.items()
    )
    sentences = [
        labels.profile_alt_line.format(name=name, epsilon=f"{profile.epsilon(1e-6):.3g}", delta="1e-6")
        for name, profile in claims.items()
    ]
    return LineFigure(
        labels.profile,
        "ε",
        "δ",
        lines,
        alt=" ".join([labels.profile_alt, *sentences]),
        x_range=(0, most),
        y_range=(smallest, 1),
        log_y=True,
    )


def belief_figure(
    profile: Profile, *, failure: Fraction = Fraction(1, 1000), labels: Labels = ENGLISH_LABELS
) -> LineFigure:
    """The largest belief after a release, against the belief before it.

    Args:
        profile: the curve.
        failure: the share of outputs that the bound may leave out, where no bound holds for all of them.
        labels: the words of the picture.
    """
    priors = tuple((i / _POINTS) ** 2 for i in range(1, _POINTS + 1))  # closer together where the curve is steep
    pure = profile.epsilon(0) < math.inf
    even = profile.posterior(Fraction(1, 2), failure=0 if pure else failure)
    # From even odds the odds grow to even/(1 − even): the same factor for every prior. 1 − even is exact (Sterbenz).
    factor = even / (1 - even) if even < 1 else math.inf
    after = tuple(_grow(prior, factor) for prior in priors)
    name = labels.belief_most if pure else labels.belief_almost.format(failure=small(failure))
    return LineFigure(
        labels.belief,
        labels.belief_before,
        labels.belief_after,
        (FigureLine(name, priors, after), FigureLine(labels.belief_same, (0.0, 1.0), (0.0, 1.0), dashed=True)),
        alt=labels.belief_alt.format(most=math.ceil(100 * _grow(0.1, factor))),
        x_range=(0, 1),
        y_range=(0, 1),
    )


def _grow(prior: float, factor: float) -> float:
    """A belief whose odds grow by a factor, rounded up."""
    return min(1.0, above(1 / (1 + (1 - prior) / (prior * factor)))) if factor < math.inf else 1.0


def comparison_figure(comparison: Comparison, *, labels: Labels = ENGLISH_LABELS) -> LineFigure:
    """ε against the number of releases, one line per theorem."""
    counts = tuple(map(float, comparison.counts))
    lines = tuple(
        FigureLine(
            labels.comparison_estimate.format(theorem=line.theorem) if line.estimate else line.theorem,
            counts,
            line.epsilons,
            dashed=line.estimate,
        )
        for line in comparison.lines
    )
    finite = [e for line in lines for e in line.ys if 0 < e < math.inf]
    wide = max(finite) > 30 * min(finite)
    basic = next((line.ys for line in lines if line.label == "basic" and math.isfinite(line.ys[-1])), None)
    # Advanced forms start above basic composition and would squeeze everything else.
    top = 1.1 * basic[-1] if basic else max(finite)
    sentences = [
        labels.comparison_alt_line.format(theorem=line.label, epsilon=f"{line.ys[-1]:.3g}", count=f"{counts[-1]:,.0f}")
        for line in lines
    ]
    return LineFigure(
        labels.comparison.format(step=comparison.step),
        labels.comparison_steps,
        labels.comparison_cost.format(delta=small(comparison.delta)),
        lines,
        alt=" ".join([labels.comparison_alt, *sentences]),
        x_range=(counts[0], counts[-1]) if len(counts) > 1 else None,
        y_range=(min(finite), top) if wide else (0, top),
        log_x=wide,
        log_y=wide,
    )


def charges_figure(days: Mapping[str, int], *, labels: Labels = ENGLISH_LABELS) -> BarFigure:
    """How many charges were made on each day."""
    bars = tuple((day, float(days[day])) for day in sorted(days))
    sentences = [labels.charges_alt_bar.format(day=day, many=f"{many:.0f}") for day, many in bars[-10:]]
    return BarFigure(labels.charges, labels.charges_day, bars, alt=" ".join([labels.charges_alt, *sentences]))


def intervals_figure(
    title: str, rows: Sequence[Interval], *, x_label: str, labels: Labels = ENGLISH_LABELS
) -> IntervalFigure:
    """Released values with their intervals."""
    sentences = (
        labels.values_alt_row.format(name=r.name, value=f"{r.value:g}", low=f"{r.low:g}", high=f"{r.high:g}")
        for r in rows
    )
    return IntervalFigure(title, x_label, tuple(rows), alt=" ".join(sentences))
