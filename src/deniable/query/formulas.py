"""Formulas over what is released: arithmetic, functions and CASE of noisy numbers and keys, with their intervals.

A formula sees released numbers and keys only. So it costs nothing: a function of what is already private is private.

Every number travels with an interval (see `cells`). `ComputedAggregate` asks each of m aggregates for an interval that
fails with an m-th part of the probability, so that all of them hold together but for the whole (union bound).

A formula is total. NULL is NaN in a column of numbers. Whether a row is NULL is decided by noisy numbers; the kind of
the column is decided by the SQL. `_READERS` says which function reads which node; what it does not name is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from fractions import Fraction
from typing import Any, TypeAlias

from sqlglot import exp

from deniable.query.cells import (
    INFINITE,
    NOTHING,
    Cell,
    Pick,
    Span,
    both,
    chosen,
    compared,
    denied,
    exact,
    joined,
    magnitude,
    minus,
    numbered,
    over,
    plus,
    power,
    remainder,
    rising,
    round_down,
    round_up,
    sign_of,
    times,
    to_digits,
)
from deniable.query.schema import Column, ColumnKind
from deniable.query.scope import Scope, bare, is_literal, shown
from deniable.query.values import Value, meeting_type, read_text

Leaf: TypeAlias = tuple[str, str]
"""What a formula starts from: (`KEY`, the SQL of a grouped column) or (`VALUE`, the name of an aggregate)."""

KEY, VALUE = "key", "value"


@dataclass(frozen=True)
class RowFormula:
    """How a released cell follows from others of its row."""

    kind: ColumnKind
    evaluate: Callable[[Mapping[Leaf, Cell]], Cell] = field(repr=False, compare=False)
    leaves: frozenset[Leaf]
    sure: bool = False
    """Whether it has a value in every row."""

    @property
    def whole(self) -> bool:
        """Whether it is a whole number in every row."""
        return self.kind is ColumnKind.INTEGER and self.sure


Find: TypeAlias = Callable[[exp.Expr], RowFormula | None]
"""The formula of a node as a whole: an aggregate, a key, an output. None where it is made of parts."""

_OPERATIONS: dict[type[exp.Expr], Callable[[Span, Span], Span]] = {
    exp.Add: plus, exp.Sub: minus, exp.Mul: times, exp.Div: over, exp.Mod: remainder, exp.Pow: power,
}  # fmt: skip
_FUNCTIONS: dict[type[exp.Expr], Callable[[Span], Span]] = {
    exp.Abs: magnitude,
    exp.Sqrt: rising(math.sqrt, 0),
    exp.Exp: rising(math.exp),
    exp.Ln: rising(lambda x: -INFINITE if x == 0 else math.log(x), 0),
    exp.Floor: rising(round_down, precise=True),
    exp.Ceil: rising(round_up, precise=True),
    exp.Sign: rising(sign_of, precise=True),
}
_WHOLE = (exp.Floor, exp.Ceil, exp.Sign)
_COMPARED: dict[type[exp.Expr], str] = {
    exp.EQ: "=", exp.NEQ: "<>", exp.LT: "<", exp.LTE: "<=", exp.GT: ">", exp.GTE: ">=",
}  # fmt: skip
_CONSTANTS: dict[type[exp.Expr], float] = {exp.Pi: math.pi}
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


def read_formula(scope: Scope, node: exp.Expr, find: Find) -> RowFormula:
    """The formula that a node stands for."""
    node = bare(node)
    whole = find(node)
    if whole is not None:
        return whole
    if is_literal(node) and not isinstance(node, exp.Null):
        return constant(scope.value(node))
    reader = _READERS.get(type(node))
    if reader is None:
        raise scope.refuse(
            node,
            f"{shown(node)} is not supported of released numbers and keys; it can be computed from what is released",
        )
    return reader(scope, node, find)


def constant(value: Value) -> RowFormula:
    """The same value in every row."""
    if isinstance(value, Fraction):
        value = float(value)  # type: ignore[assignment]
    cell = exact(value)
    return RowFormula(_kind(value), lambda row: cell, frozenset(), sure=True)


def _kind(value: Any) -> ColumnKind:
    kinds: tuple[tuple[type, ColumnKind], ...] = (
        (bool, ColumnKind.BOOLEAN), (int, ColumnKind.INTEGER), (float, ColumnKind.REAL), (str, ColumnKind.TEXT),
        (datetime, ColumnKind.TIMESTAMP), (date, ColumnKind.DATE),
    )  # fmt: skip
    return next(kind for type, kind in kinds if isinstance(value, type))


def _number(scope: Scope, node: exp.Expr, find: Find) -> RowFormula:
    """A formula that is a number; the text of a column without types is read as one."""
    found = read_formula(scope, node, find)
    if not found.kind.numeric:
        raise scope.refuse(node, f"{shown(node)} holds {found.kind.value}; a number is needed here")
    if found.kind is not ColumnKind.UNTYPED:
        return found
    return RowFormula(ColumnKind.REAL, lambda row: numbered(found.evaluate(row)), found.leaves)


def read_truth(scope: Scope, node: exp.Expr, find: Find) -> RowFormula:
    """A formula that is true or false. A key of numbers is true where it is not 0, as in SQL."""
    found = read_formula(scope, node, find)
    if found.kind in (ColumnKind.INTEGER, ColumnKind.REAL) and of_keys(found):
        zero = Span(0, 0, 0)
        return RowFormula(ColumnKind.BOOLEAN, lambda row: compared(found.evaluate(row), "<>", zero), found.leaves)
    if found.kind is not ColumnKind.BOOLEAN:
        raise scope.refuse(node, f"{shown(node)} is not true or false; compare it with a value")
    return found


def _operation(scope: Scope, node: exp.Expr, find: Find) -> RowFormula:
    scope.only(node, "this", "expression", "typed", "safe")
    one, other = _number(scope, node.this, find), _number(scope, node.expression, find)
    apply = _OPERATIONS[type(node)]
    closed = type(node) in (exp.Add, exp.Sub, exp.Mul) and one.kind is other.kind is ColumnKind.INTEGER
    kind = ColumnKind.INTEGER if closed else ColumnKind.REAL
    sure = type(node) in (exp.Add, exp.Sub, exp.Mul) and one.sure and other.sure
    return RowFormula(kind, lambda row: apply(_span(one, row), _span(other, row)), one.leaves | other.leaves, sure=sure)


def _span(formula: RowFormula, row: Mapping[Leaf, Cell]) -> Span:
    return numbered(formula.evaluate(row))


def _pick(formula: RowFormula, row: Mapping[Leaf, Cell]) -> Pick:
    found = formula.evaluate(row)
    return found if isinstance(found, Pick) else Pick(found.value, frozenset([found.value]))


def _negative(scope: Scope, node: exp.Neg, find: Find) -> RowFormula:
    inner, zero = _number(scope, node.this, find), Span(0, 0, 0)
    return RowFormula(inner.kind, lambda row: minus(zero, _span(inner, row)), inner.leaves, sure=inner.sure)


def _function(scope: Scope, node: exp.Expr, find: Find) -> RowFormula:
    scope.only(node, "this", "decimals", "big_int")
    inner, apply = _number(scope, node.this, find), _FUNCTIONS[type(node)]
    kind = ColumnKind.INTEGER if isinstance(node, _WHOLE) else ColumnKind.REAL
    if isinstance(node, exp.Abs):
        kind = inner.kind
    sure = inner.sure and isinstance(node, (exp.Abs, *_WHOLE))
    return RowFormula(kind, lambda row: apply(_span(inner, row)), inner.leaves, sure=sure)


def _rounded(scope: Scope, node: exp.Round, find: Find) -> RowFormula:
    scope.only(node, "this", "decimals")
    inner, digits = _number(scope, node.this, find), _digits(scope, node)
    kind = ColumnKind.INTEGER if node.args.get("decimals") is None else ColumnKind.REAL
    apply = rising(to_digits(digits), precise=True)
    return RowFormula(kind, lambda row: apply(_span(inner, row)), inner.leaves, sure=inner.sure)


def _digits(scope: Scope, node: exp.Round) -> int:
    given = node.args.get("decimals")
    value = 0 if given is None else scope.value(given) if is_literal(given) else None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 15:
        raise scope.refuse(node, f"{shown(node)} needs a whole number from 0 to 15 here")
    return value


def _logarithm(scope: Scope, node: exp.Log, find: Find) -> RowFormula:
    """LOG(x) of base 10, LOG(base, x), LOG2 and LOG10."""
    scope.only(node, "this", "expression")
    alone = node.args.get("expression") is None
    base = Fraction(10) if alone else scope.value(node.this) if is_literal(node.this) else None
    if not isinstance(base, int | Fraction) or base <= 1:
        raise scope.refuse(node, f"{shown(node)} needs a base above 1, as in LOG(2, COUNT(*))")
    inner, scale = _number(scope, node.this if alone else node.expression, find), math.log(base)
    apply = rising(lambda x: -INFINITE if x == 0 else math.log(x) / scale, 0)
    return RowFormula(ColumnKind.REAL, lambda row: apply(_span(inner, row)), inner.leaves)


def _cast(scope: Scope, node: exp.Cast, find: Find) -> RowFormula:
    scope.only(node, "this", "to", "safe")
    target, inner = node.to.this.name, read_formula(scope, node.this, find)
    texts = (ColumnKind.TEXT, ColumnKind.UNTYPED, ColumnKind.INTEGER)
    if target in ("VARCHAR", "TEXT") and inner.kind in texts and of_keys(inner):
        return RowFormula(ColumnKind.TEXT, lambda row: _as_text(inner.evaluate(row)), inner.leaves, sure=inner.sure)
    if target not in _NUMBERS or inner.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
        raise scope.refuse(node, f"{shown(node)} is not supported of what is released; cast to BIGINT or DOUBLE")
    numeric = inner.kind in (ColumnKind.INTEGER, ColumnKind.REAL)
    if target in ("FLOAT", "DOUBLE", "DECIMAL"):
        return RowFormula(ColumnKind.REAL, lambda row: _span(inner, row), inner.leaves, sure=inner.sure and numeric)
    apply = rising(to_digits(0), precise=True)
    return RowFormula(
        ColumnKind.INTEGER, lambda row: apply(_span(inner, row)), inner.leaves, sure=inner.sure and numeric
    )


def _as_text(cell: Cell) -> Pick:
    text = None if cell.value is None else str(cell.value)
    return Pick(text, frozenset([text]))


def of_keys(formula: RowFormula) -> bool:
    """Whether a formula sees keys and constants only."""
    return all(kind == KEY for kind, _ in formula.leaves)


def _comparison(scope: Scope, node: exp.Expr, find: Find) -> RowFormula:
    scope.only(node, "this", "expression")
    return _meeting(scope, node, node.this, _COMPARED[type(node)], node.expression, find)


def _meeting(scope: Scope, node: exp.Expr, left: exp.Expr, sign: str, right: exp.Expr, find: Find) -> RowFormula:
    sides = [bare(left), bare(right)]
    found = [None if is_literal(side) else read_formula(scope, side, find) for side in sides]
    for i, side in enumerate(sides):
        if found[i] is None:
            found[i] = _met_value(scope, side, sides[1 - i], found[1 - i])
    one, other = (formula for formula in found if formula is not None)
    _check_alike(scope, node, one, other)
    return RowFormula(
        ColumnKind.BOOLEAN,
        lambda row: compared(one.evaluate(row), sign, other.evaluate(row)),
        one.leaves | other.leaves,
        sure=one.sure and other.sure,
    )


def _met_value(scope: Scope, node: exp.Expr, against: exp.Expr, other: RowFormula | None) -> RowFormula:
    """A value that is compared with a formula, as the formula's kind reads it: a text may be a date."""
    value = scope.value(node)
    if other is None or isinstance(value, bool) or other.kind is ColumnKind.BOOLEAN:
        return constant(value)
    if other.kind in (ColumnKind.INTEGER, ColumnKind.REAL) and not isinstance(value, int | Fraction):
        raise scope.refuse(node, f"{shown(against)} is a number; compare it with one")
    column = Column(shown(against), other.kind, "")
    try:
        if isinstance(value, str) and other.kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
            value = read_text(column, value)
        meeting_type(column, value)
    except ValueError as misfit:
        raise scope.refuse(node, str(misfit)) from None
    return constant(value)


