"""How much of one unit counts: contribution bounds.

>>> AtMost(groups=2, rows=4)
AtMost(groups=2, rows=4)
"""

from __future__ import annotations

from dataclasses import dataclass

from deniable import _checks
from deniable._remedies import ExampleCall
from deniable._signatures import public_class


@public_class
@dataclass(frozen=True, kw_only=True)
class AtMost:
    """At most `groups` groups of the GROUP BY, and at most `rows` rows in each of them, of every unit.

    What is beyond is left out; which rows stay is decided by a keyed hash of the unit's own rows. Choose them from
    what you know about the data, not from the data: larger values keep more and need more noise, in proportion to
    groups × rows.
    """

    groups: int
    rows: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", _checks.count("groups", self.groups))
        object.__setattr__(self, "rows", _checks.count("rows", self.rows))

    @property
    def words(self) -> str:
        """ "2 groups, 4 rows in each"."""
        groups, rows = (f"{n} {noun}{'s' if n > 1 else ''}" for n, noun in ((self.groups, "group"), (self.rows, "row")))
        return f"{groups}, {rows} in each"


LIMITS = ExampleCall("dn.AtMost", {"groups": 2, "rows": 4})
"""An example of limits, for remedies."""

ONE_ROW = AtMost(groups=1, rows=1)
"""What holds by itself when every row is a unit of its own."""
