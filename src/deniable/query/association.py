"""COVAR_POP, COVAR_SAMP, CORR, REGR_SLOPE and REGR_INTERCEPT: how two columns go together, of the rows that have both.

With u and v the distances of two values from the middles of their bounds, which they are clamped to, up to six sums are
measured: C = Σ1, Σu, Σv, Σuv, Σu², Σv². Each is a sum of a derived column, so its sensitivity is that of any sum: K·R
times the most that one row adds, which is 1, h, k, hk, h² and k² for half widths h and k. The middles are public, and
cancel: the covariance is Σuv/C − (Σu/C)(Σv/C), the variance of the first Σu²/C − (Σu/C)², the correlation and the slope
are quotients of these, and the intercept is the mean of y less the slope times the mean of x.

Intervals follow by the rules of `cells`, each sum failing with an equal part of the probability, over all numbers of
rows from 1 on; they are cut to what is possible: a variance to [0, h²], a covariance to ± hk, a correlation to ± 1.
They are cautious: where a variance may be 0, nothing is known of a slope.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

from sqlglot import exp

from deniable.query.cells import INFINITE, Span, minus, over, plus, rising, times
from deniable.query.expressions import number, real
from deniable.query.functions import derive
from deniable.query.ranges import Range
from deniable.query.schema import AggregateOutput, Column, ColumnKind
from deniable.query.scope import Scope, shown
from deniable.query.values import double

ASSOCIATIONS: dict[type[exp.Expr], tuple[str, ...]] = {
    exp.CovarPop: ("c", "u", "v", "uv"),
    exp.CovarSamp: ("c", "u", "v", "uv"),
    exp.Corr: ("c", "u", "v", "uv", "uu", "vv"),
    exp.RegrSlope: ("c", "u", "v", "uv", "vv"),
    exp.RegrIntercept: ("c", "u", "v", "uv", "vv"),
}
"""The sums that each needs. SQL gives the dependent column first: u is y, and v is x."""

_ROOT = rising(math.sqrt, 0)


@dataclass(frozen=True)
class Centred:
    """A column as its distance from the middle of its bounds, in SQL; half of their width, if they are known."""

    column: Column
    sql: str
    middle: Fraction
    half: Fraction | None

    @property
    def present(self) -> str:
        """SQL that is true where the column has a value."""
        value = real(self.column)
        return f"{value} IS NOT NULL AND NOT ISNAN({value})"


@dataclass(frozen=True)
class Association:
    """What is measured for one of them, and how it is read off: `sums` by the names above."""

    kind: type[exp.Expr]
    sums: Mapping[str, AggregateOutput]
    first: Centred
    second: Centred

    def of(self, cells: Mapping[str, Span]) -> Span:
        """The number, with its interval."""
        count = Span(*(max(end, 1) if end is not None else 1 for end in cells["c"]))
        means = {name: over(cell, count) for name, cell in cells.items() if name != "c"}
        both = _within(minus(means["uv"], times(means["u"], means["v"])), _most(self.first, self.second), both=True)
        if self.kind is exp.CovarPop:
            return both
        if self.kind is exp.CovarSamp:
            return times(both, over(count, Span(*(max(end - 1, 1) for end in count if end is not None))))
        spread = _spread(means, "v", self.second)
        if self.kind is exp.Corr:
            root = _ROOT(times(_spread(means, "u", self.first), spread))
            return _within(over(both, root), Fraction(1), both=True)
        slope = over(both, spread)
        if self.kind is exp.RegrSlope:
            return slope
        middles = [Span(*[float(side.middle)] * 3) for side in (self.first, self.second)]
        return minus(plus(means["u"], middles[0]), times(slope, plus(means["v"], middles[1])))


def _spread(means: Mapping[str, Span], name: str, side: Centred) -> Span:
    return _within(minus(means[name * 2], times(means[name], means[name])), _most(side, side), both=False)


def _most(one: Centred, other: Centred) -> Fraction | None:
    return None if one.half is None or other.half is None else one.half * other.half


def _within(cell: Span, most: Fraction | None, *, both: bool) -> Span:
    """A cell cut to what is possible, rounded outward."""
    high = INFINITE if most is None else math.nextafter(float(most), INFINITE)
    low = -high if both else 0.0
    value = None if cell.value is None else min(max(cell.value, low), high)
    return Span(value, min(max(cell.low, low), high), min(max(cell.high, low), high))


def read_association(scope: Scope, node: exp.Expr) -> Association | None:
    """A node as one of these; None where it is another."""
    names = ASSOCIATIONS.get(type(node))
    if names is None:
        return None
    scope.only(node, "this", "expression")
    sides = [_centred(scope, number(scope, part)) for part in (node.this, node.expression)]
    present = " AND ".join(side.present for side in sides)
    sums: dict[str, AggregateOutput] = {}
    for name in names:
        if name == "c":
            counted = derive(scope, node, ColumnKind.INTEGER, f"CASE WHEN {present} THEN 1 END")
            sums[name] = AggregateOutput(name, "count", counted, shown(node))
            continue
        factors = [sides[letter == "v"] for letter in name]
        sql = f"CASE WHEN {present} THEN {' * '.join(side.sql for side in factors)} END"
        column = derive(scope, node, ColumnKind.REAL, sql, _range(factors))
        listed = " * ".join(side.column.name for side in factors)
        sums[name] = AggregateOutput(name, "sum", replace(column, name=listed), shown(node))
    return Association(type(node), sums, sides[0], sides[1])


def _centred(scope: Scope, column: Column) -> Centred:
    value, found = real(column), scope.range(column)
    if found is None or found[0] >= found[1]:
        return Centred(column, value, Fraction(0), None)
    low, high = found
    middle = Fraction(float((low + high) / 2))
    cut = f"LEAST(GREATEST({value}, {double(float(low))}), {double(float(high))})"
    return Centred(column, f"({cut} - {double(float(middle))})", middle, max(high - middle, middle - low))


def _range(factors: list[Centred]) -> Range:
    most = Fraction(1)
    for side in factors:
        if side.half is None:
            return None
        most *= side.half
    square = len(factors) == 2 and factors[0] is factors[1]
    return (Fraction(0), most) if square else (-most, most)
