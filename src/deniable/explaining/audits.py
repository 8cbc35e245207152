"""The picture of an audit: lower bounds on ε at several δ next to what is claimed there.

>>> figure = audit_figure([(0.0, 1.2, 1.0), (0.1, 0.8, 0.7)], verdict="refuted")
>>> [line.label for line in figure.lines], figure.alt
(['claimed', 'measured, at least'], 'ε at several δ. At δ = 0: claimed 1, measured at least 1.2. Verdict: refuted.')
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from deniable.explaining.figures import Line, LineFigure
from deniable.guarantees.printing import small

_SMALLEST = 1e-12
"""Where δ = 0 is drawn on a logarithmic axis."""


def audit_figure(points: Sequence[tuple[float, float, float]], *, verdict: str) -> LineFigure:
    """Points (δ, lower bound on ε, claimed ε), as `report.curve` holds them. Measured above claimed refutes."""
    shown = [point for point in points if math.isfinite(point[1])]
    claimed = [point for point in points if math.isfinite(point[2])]
    lines = (
        Line("claimed", tuple(max(p[0], _SMALLEST) for p in claimed), tuple(p[2] for p in claimed)),
        Line("measured, at least", tuple(max(p[0], _SMALLEST) for p in shown), tuple(p[1] for p in shown), dashed=True),
    )
    words = " ".join(f"At δ = {small(d)}: claimed {c:.3g}, measured at least {low:.3g}." for d, low, c in points[:1])
    alt = f"ε at several δ. {words} Verdict: {verdict}."
    return LineFigure(f"An audit: {verdict}", "δ", "ε", lines, alt, log_x=True)