_FAMILIES = {
    ColumnKind.INTEGER: 1, ColumnKind.REAL: 1, ColumnKind.TEXT: 2, ColumnKind.DATE: 3, ColumnKind.TIMESTAMP: 3,
    ColumnKind.BOOLEAN: 4,
}  # fmt: skip


def _check_alike(scope: Scope, node: exp.Expr, one: RowFormula, other: RowFormula) -> None:
    families = {_FAMILIES.get(formula.kind) for formula in (one, other)} - {None}
    # A column of 0 and 1 is compared with TRUE in many a text.
    flags = families == {1, 4} and of_keys(one) and of_keys(other)
    if len(families) > 1 and not flags:
        held = " and ".join(formula.kind.value for formula in (one, other))
        raise scope.refuse(node, f"{shown(node)} compares {held}; compare values of one kind")


def _between(scope: Scope, node: exp.Between, find: Find) -> RowFormula:
    scope.only(node, "this", "low", "high")
    low = _meeting(scope, node, node.this, ">=", node.args["low"], find)
    high = _meeting(scope, node, node.this, "<=", node.args["high"], find)
    return connected([low, high], every=True)


def _listed(scope: Scope, node: exp.In, find: Find) -> RowFormula:
    scope.only(node, "this", "expressions")
    if not node.expressions:
        raise scope.refuse(node, "IN is supported with a list of values only, of what is released")
    return connected([_meeting(scope, node, node.this, "=", item, find) for item in node.expressions], every=False)


