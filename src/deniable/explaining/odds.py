"""The odds sentence: how often a guess about one person is right, without and with that person's data.

"If you do not take part, 39 of 100 possible reports would lead your manager to believe you said no; if you do, 61 of
100" (Nanayakkara, Smart, Cummings, Kaptchuk and Redmiles, USENIX Security 2023). The two numbers are the error and the
success of the best guess by somebody who finds both worlds equally likely: ½(1 − δ(0)) and ½(1 + δ(0)) on the curve of
what was done. A guarantee without a mechanism has the curve of the worst mechanism it allows.

>>> from deniable.accounting import account
>>> from deniable.events import Claimed, Laplace
>>> from deniable.guarantees import PureDP
>>> odds(account(Laplace(scale=2)))  # this mechanism, ε = 0.5
Odds(without=39, with_you=61, of=100)
>>> odds(account(Claimed(PureDP(0.5))))  # any mechanism with ε = 0.5
Odds(without=38, with_you=62, of=100)

`icon_array` draws the sentence: two crowds of a hundred possible reports, of which the dark ones point at you.
"""

from __future__ import annotations

from typing import NamedTuple

from deniable.explaining.figures import IconFigure
from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.guarantees import Profile

_LARGEST = 1_000_000
"""A difference of less than one in a million is not shown."""


class Odds(NamedTuple):
    """Of `of` possible reports, how many point at a person who is absent, and at one who is present."""

    without: int
    with_you: int
    of: int


def odds(profile: Profile) -> Odds:
    """Whole numbers of 100 reports, or of 1000 and more when 100 could not show the difference.

    They are the nearest whole numbers, as in the study; `success` is the proven figure.
    """
    chance = success(profile)
    of = 100
    while round(of * chance) == of // 2 and round(_LARGEST * chance) > _LARGEST // 2:
        of *= 10
    right = round(of * chance)
    return Odds(of - right, right, of)


def success(profile: Profile) -> float:
    """How often the best guess is right when both worlds are equally likely: a proven upper end."""
    return profile.accuracy(0.5)


def icon_array(counts: Odds, *, labels: Labels = ENGLISH_LABELS) -> IconFigure:
    """Two arrays of a hundred: without you, and with you."""
    of = f"{counts.of:,}"
    pairs = ((labels.odds_without, counts.without), (labels.odds_with, counts.with_you))
    return IconFigure(
        labels.odds,
        tuple((labels.odds_count.format(name=name, many=f"{many:,}", of=of), many / counts.of) for name, many in pairs),
        alt=labels.odds_alt.format(without=f"{counts.without:,}", with_you=f"{counts.with_you:,}", of=of),
    )
