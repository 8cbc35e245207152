"""A sqlglot tree, read into a `ParsedQuery`: which aggregates of which columns, by which groups, under which condition.

The walk is a whitelist. Each clause, each node and each part of a node is either understood or refused by name and
position.

>>> visits = Table("visits", (Column("city", ColumnKind.TEXT, "VARCHAR"), Column("cost", ColumnKind.REAL, "DOUBLE")))
>>> question = read("SELECT city, AVG(cost) FROM visits WHERE cost > 0 GROUP BY city", (visits,))
>>> [output.name for output in question.outputs], question.where
(['city', 'avg_cost'], '(t."cost" > 0.0e0)')
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TypeGuard

from sqlglot import exp

from deniable.errors import QueryError
from deniable.query import googlesql
from deniable.query.association import ASSOCIATIONS
from deniable.query.derived import SubqueryReader, read_groups
from deniable.query.expressions import condition, expression, number, number_of, tupled
from deniable.query.finishing import ComputedOutput, Finish, Finisher, Output, meaning
from deniable.query.googlesql import Ends, GoogleForm
from deniable.query.parsing import parse, refusal
from deniable.query.ranges import Range
from deniable.query.schema import AggregateOutput, Column, ColumnKind, KeyOutput, Table
from deniable.query.scope import (
    DerivedTable,
    Join,
    Scope,
    bare,
    check_private,
    is_literal,
    owner_column,
    relation,
    shown,
    written,
)
from deniable.query.values import name as sql_name
from deniable.units import Unit

FUNCTIONS: dict[type[exp.Expr], str] = {
    exp.Count: "count",
    exp.CountIf: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.VariancePop: "var_pop",
    exp.Variance: "var_samp",
    exp.StddevPop: "stddev_pop",
    exp.Stddev: "stddev_samp",
    exp.StddevSamp: "stddev_samp",
    exp.Median: "quantile",
    exp.Min: "quantile",
    exp.Max: "quantile",
    exp.PercentileCont: "quantile",
    exp.PercentileDisc: "quantile",
    exp.Quantile: "quantile",
    exp.WithinGroup: "quantile",
    exp.Mode: "mode",
}
"""The aggregates that are known, by the node that stands for them."""

SPELLINGS = {"MEAN": exp.Avg, "VAR": exp.Variance, "STDEV": exp.Stddev}
"""Other names of aggregates, which sqlglot does not know."""

LEVELS: dict[type[exp.Expr], Fraction] = {
    exp.Median: Fraction(1, 2),
    exp.Min: Fraction(1, 100),
    exp.Max: Fraction(99, 100),
}
"""What MEDIAN, MIN and MAX are quantiles of. The least and the largest value are single people's, so they are answered
by the 1 % and the 99 % quantile."""

_KNOWN = "COUNT, SUM, AVG, VARIANCE, STDDEV, MEDIAN, QUANTILE_CONT, MIN, MAX, MODE, COVAR_POP, CORR, REGR_SLOPE"
_CLAUSES = (
    "expressions",
    "from",
    "from_",
    "joins",
    "where",
    "group",
    "having",
    "order",
    "limit",
    "offset",
    "with",
    "with_",
)


_MOST_LEVELS = 100
"""Parts into which QUANTILES divides."""

_TOO_DEEP = "the SQL is nested too deeply; write a shorter condition"


@dataclass(frozen=True)
class Statement:
    """A SQL text and its tree. Reading it leaves the tree as it is, so it can be read again with other bounds."""

    sql: str
    tree: exp.Select = field(repr=False, compare=False)
    google: GoogleForm | None = None
    """What a text of GoogleSQL says about privacy."""


@dataclass(frozen=True)
class ParsedQuery:
    """What a query asks."""

    statement: Statement
    ranges: Mapping[str | Column, Range] = field(repr=False)
    """The declared bounds with which it was read: the ranges of expressions follow from them."""
    tables: tuple[Table, ...]
    """All tables of the session."""
    table: Table
    """The private table that is asked."""
    outputs: tuple[Output, ...]
    groups: tuple[Column, ...]
    where: str | None
    """The condition as total SQL."""
    joins: tuple[Join, ...]
    finish: Finish
    scope: Scope = field(repr=False, compare=False)
    """Where further expressions over the same tables are read: those that bounds and keys name."""
    people: str | None = None
    """The table of one row per person and group that is asked in place of the rows (see `googlesql.per_person`)."""
    renamed: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """What the SQL of a grouped column became in that table."""
    inner: tuple[Join, ...] = ()
    """The joins within derived tables."""

    def unit_column(self, unit: Unit) -> Column | None:
        """The column that says whose a row is; None where every row is a unit of its own. A derived table carries it:
        by its name alone any column could be taken for it, as in (SELECT cost AS patient_id FROM visits)."""
        if unit.column is None:
            return None
        if not isinstance(self.table, DerivedTable):
            return self.table.find(unit.column)
        if self.table.unit is None:
            raise TypeError("a derived table of people carries the id of its rows' people")
        return self.table.unit

    @property
    def all_joins(self) -> tuple[Join, ...]:
        """The joins of the query, and those within its derived tables."""
        return (*self.joins, *self.inner)

    @property
    def single(self) -> bool:
        """Whether every unit has one row at most."""
        table = self.table
        return isinstance(table, DerivedTable) and table.single and not any(join.table.public for join in self.joins)

    @property
    def source(self) -> str:
        """What the rows come from, after FROM: the private table, called t, and what is joined to it."""
        if self.people is not None:
            return self.people
        return "\n".join([f"{relation(self.table)} AS t", *(join.sql for join in self.joins)])

    def with_ranges(self, ranges: Mapping[str | Column, Range]) -> ParsedQuery:
        """The same query under other declared bounds."""
        return self if ranges == self.ranges else read(self.statement, self.tables, ranges)

    @property
    def measured(self) -> tuple[AggregateOutput | ComputedOutput, ...]:
        """What is released as numbers, and what HAVING and ORDER BY need besides."""
        released = [output for output in self.outputs if isinstance(output, AggregateOutput | ComputedOutput)]
        return (*released, *self.finish.hidden)

    @property
    def aggregates(self) -> tuple[AggregateOutput, ...]:
        """The aggregates that are measured: outputs, parts of outputs, and hidden ones."""
        found: dict[tuple[object, ...], AggregateOutput] = {}
        for output in self.measured:
            for part in output.parts if isinstance(output, ComputedOutput) else (output,):
                found.setdefault((output.name, *meaning(part)), part)
        return tuple(found.values())


def parse_query(sql: str) -> Statement:
    """The tree of a SQL text: the one place where an analyst's query is parsed."""
    google = googlesql.form(sql)
    try:
        return Statement(sql, parse(sql if google is None else google.text), google)
    except RecursionError:
        raise QueryError(_TOO_DEEP) from None