def _connective(scope: Scope, node: exp.Expr, find: Find) -> RowFormula:
    scope.only(node, "this", "expression")
    parts = [read_truth(scope, part, find) for part in node.flatten()]
    return connected(parts, every=isinstance(node, exp.And))


def connected(parts: Sequence[RowFormula], *, every: bool) -> RowFormula:
    """AND of conditions, or OR where not `every`."""
    leaves = frozenset[Leaf]().union(*(part.leaves for part in parts))
    sure = all(part.sure for part in parts)
    return RowFormula(
        ColumnKind.BOOLEAN, lambda row: both([_pick(part, row) for part in parts], every=every), leaves, sure=sure
    )


def _negation(scope: Scope, node: exp.Not, find: Find) -> RowFormula:
    scope.only(node, "this")
    inner = read_truth(scope, node.this, find)
    return RowFormula(ColumnKind.BOOLEAN, lambda row: denied(_pick(inner, row)), inner.leaves, sure=inner.sure)


def _is(scope: Scope, node: exp.Is, find: Find) -> RowFormula:
    """IS NULL, IS TRUE, IS FALSE."""
    scope.only(node, "this", "expression")
    if isinstance(node.expression, exp.Null):
        inner = read_formula(scope, node.this, find)
        return RowFormula(ColumnKind.BOOLEAN, lambda row: _is_null(inner.evaluate(row)), inner.leaves, sure=True)
    if not isinstance(node.expression, exp.Boolean):
        raise scope.refuse(node, "IS is supported with NULL, TRUE and FALSE only; compare with =")
    inner, wanted = read_truth(scope, node.this, find), bool(node.expression.this)

    def apply(row: Mapping[Leaf, Cell]) -> Pick:
        cell = _pick(inner, row)
        return Pick(cell.value is wanted, frozenset(truth is wanted for truth in cell.can))

    return RowFormula(ColumnKind.BOOLEAN, apply, inner.leaves, sure=True)


