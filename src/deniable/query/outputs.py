"""The columns of an answer: keys of groups, and released numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from deniable.query.schema import Column


@dataclass(frozen=True)
class KeyOutput:
    """A column of the answer that holds a group's key."""

    name: str
    column: Column


@dataclass(frozen=True)
class AggregateOutput:
    """A column of the answer that holds a released number: `function` of `column`, or of the rows when it is None."""

    name: str
    function: str
    column: Column | None
    text: str
    """ "AVG(cost)"."""
    level: Fraction | None = None
    """Which quantile."""
    distinct: bool = False