def read(
    statement: Statement | str, tables: tuple[Table, ...], ranges: Mapping[str | Column, Range] | None = None
) -> ParsedQuery:
    """What a query asks of these tables; `ranges` are the declared bounds of columns and expressions."""
    if not isinstance(statement, Statement):
        statement = parse_query(statement)
    try:
        if statement.google is not None:
            return _google_question(statement, statement.google, tables)
        return _question(statement, tables, ranges or {})
    except RecursionError:
        raise QueryError(_TOO_DEEP) from None


def _question(statement: Statement, tables: tuple[Table, ...], ranges: Mapping[str | Column, Range]) -> ParsedQuery:
    sql, tree = statement.sql, statement.tree
    for clause, value in tree.args.items():
        if value not in (None, False, []) and clause not in _CLAUSES:
            parts = [part for part in (value if isinstance(value, list) else [value]) if isinstance(part, exp.Expr)]
            remedy = "; GROUP BY gives each key once" if clause == "distinct" else ""
            name = clause.strip("_").replace("_", " ").upper()
            raise refusal(parts[0] if parts else tree, f"{name} is not supported{remedy}", sql)
    reader = SubqueryReader(sql, tables, ranges).with_tables(tree.args.get("with_") or tree.args.get("with"))
    scope, joins = reader.scope(tree)
    check_private(scope, tree)
    where, group = tree.args.get("where"), tree.args.get("group")
    groups = read_groups(scope, group, tree.expressions) if group is not None else ()
    finisher = Finisher(scope, groups, lambda node: _aggregate(scope, node))
    items = [(node, output) for node in tree.expressions for output in _outputs(scope, node, groups, finisher)]
    outputs = _apart(scope, items)
    if not groups and all(isinstance(output, KeyOutput) for output in outputs):
        raise scope.refuse(tree, "nothing is aggregated; ask for COUNT(*), COUNT, SUM or AVG")
    test = condition(scope, where.this) if where is not None else None
    finish = replace(finisher, outputs=outputs).finish(tree)
    inner = tuple(join for named in scope.tables if isinstance(named.table, DerivedTable) for join in named.table.joins)
    return ParsedQuery(statement, ranges, tables, scope.table, outputs, groups, test, joins, finish, scope, inner=inner)


