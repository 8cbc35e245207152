"""Two means, one before somebody joined and one after, give away that somebody's value exactly.

>>> salaries = [4100.0, 5200.0, 3900.0]
>>> before, after = sum(salaries) / 3, sum([*salaries, 9750.0]) / 4
>>> round(difference_means(before, after, size=3), 6)
9750.0
"""

from __future__ import annotations

from deniable import _checks


def difference_means(before: float, after: float, *, size: int) -> float:
    """The value of the record that made the mean of `size` records move from `before` to `after`."""
    many = _checks.count("size", size)
    return (many + 1) * after - many * before