def _is_null(cell: Cell) -> Pick:
    missing = cell.value is None
    unknown = isinstance(cell, Span) and not (math.isfinite(cell.low) and math.isfinite(cell.high))
    return Pick(missing, frozenset([missing, not missing] if unknown else [missing]))


def _case(scope: Scope, node: exp.Expr, find: Find) -> RowFormula:
    """CASE WHEN … THEN … ELSE … END, CASE x WHEN …, and IF(condition, one, other)."""
    if isinstance(node, exp.If):
        scope.only(node, "this", "true", "false")
        branches, default = [node], node.args.get("false")
    else:
        scope.only(node, "this", "ifs", "default")
        branches, default = node.args["ifs"], node.args.get("default")
    simple = isinstance(node, exp.Case) and node.this is not None
    tests = [
        _meeting(scope, node, node.this, "=", branch.this, find) if simple else read_truth(scope, branch.this, find)
        for branch in branches
    ]
    missing = default is None or isinstance(bare(default), exp.Null)
    outcomes = [read_formula(scope, branch.args["true"], find) for branch in branches]
    outcomes += [] if default is None or missing else [read_formula(scope, default, find)]
    kind = _common(scope, node, outcomes)
    last = None if missing else outcomes[-1]
    nothing: Cell = NOTHING if kind.numeric else Pick(None, frozenset([None]))

    def apply(row: Mapping[Leaf, Cell]) -> Cell:
        cells = [outcome.evaluate(row) for outcome in outcomes[: len(tests)]]
        return chosen([_pick(test, row) for test in tests], cells, nothing if last is None else last.evaluate(row))

    return RowFormula(
        kind, apply, _leaves([*tests, *outcomes]), sure=not missing and all(outcome.sure for outcome in outcomes)
    )


