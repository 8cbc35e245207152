"""The odds sentence as a picture: two crowds of a hundred possible reports, the dark ones point at you."""

from __future__ import annotations

from deniable.explaining.figures import IconFigure
from deniable.explaining.odds import Odds


def icon_array(found: Odds, *, title: str = "Reports that would point at you") -> IconFigure:
    """Two arrays of a hundred: without you, and with you."""
    pairs = (("without you", found.without), ("with you", found.with_you))
    return IconFigure(
        title,
        tuple((f"{name}: {many:,} of {found.of:,}", many / found.of) for name, many in pairs),
        alt=f"Two arrays of 100 figures. {found.without:,} of {found.of:,} are dark without you,"
        f" {found.with_you:,} of {found.of:,} with you.",
    )