def _google_question(statement: Statement, form: GoogleForm, tables: tuple[Table, ...]) -> ParsedQuery:
    """What a GoogleSQL text asks: of people's numbers, or of rows where bounds are per row."""
    sql, tree = statement.sql, statement.tree
    question = _question(statement, tables, {})
    calls = [
        bare(node.this if isinstance(node, exp.Alias) else node)
        for node in tree.expressions
        for _ in range(_many(node))
    ]
    for call, output in zip(calls, question.outputs, strict=True):
        if isinstance(output, ComputedOutput):
            remedy = "select the aggregates, and compute with what is released"
            raise refusal(call, f"{output.text} is not supported in this form; {remedy}", sql)
    if question.finish.hidden:
        raise QueryError(f"{question.finish.hidden[0].text} of HAVING or ORDER BY must be in the SELECT list")
    stated = form.per_row or form.per_group
    bounds = [next((ends for ends in stated if ends.holds(call)), None) for call in calls]
    if not set(stated) <= set(bounds):
        raise QueryError("contribution bounds belong to the calls of the SELECT list; elsewhere name the output")
    unit = _google_unit(question, form)
    wise = {output.function for output in question.outputs if isinstance(output, AggregateOutput)}
    if not form.per_row and (form.per_group or not wise or wise & {"count", "sum", "avg"}):
        people = AggregateOutput("units", "count", None, "COUNT(*)")
        return _at_least(googlesql.per_person(question, unit, bounds), people, form.least)
    outputs: list[Output] = []
    known: dict[str, Ends] = {}
    for call, output, ends in zip(calls, question.outputs, bounds, strict=True):
        if isinstance(output, AggregateOutput) and output.function in ("count", "sum", "avg", "mode"):
            what = f"{output.text} and bounds per row in one query are not supported"
            raise refusal(call, f"{what}; ask two queries", sql)
        if ends is None or isinstance(output, ComputedOutput) or output.column is None:
            outputs.append(output)
            continue
        first = known.setdefault(sql_name(output.column), ends)
        if (first.low, first.high) != (ends.low, ends.high):
            raise refusal(call, f"{output.column.name} has two contribution bounds; one query knows one", sql)
        outputs.append(replace(output, column=replace(output.column, low=ends.low, high=ends.high)))
    people = AggregateOutput("units", "count", unit, f"COUNT(DISTINCT {unit.name})", distinct=True)
    return _at_least(replace(question, outputs=tuple(outputs)), people, form.least)


def _google_unit(question: ParsedQuery, form: GoogleForm) -> Column:
    """The column that says whose a row is: that of the ledger, which the text may name once more."""
    unit = owner_column(question.table)
    if unit is None and form.unit is not None and not isinstance(question.table, DerivedTable):
        if not question.table.has(form.unit):
            raise QueryError(f"privacy_unit_column={form.unit} is not a column of {question.table.name}")
        return question.table.find(form.unit)
    if unit is None:
        raise QueryError("this form is for ledgers that protect people by a column, and this one protects rows")
    if form.unit is not None and form.unit.casefold() != unit.name.casefold():
        raise QueryError(f"privacy_unit_column is {form.unit}, and the ledger protects {unit.name}")
    return unit


