"""The odds sentence: how often a guess about one person is right, without and with that person's data.

"If you do not take part, 39 of 100 possible reports would lead your manager to believe you said no; if you do, 61 of
100" (Nanayakkara, Smart, Cummings, Kaptchuk and Redmiles, USENIX Security 2023). A report leads to the belief if it is
likelier with the person's data than without: if its loss L = ln P/Q is above 0. The two numbers are Q[L > 0] and
P[L > 0]. Their distance is δ(0). They add up to 100 only where the two worlds are mirror images, which no sampled step
is. A guarantee without a mechanism has the numbers of the worst mechanism it allows.

>>> from deniable.accounting import account
>>> from deniable.events import Claimed, Laplace
>>> from deniable.guarantees import PureDP
>>> odds(account(Laplace(scale=2)))  # this mechanism, ε = 0.5
Odds(without=39, with_you=61, of=100, give_or_take=0)
>>> odds(account(Claimed(PureDP(0.5))))  # any mechanism with ε = 0.5
Odds(without=38, with_you=62, of=100, give_or_take=0)
>>> odds(account(Laplace(scale=2).sampled(rate=0.5)))  # half of the reports without them, fewer of those with them
Odds(without=39, with_you=50, of=100, give_or_take=0)

`icon_array` draws the sentence: two crowds of a hundred possible reports, of which the dark ones point at you.
"""

from __future__ import annotations

from typing import NamedTuple

from deniable.explaining.figures import IconFigure
from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.guarantees import Profile
from deniable.numerics.rounding import Bracket

_LARGEST = 1_000_000
"""A difference of less than one in a million is not shown."""


class Odds(NamedTuple):
    """Of `of` possible reports, how many point at a person who is absent, and at one who is present.

    Each number is right but for `give_or_take`.
    """

    without: int
    with_you: int
    of: int
    give_or_take: int = 0


def odds(profile: Profile) -> Odds:
    """Whole numbers of 100 reports, or of 1000 and more where 100 could not show the difference.

    They are the nearest whole numbers, as in the study; `success` is the proven figure. Reports that are equally likely
    in both worlds (L = 0) point at nobody: half of them are counted.
    """
    without, with_you = _rates(profile)
    width = max(without.upper - without.lower, with_you.upper - with_you.lower)
    rates = [(rate.lower + rate.upper) / 2 for rate in (without, with_you)]
    of = 100
    while of < _LARGEST and round(of * rates[0]) == round(of * rates[1]) and 10 * of * width <= 1:
        of *= 10
    if round(of * rates[0]) == round(of * rates[1]):
        of = 100  # no number up to the largest, or none that is known well enough, shows the difference
    return Odds(round(of * rates[0]), round(of * rates[1]), of, round(of * width / 2))


def _rates(profile: Profile) -> tuple[Bracket, Bracket]:
    """Q[L > 0] and P[L > 0], ties split evenly.

    Where both directions have one curve, the law of L under P is that of −L under Q. Then P[L > 0] + ½·P[L = 0] is
    exactly ½(1 + δ(0)), here from the upper end of δ. Otherwise the curve's own ends are taken.
    """
    directions = profile.odds()
    if len(directions) == 1:
        right = success(profile)
        return Bracket(1 - right, 1 - right), Bracket(right, right)
    return directions[0].under_q, directions[0].under_p


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