def _common(scope: Scope, node: exp.Expr, outcomes: Sequence[RowFormula]) -> ColumnKind:
    kinds = {outcome.kind for outcome in outcomes}
    if kinds == {ColumnKind.INTEGER, ColumnKind.REAL}:
        return ColumnKind.REAL
    if kinds == {ColumnKind.TEXT, ColumnKind.UNTYPED}:
        return ColumnKind.TEXT
    if len(kinds) != 1:
        raise scope.refuse(node, f"the outcomes of {shown(node)} must be of one kind: numbers, texts or dates")
    return kinds.pop()


def _leaves(parts: Sequence[RowFormula]) -> frozenset[Leaf]:
    return frozenset[Leaf]().union(*(part.leaves for part in parts))


def _several(scope: Scope, node: exp.Expr, find: Find) -> RowFormula:
    """COALESCE, LEAST and GREATEST, which pass over NULL."""
    scope.only(node, "this", "expressions", "ignore_nulls")
    parts = [_number(scope, part, find) for part in (node.this, *node.expressions)]
    kind = _common(scope, node, parts)
    choose: Any = min if isinstance(node, exp.Least) else max if isinstance(node, exp.Greatest) else None

    def apply(row: Mapping[Leaf, Cell]) -> Cell:
        cells = [_span(part, row) for part in parts]
        present = [cell.value for cell in cells if cell.value is not None]
        if choose is not None:
            ends = [choose(cell[end] for cell in cells) for end in (1, 2)]
            return Span(choose(present) if present else None, *ends)
        first = next((i for i, part in enumerate(parts) if part.sure), len(parts) - 1)
        return joined(present[0] if present else None, cells[: first + 1])

    return RowFormula(kind, apply, _leaves(parts), sure=any(part.sure for part in parts))


def _nullif(scope: Scope, node: exp.Nullif, find: Find) -> RowFormula:
    """NULLIF(x, y): x, unless it is y."""
    scope.only(node, "this", "expression")
    inner = read_formula(scope, node.this, find)
    same = _meeting(scope, node, node.this, "=", node.expression, find)

    def apply(row: Mapping[Leaf, Cell]) -> Cell:
        cell = inner.evaluate(row)
        return cell._replace(value=None) if _pick(same, row).value is True else cell

    return RowFormula(inner.kind, apply, inner.leaves | same.leaves)


def _pi(scope: Scope, node: exp.Expr, find: Find) -> RowFormula:
    return constant(_CONSTANTS[type(node)])  # type: ignore[arg-type]


_READERS: dict[type[exp.Expr], Callable[[Scope, Any, Find], RowFormula]] = {
    **dict.fromkeys(_OPERATIONS, _operation),
    **dict.fromkeys(_FUNCTIONS, _function),
    **dict.fromkeys(_COMPARED, _comparison),
    **dict.fromkeys(_CONSTANTS, _pi),
    **dict.fromkeys((exp.And, exp.Or), _connective),
    **dict.fromkeys((exp.Case, exp.If), _case),
    **dict.fromkeys((exp.Cast, exp.TryCast), _cast),
    **dict.fromkeys((exp.Coalesce, exp.Least, exp.Greatest), _several),
    exp.Neg: _negative,
    exp.Round: _rounded,
    exp.Log: _logarithm,
    exp.Between: _between,
    exp.In: _listed,
    exp.Not: _negation,
    exp.Is: _is,
    exp.Nullif: _nullif,
}
"""What reads each kind of node."""
