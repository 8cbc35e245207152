"""MODE(column): the most common of the declared categories, by report noisy max.

Every category's count gets discrete Laplace noise, and the category with the largest noisy count is released. A unit
adds at most R rows in each of K groups, whichever categories they fall into, so all counts together have sensitivity
K·R: the noise of scale K·R/ε that noisy max needs for K groups (Dwork and Roth 2014, Claim 3.9, with counts that move
by up to R) already makes the counts themselves private. So they serve as they are: they tell which other categories the
true mode may be, which noisy max alone could not.

`among` lists the categories that cannot be excluded: the true mode is one of them with the stated confidence. With b
bins, all noises stay within m but for the failure probability, when each exceeds m with a b-th part of it (union
bound); then the mode's noisy count is at most 2m below the largest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from deniable.numerics.discrete import laplace_radius
from deniable.query.aggregates.base import Aggregate, Choice, ExpectedError, Noisy, PlainError, rounded
from deniable.query.measures import Measure
from deniable.query.readings import BinNumber
from deniable.query.trees import BinTree, NodeCounts


@dataclass(frozen=True)
class ModeAggregate(Aggregate):
    """The most common category."""

    bins: BinNumber

    @property
    def measures(self) -> tuple[Measure, ...]:
        return (NodeCounts(None, bins=self.bins, tree=BinTree.flat(self.bins.size)),)

    def estimate(self, noisy: Mapping[Measure, Noisy], *, failure: Fraction) -> Choice:
        found = noisy[self.measures[0]]
        far = laplace_radius(found.scale, failure / self.bins.size)
        names = np.array([*self.bins.categories, None], dtype=object)[:-1]  # the None keeps every name as it is
        best = found.values.max(axis=1)
        possible = best[:, None] - found.values <= 2 * far
        among = [", ".join(str(name) for name in names[row]) for row in possible]
        return Choice(names[found.values.argmax(axis=1)], np.array(among, dtype=object))

    def error(self, scales: Mapping[Measure, Fraction], *, failure: Fraction) -> ExpectedError:
        return ShortError(Fraction(2 * laplace_radius(scales[self.measures[0]], failure / self.bins.size)), 1 - failure)


class ShortError(PlainError):
    """By how many rows the category that is named may fall short of the most common one."""

    def __str__(self) -> str:
        return f"a category with at most {rounded(float(self.size))} rows fewer than the most common one"
