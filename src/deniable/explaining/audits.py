"""Pictures of an audit report: the measured lower bound next to the claim.

There are two forms: ε at several δ, and the claim's trade-off curve together with the audit's finding. A claim says
that no test lies below its curve. A finding "ε ≥ ℓ at δ" says that some test reaches f(α) = max(0, 1 − δ − e^ℓ α,
e^{−ℓ}(1 − δ − α)) or lies below it: otherwise the mechanism would be (ℓ′, δ)-private for an ℓ′ < ℓ (Wasserman–Zhou
2010). When the finding's curve lies below the claim's all the way, the claim is refuted.

>>> figure = audit_figure([(0.0, 1.2, 1.0), (0.1, 0.8, 0.7)], verdict="refuted")
>>> [line.label for line in figure.lines], figure.alt
(['claimed', 'measured, at least'], 'ε at several δ. At δ = 0: claimed 1, measured at least 1.2. Verdict: refuted.')
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Protocol, runtime_checkable

from deniable.descriptions import Description
from deniable.explaining.figures import FigureLine, LineFigure
from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.guarantees import TradeOff
from deniable.guarantees.printing import small
from deniable.numerics.rounding import above, below

_SMALLEST = 1e-12
"""Where δ = 0 is drawn on a logarithmic axis."""

_LARGEST = 700.0
"""Beyond this, e^ε overflows a float; the curve is drawn along the axes."""

Measured = tuple[float, float, float]
"""(δ, lower bound on ε, claimed ε)."""


@runtime_checkable
class Audit(Protocol):
    """What is drawn of an audit report."""

    @property
    def verdict(self) -> str:
        """ "refuted" or "consistent"."""
        ...

    @property
    def delta(self) -> float:
        """Where ε is stated."""
        ...

    @property
    def lower(self) -> float:
        """The lower bound on ε there."""
        ...

    @property
    def claimed(self) -> float:
        """The claimed ε there."""
        ...

    @property
    def curve(self) -> Sequence[Measured]:
        """The same at several δ, all at once with the stated confidence."""
        ...

    def describe(self) -> Description:
        """The claim with what was measured against it."""
        ...


def audit_figure(points: Sequence[Measured], *, verdict: str, labels: Labels = ENGLISH_LABELS) -> LineFigure:
    """Lower bounds on ε and the claimed ε, at several δ. A bound above the claim refutes it.

    Args:
        points: (δ, lower bound, claimed ε), as `report.curve` holds them.
        verdict: "refuted" or "consistent".
        labels: the words of the picture.
    """
    finite = [point for point in points if math.isfinite(point[1])]
    claimed = [point for point in points if math.isfinite(point[2])]
    lines = (
        FigureLine(labels.audit_claimed, tuple(max(p[0], _SMALLEST) for p in claimed), tuple(p[2] for p in claimed)),
        FigureLine(labels.audit_measured, tuple(max(p[0], _SMALLEST) for p in finite), tuple(p[1] for p in finite)),
    )
    first = [
        labels.audit_alt_point.format(delta=small(d), claimed=f"{c:.3g}", lower=f"{low:.3g}")
        for d, low, c in points[:1]
    ]
    verdict_word = labels.verdicts[verdict]
    alt = " ".join([labels.audit_alt, *first, labels.audit_alt_verdict.format(verdict=verdict_word)])
    return LineFigure(labels.audit.format(verdict=verdict_word), "δ", "ε", lines, alt, log_x=True)


def audit_tradeoff(audit: Audit, *, labels: Labels = ENGLISH_LABELS) -> LineFigure:
    """The claim's trade-off curve and the audit's finding.

    For a refuted claim the finding is the one that exceeds the claim most, otherwise the one at the stated δ.
    """
    own = (audit.delta, audit.lower, audit.claimed)
    points = [own, *audit.curve]
    claims = [(delta, claimed) for delta, _, claimed in points if math.isfinite(claimed)]
    furthest = max(points, key=lambda point: _beyond(point[1], point[2]))
    delta, lower, claimed = furthest if audit.verdict == "refuted" else own
    verdict = labels.verdicts[audit.verdict]
    finding = labels.audit_finding.format(lower=_down(lower), delta=small(delta))
    description = labels.audit_tradeoff_alt.format(delta=small(delta), claimed=f"{claimed:.3g}", finding=finding)
    lines = (
        _curve(labels.audit_above, claims, above),
        _curve(labels.audit_below.format(finding=finding), [(delta, lower)], below),
        FigureLine(labels.guessing, (0.0, 1.0), (1.0, 0.0), dashed=True),
    )
    return LineFigure(
        labels.audit.format(verdict=verdict),
        labels.false_positives,
        labels.false_negatives,
        lines,
        alt=f"{description} {labels.audit_alt_verdict.format(verdict=verdict)}",
        x_range=(0, 1),
        y_range=(0, 1),
    )


def _beyond(lower: float, claimed: float) -> float:
    """How far a lower bound exceeds the claim; negative when it does not."""
    return lower - claimed if math.isfinite(claimed) else -math.inf


def _curve(label: str, bounds: Iterable[tuple[float, float]], rounded: Callable[[float], float]) -> FigureLine:
    """The corners of the trade-off function of pairs (δ, ε). `rounded` rounds e^ε to the weaker side."""
    odds = [(max(1.0, rounded(math.exp(min(epsilon, _LARGEST)))), delta) for delta, epsilon in bounds]
    corners = TradeOff.of_lines(odds).corners
    return FigureLine(label, tuple(float(a) for a, _ in corners), tuple(float(b) for _, b in corners))


def _down(value: float) -> str:
    return "∞" if math.isinf(value) else f"{math.floor(value * 100 + 1e-6) / 100:.2f}"
