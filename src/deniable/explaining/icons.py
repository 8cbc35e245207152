"""The odds sentence as a picture: two crowds of a hundred possible reports, the dark ones point at you."""

from __future__ import annotations

from deniable.explaining.figures import IconFigure
from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.explaining.odds import Odds


def icon_array(found: Odds, *, labels: Labels = ENGLISH_LABELS) -> IconFigure:
    """Two arrays of a hundred: without you, and with you."""
    of = f"{found.of:,}"
    pairs = ((labels.odds_without, found.without), (labels.odds_with, found.with_you))
    return IconFigure(
        labels.odds,
        tuple((labels.odds_count.format(name=name, many=f"{many:,}", of=of), many / found.of) for name, many in pairs),
        alt=labels.odds_alt.format(without=f"{found.without:,}", with_you=f"{found.with_you:,}", of=of),
    )