def _at_least(question: ParsedQuery, people: AggregateOutput, least: int) -> ParsedQuery:
    """The question, whose groups are shown if their noisy number of units is `least` or more."""
    if least == 1:
        return question
    names = {output.name.casefold() for output in question.outputs}
    while people.name in names:
        people = replace(people, name=people.name + "_")
    return replace(question, finish=question.finish.only_from(people, least))


def is_key(output: Output) -> TypeGuard[KeyOutput]:
    """Whether an output holds keys."""
    return isinstance(output, KeyOutput)


def _outputs(scope: Scope, node: exp.Expr, groups: tuple[Column, ...], finisher: Finisher) -> list[Output]:
    """One item of the SELECT list: a key, an aggregate, a list of quantiles, or what is computed of them."""
    alias = None
    if isinstance(node, exp.Alias):
        scope.only(node, "this", "alias")
        alias, node = node.alias, node.this
    node = bare(node)
    if isinstance(node, exp.Star):
        raise scope.refuse(node, "SELECT * would release rows; ask for aggregates, for example COUNT(*)")
    several = _quantiles(scope, node, alias)
    if several:
        return list(several)
    found = _aggregate(scope, node, alias)
    if found is not None:
        return [found]
    _check_known(scope, node)
    if isinstance(node, exp.Column) or not _is_computed(node):
        column = expression(scope, node)
        for group in groups:
            if sql_name(group) == sql_name(column):
                return [KeyOutput(alias or column.name, group)]
        if isinstance(node, exp.Column):
            raise scope.refuse(
                node, f"column {column.name} is neither grouped nor aggregated; add it to GROUP BY or aggregate it"
            )
    return [finisher.computed(node, alias)]


def _is_computed(node: exp.Expr) -> bool:
    """Whether an item cannot be a grouped expression: it holds an aggregate, or nothing but constants."""
    return _has_aggregate(node) or node.find(exp.Column) is None


def _has_aggregate(node: exp.Expr) -> bool:
    return any(type(_spelled(part)) in FUNCTIONS or type(part) in ASSOCIATIONS for part in node.walk())


def _check_known(scope: Scope, node: exp.Expr) -> None:
    """Refuse an aggregate that is not known, with what to ask instead."""
    for part in node.walk():
        spelled = _spelled(part)
        unknown = isinstance(part, exp.Anonymous) and str(part.this).upper() != "DATE_PART"
        known = type(spelled) in FUNCTIONS or type(part) in ASSOCIATIONS
        if not known and (unknown or isinstance(part, exp.AggFunc)):
            remedy = f"the aggregates are {_KNOWN} of a column"
            if "HISTOGRAM" in written(part).upper():
                remedy = "for a histogram, COUNT(*) with GROUP BY WIDTH_BUCKET(x, low, high, buckets)"
            raise scope.refuse(part, f"{shown(part)} is not supported; {remedy}")
        if isinstance(part, exp.Rand):
            raise scope.refuse(part, f"{shown(part)} is not supported; a release has noise of its own")


def _spelled(node: exp.Expr) -> exp.Expr:
    """An aggregate under a name that sqlglot does not know, as the node it means."""
    known = SPELLINGS.get(str(node.this).upper()) if isinstance(node, exp.Anonymous) else None
    if known is None or len(node.expressions) != 1:
        return node
    found = known(this=node.expressions[0])
    found.meta.update(node.meta)
    return found


def _aggregate(scope: Scope, node: exp.Expr, alias: str | None = None) -> AggregateOutput | None:
    """A node as an aggregate; None where it is none."""
    text = shown(node)
    if isinstance(node, exp.Filter):
        inner, kept = _spelled(bare(node.this)), node.expression.this
        if type(inner) not in FUNCTIONS:
            raise scope.refuse(node, f"{text} is not supported; FILTER belongs to an aggregate")
        return _read_aggregate(scope, inner, alias, text, kept)
    spelled = _spelled(node)
    return _read_aggregate(scope, spelled, alias, text, None) if type(spelled) in FUNCTIONS else None


def _kept(inner: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """What an aggregate reads of a row: nothing where FILTER leaves the row out."""
    return inner if condition is None else exp.Case(ifs=[exp.If(this=condition.copy(), true=inner.copy())])


def _read_aggregate(
    scope: Scope, node: exp.Expr, alias: str | None, text: str, kept: exp.Expr | None
) -> AggregateOutput:
    function = FUNCTIONS[type(node)]
    if function == "quantile":
        return _quantile(scope, node, alias, text, kept)
    scope.only(node, "this", "big_int")
    inner = node.this
    if function == "count" and _counts_rows(scope, inner):
        if kept is None:
            return AggregateOutput(alias or "count", function, None, text)
        column = expression(scope, _kept(exp.Literal.number(1), kept))
        return AggregateOutput(alias or "count_filter", function, column, text)
    distinct = isinstance(inner, exp.Distinct)
    if distinct:
        scope.only(inner, "expressions")
        if function != "count":
            raise scope.refuse(node, "DISTINCT is supported in COUNT(DISTINCT column) only")
        if len(inner.expressions) > 1:
            column = tupled(scope, node, [_kept(part, kept) for part in inner.expressions])
            named = "_".join(re.sub(r"\W+", "_", shown(part)).strip("_").lower() for part in inner.expressions)
            return AggregateOutput(alias or f"count_distinct_{named}", function, column, text, distinct=True)
        inner = inner.expressions[0]
    if inner is None or isinstance(inner, exp.Star | exp.Literal):
        remedy = "write COUNT(*) or COUNT(column)" if function == "count" else f"write {function.upper()}(column)"
        raise scope.refuse(node, f"{text} is not supported; {remedy}")
    if isinstance(node, exp.CountIf):
        inner = exp.Case(ifs=[exp.If(this=inner, true=exp.Literal.number(1))])
    column = expression(scope, _kept(inner, kept))
    if function not in ("count", "mode") and not column.kind.numeric:
        held = f"column {column.name} holds {column.held}{number_of(column)}"
        raise scope.refuse(node, f"{function.upper()} needs numbers; {held}")
    if (distinct or function == "mode") and column.kind is ColumnKind.OTHER:
        raise scope.refuse(node, f"{text} is not supported: column {column.name} is of type {column.type}")
    first = "count_distinct" if distinct else "count_if" if isinstance(node, exp.CountIf) else function
    return AggregateOutput(alias or _slug(first, column), function, column, text, distinct=distinct)


def _counts_rows(scope: Scope, inner: exp.Expr | None) -> bool:
    """Whether COUNT counts every row: COUNT(*), COUNT(), COUNT(1)."""
    if isinstance(inner, exp.Star):
        scope.only(inner)
        return True
    return inner is not None and is_literal(inner) and not isinstance(bare(inner), exp.Null)


def _levels(node: exp.Expr) -> tuple[exp.Expr, list[exp.Expr]]:
    """The argument and the levels of a list of quantiles; no levels where a node is none."""
    if isinstance(node, exp.Anonymous) and str(node.this).upper() == "QUANTILES" and len(node.expressions) == 2:
        inner, many = node.expressions
        number = int(many.name) if isinstance(many, exp.Literal) and many.name.isdigit() else 0
        levels = [Fraction(i, number) for i in range(number + 1)] if number <= _MOST_LEVELS else []
        return inner, [exp.Literal.number(str(float(level))) for level in levels]
    given = node.args.get("expression") or node.args.get("quantile")
    listed = FUNCTIONS.get(type(node)) == "quantile" and isinstance(given, exp.Array)
    return node.this, list(given.expressions) if listed and given is not None else []


def _many(node: exp.Expr) -> int:
    """How many outputs an item of the SELECT list has."""
    return max(1, len(_levels(bare(node.this if isinstance(node, exp.Alias) else node))[1]))


def _quantiles(scope: Scope, node: exp.Expr, alias: str | None) -> tuple[AggregateOutput, ...]:
    """QUANTILE_CONT(x, [0.25, 0.5, 0.75]), and QUANTILES(x, 4) of GoogleSQL, as one output for each level; they share
    their measures."""
    inner, levels = _levels(node)
    found = []
    for level in levels:
        single = exp.PercentileCont(this=inner.copy(), expression=level.copy())
        output = _read_aggregate(scope, single, alias, shown(single), None)
        percent = f"{float((output.level or Fraction(0)) * 100):g}".replace(".", "_")
        found.append(replace(output, name=f"{output.name}_{percent}"))
    return tuple(found)


def _quantile(scope: Scope, node: exp.Expr, alias: str | None, text: str, kept: exp.Expr | None) -> AggregateOutput:
    """MEDIAN, MIN, MAX, QUANTILE_CONT(x, q) and PERCENTILE_CONT(q) WITHIN GROUP (ORDER BY x)."""
    inner, level, down = node.this, None, False
    if isinstance(node, exp.WithinGroup):
        scope.only(node, "this", "expression")
        terms = node.expression.expressions
        if not isinstance(inner, exp.PercentileCont | exp.PercentileDisc) or len(terms) != 1:
            raise scope.refuse(node, f"{text} is not supported; write PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)")
        scope.only(inner, "this")
        scope.only(terms[0], "this", "desc", "nulls_first")
        level, inner, down = inner.this, terms[0].this, bool(terms[0].args.get("desc"))
    elif type(node) in LEVELS:
        scope.only(node, "this")
    else:
        scope.only(node, "this", "expression", "quantile")
        level = node.args.get("expression") or node.args.get("quantile")
    if type(node) in LEVELS:
        share: object = LEVELS[type(node)]
    else:
        share = scope.value(level) if level is not None and is_literal(level) else None
    if not isinstance(share, int | Fraction) or isinstance(share, bool) or not 0 <= share <= 1:
        raise scope.refuse(node, f"{text} needs a number between 0 and 1, as in QUANTILE_CONT(x, 0.9)")
    if inner is None or isinstance(inner, exp.Star | exp.Literal | exp.Distinct):
        raise scope.refuse(node, f"{text} is not supported; name a column")
    column = number(scope, _kept(inner, kept))
    name = node.key if type(node) in LEVELS else "quantile"
    return AggregateOutput(
        alias or _slug(name, column), "quantile", column, text, level=Fraction(1 - share if down else share)
    )


def _slug(function: str, column: Column) -> str:
    """The name of an output without AS: "avg_cost", "sum_price_items"."""
    words = column.name if column.sql is None else re.sub(r"\W+", "_", column.name).strip("_").lower()
    return f"{function}_{words}"


def _apart(scope: Scope, items: Sequence[tuple[exp.Expr, Output]]) -> tuple[Output, ...]:
    """The outputs, every name of which means one thing. A name that nobody gave is made different; one that was given
    by AS is refused."""
    taken: set[str] = set()
    found: list[Output] = []
    for node, output in items:
        number = 1
        while again := [name for name in _names(output) if name.casefold() in taken]:
            if isinstance(node, exp.Alias):
                raise scope.refuse(node, f"the answer would have two columns {again[0]}; rename one with AS")
            number += 1
            stem = output.name.removesuffix(f"_{number - 1}") if number > 2 else output.name
            output = replace(output, name=f"{stem}_{number}")
        taken.update(name.casefold() for name in _names(output))
        found.append(output)
    return tuple(found)


def _names(output: Output) -> list[str]:
    """The names of an output's columns."""
    if isinstance(output, KeyOutput):
        return [output.name]
    chosen = output.function == "mode" if isinstance(output, AggregateOutput) else not output.formula.kind.numeric
    return [output.name + ending for ending in (("", "_among") if chosen else ("", "_low", "_high"))]
