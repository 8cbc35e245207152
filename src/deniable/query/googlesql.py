"""GoogleSQL's form of a private query, `SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (…)`, as BigQuery reads it.

sqlglot does not know it, so a pass over the tokens takes out what is said about privacy. What is left is plain SQL with
blanks in these places, so that every position in a message is one of the text as it was written.

| GoogleSQL | here |
|---|---|
| `epsilon`, `delta` | `epsilon` for the whole query; `delta` for the choice of groups, where they are found |
| `privacy_unit_column` | must be the column that the ledger protects, which is taken where it is left out |
| `max_groups_contributed`, or `kappa` | `groups` of `per_unit`; 1 where it is left out, as in BigQuery |
| `min_privacy_units_per_group` | groups whose noisy number of units is smaller are left out |
| `group_selection_strategy` | `LAPLACE_THRESHOLD`, which is done; `PUBLIC_GROUPS` where all keys are known |
| `contribution_bounds_per_group` of COUNT, SUM, AVG | one number per unit and group, clamped: see `per_person` |
| `contribution_bounds_per_row` of PERCENTILE_CONT, VAR_POP, STDDEV_POP | `bounds`; at most 5 rows per group of a unit |
| bounds that are left out | `bounds="private"`: found with a tenth of epsilon |
| `WITH ANONYMIZATION`, `ANON_SUM(x CLAMPED BETWEEN 0 AND 9)` | the same, under the old names |

Whatever else GoogleSQL has is refused by name and position.

**Per person.** One number per person and group: what GoogleSQL aggregates, and clamps, before it adds up over people.

`SUM(x, contribution_bounds_per_group => (L, U))` adds up, over people, what each has in a group, clamped to [L, U];
COUNT likewise; AVG averages people's averages. That is a plain query over another table, which has one row per person
and group: its columns are the person, the keys of the group, and a value per aggregate. So the question is asked of
that table: the bounded SQL reads it in place of the private one, with one row per group of a person, and everything
else (limits on groups, noise, intervals) is as in any query. The sensitivity is groups · max(|L|, |U|).

**Others do not matter.** A row of that table is made of one person's rows. Floats are added up as whole numbers of the
grid's steps, so that the sum is exact and does not depend on the order of the rows.

>>> found = form("SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon=1, delta=1e-6, privacy_unit_column=id, "
...              "max_groups_contributed=2) city, SUM(cost, contribution_bounds_per_group => (0, 50)) AS s FROM t "
...              "GROUP BY city")
>>> " ".join(found.text.split()), found.groups, found.per_group[0].low, found.per_group[0].high
('SELECT city, SUM(cost ) AS s FROM t GROUP BY city', 2, Fraction(0, 1), Fraction(50, 1))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlglot
from sqlglot import exp
from sqlglot.errors import TokenError
from sqlglot.tokens import Token, TokenType  # type: ignore[attr-defined]

from deniable import _checks
from deniable.errors import QueryError
from deniable.noise import Grid
from deniable.query import grids
from deniable.query.derived import FINE, WIDEST, person_total
from deniable.query.parsing import DIALECT, UNCLOSED
from deniable.query.schema import AggregateOutput, Column, ColumnKind, KeyOutput
from deniable.query.values import name, quoted

if TYPE_CHECKING:
    from deniable.query.reading import ParsedQuery


ROWS = 5
"""Rows of a unit and group that count in row-wise aggregates. ZetaSQL, GoogleSQL's open form, takes as many of the
values that are not NULL (`kPerUserArrayAggLimit`); BigQuery's pages do not say."""

_PER_GROUP = ("COUNT", "SUM", "AVG")
_PER_ROW = ("PERCENTILE_CONT", "VAR_POP", "STDDEV_POP", "QUANTILES")
_STRATEGIES = ("LAPLACE_THRESHOLD", "PUBLIC_GROUPS")
_OLD = "ANON_"
"""How the names of aggregates begin in WITH ANONYMIZATION."""

_REFUSED = {
    "k_threshold": "the threshold for groups follows from epsilon and delta",
    "report_format": "a release has intervals of its own",
    "max_rows_contributed": "it limits rows over all groups; here they are limited in each: use max_groups_contributed",
}


_FORMS = ("DIFFERENTIAL_PRIVACY", "ANONYMIZATION", "AGGREGATION_THRESHOLD")
"""What may follow SELECT WITH in GoogleSQL; the first two are read."""

_LONGEST = 40
"""Letters of a number."""


class OptionValue(NamedTuple):
    """A name or a number, and the token that it starts with."""

    token: Token
    text: str


class Ends(NamedTuple):
    """Contribution bounds of one call, and where the call starts and ends in the text."""

    start: int
    end: int
    low: Fraction
    high: Fraction

    def holds(self, node: exp.Expr) -> bool:
        """Whether a node of the tree stands within the call."""
        places = [part.meta["start"] for part in node.walk() if "start" in part.meta]
        return bool(places) and all(self.start <= place <= self.end for place in places)


@dataclass(frozen=True)
class GoogleForm:
    """What the text says about privacy, and the plain SQL that is left."""

    text: str
    epsilon: Fraction
    delta: Fraction | None
    unit: str | None
    groups: int | None
    per_group: tuple[Ends, ...]
    per_row: tuple[Ends, ...]
    least: int = 1
    """How many units a group must have to be shown."""
    public: bool = False
    """Whether all groups must be known beforehand."""


def form(sql: str) -> GoogleForm | None:
    """The form of a text; None when it is plain SQL."""
    if not isinstance(sql, str) or not any(word in sql.upper() for word in _FORMS):
        return None
    try:
        tokens = sqlglot.tokenize(sql, read="bigquery")
    except TokenError:
        if _is_plain(sql):
            return None
        raise QueryError(UNCLOSED) from None
    kinds = [token.token_type for token in tokens]
    starts = [i for i in range(len(kinds) - 2) if kinds[i : i + 2] == [TokenType.SELECT, TokenType.WITH]]
    return _Pass(sql, tokens).form(starts[0]) if starts else None


def _is_plain(sql: str) -> bool:
    """Whether a text that GoogleSQL cannot split into words is plain SQL, which has other quotation marks."""
    try:
        kinds = [token.token_type for token in sqlglot.tokenize(sql, read=DIALECT)]
    except TokenError:
        return False
    return kinds[:2] != [TokenType.SELECT, TokenType.WITH]


def _words(token: Token) -> list[str]:
    """The words of a token; a text is one."""
    quoted = token.token_type in (TokenType.IDENTIFIER, TokenType.STRING)
    return [token.text] if quoted else token.text.upper().split()


class _Pass:
    """One pass over the tokens; what it understands is blanked out."""

    def __init__(self, sql: str, tokens: list[Token]) -> None:
        self._sql, self._tokens, self._letters = sql, tokens, list(sql)
        self._renamed: dict[int, str] = {}

    def form(self, start: int) -> GoogleForm:
        """The form, whose SELECT is the token at `start`."""
        mode = self._at(start + 2)
        if start > 0:
            raise self._refused(mode, "a private query within another one is not supported; start with SELECT WITH")
        if mode.text.upper() not in _FORMS[:2]:
            raise self._refused(mode, f"WITH {mode.text} is not supported; write WITH {_FORMS[0]} OPTIONS(epsilon = …)")
        if self._at(3).text.upper() != "OPTIONS":
            raise self._refused(mode, f"{_FORMS[0]} needs OPTIONS(epsilon = …, delta = …, privacy_unit_column = …)")
        options, after = self._options(4)
        self._blank(self._tokens[1].start, self._tokens[after - 1].end)
        per_group, per_row = self._calls(after)
        self._respell(after)
        self._check_words(after)
        if "epsilon" not in options:
            raise self._refused(self._tokens[3], "epsilon is missing from OPTIONS")
        strategy = options.get("group_selection_strategy")
        if strategy is not None and strategy.text.upper() not in _STRATEGIES:
            listed = " and ".join(_STRATEGIES)
            raise self._refused(strategy.token, f"{strategy.text} is not supported; the strategies are {listed}")
        return GoogleForm(
            text="".join(self._letters),
            epsilon=self._number(options["epsilon"]),
            delta=self._number(options["delta"]) if "delta" in options else None,
            unit=options["privacy_unit_column"].text if "privacy_unit_column" in options else None,
            groups=self._count(options, "max_groups_contributed"),
            per_group=per_group,
            per_row=per_row,
            least=self._count(options, "min_privacy_units_per_group") or 1,
            public=strategy is not None and strategy.text.upper() == _STRATEGIES[1],
        )

    def _options(self, i: int) -> tuple[dict[str, OptionValue], int]:
        """OPTIONS(name = value, …), from the bracket on: values by name, and the place after it."""
        found: dict[str, OptionValue] = {}
        self._expect(i, TokenType.L_PAREN)
        while True:
            name = self._at(i + 1).text.lower()
            name = "max_groups_contributed" if name == "kappa" else name
            known = (
                "epsilon", "delta", "privacy_unit_column", "max_groups_contributed", "min_privacy_units_per_group",
                "group_selection_strategy",
            )  # fmt: skip
            if name not in known:
                why = _REFUSED.get(name, f"the options are {', '.join(known)}")
                raise self._refused(self._at(i + 1), f"{name} is not supported; {why}")
            if name in found:
                raise self._refused(self._at(i + 1), f"{name} is given twice")
            self._expect(i + 2, TokenType.EQ)
            found[name], i = self._value(i + 3)
            while name == "privacy_unit_column" and self._at(i).token_type is TokenType.DOT:  # members.id
                found[name], i = self._value(i + 1)
            if self._at(i).token_type is TokenType.R_PAREN:
                return found, i + 1
            self._expect(i, TokenType.COMMA)

    def _calls(self, start: int) -> tuple[tuple[Ends, ...], tuple[Ends, ...]]:
        """The contribution bounds of every call, per group and per row, in the order of the text."""
        found: dict[str, list[Ends]] = {"contribution_bounds_per_group": [], "contribution_bounds_per_row": []}
        for i in range(start, len(self._tokens)):
            if self._at(i).token_type is TokenType.L_PAREN and self._at(i - 1).text.upper().startswith(_OLD):
                self._rename(self._at(i - 1))
            if self._at(i).text.upper() == "CLAMPED" and self._at(i).token_type is TokenType.VAR:
                kind, ends = self._clamped(i)
                found[kind].append(ends)
            if self._at(i).token_type is not TokenType.FARROW:
                continue
            name, call = self._at(i - 1), self._opening(i)
            function, kind = self._at(call - 1).text.upper(), name.text.lower()
            wanted = {"contribution_bounds_per_group": _PER_GROUP, "contribution_bounds_per_row": _PER_ROW}.get(kind)
            if wanted is None or function not in wanted:
                listed = ", ".join(wanted or (*_PER_GROUP, *_PER_ROW))
                why = _REFUSED.get(kind, f"contribution bounds are for {listed}")
                raise self._refused(name, f"{kind} of {function} is not supported; {why}")
            self._expect(i - 2, TokenType.COMMA)
            low, high, end = self._pair(i + 1)
            self._expect(end + 1, TokenType.R_PAREN)
            self._blank(self._at(i - 2).start, self._at(end).end)
            found[kind].append(Ends(self._at(call - 1).start, self._at(end + 1).end, low, high))
        per_group, per_row = (tuple(ends) for ends in found.values())
        if per_group and per_row:
            raise self._refused(
                self._at(start), "bounds per group and per row in one query are not supported; ask two queries"
            )
        return per_group, per_row

    def _rename(self, token: Token) -> None:
        """ANON_SUM is called SUM."""
        name = token.text.upper().removeprefix(_OLD)
        if name not in (*_PER_GROUP, *_PER_ROW):
            raise self._refused(token, f"{token.text} is not supported; the aggregates are {', '.join(_PER_GROUP)}")
        self._blank(token.start, token.start + len(_OLD) - 1)
        self._renamed[token.start] = name

    def _clamped(self, i: int) -> tuple[str, Ends]:
        """CLAMPED BETWEEN low AND high, at the end of a call."""
        call = self._opening(i)
        function = self._at(call - 1).text.upper().removeprefix(_OLD)
        if function not in (*_PER_GROUP, *_PER_ROW):
            raise self._refused(self._at(i), f"CLAMPED in {function} is not supported; write it in an aggregate")
        self._expect(i + 1, TokenType.BETWEEN)
        low, after = self._signed(i + 2)
        self._expect(after, TokenType.AND)
        high, after = self._signed(after + 1)
        self._expect(after, TokenType.R_PAREN)
        if low >= high:
            raise self._refused(self._at(after), "contribution bounds need the lower one first")
        self._blank(self._at(i).start, self._at(after - 1).end)
        kind = "contribution_bounds_per_group" if function in _PER_GROUP else "contribution_bounds_per_row"
        return kind, Ends(self._at(call - 1).start, self._at(after).end, low, high)

    def _opening(self, i: int) -> int:
        """The bracket of the call that a token stands in."""
        depth = 0
        while i > 0:
            i -= 1
            kind = self._at(i).token_type
            depth += (kind is TokenType.R_PAREN) - (kind is TokenType.L_PAREN)
            if depth < 0:
                return i
        raise self._refused(self._at(i), "a named argument stands outside of a call")

    def _pair(self, i: int) -> tuple[Fraction, Fraction, int]:
        """(low, high), from the bracket on, and the place of its end."""
        self._expect(i, TokenType.L_PAREN)
        low, i = self._signed(i + 1)
        self._expect(i, TokenType.COMMA)
        high, i = self._signed(i + 1)
        self._expect(i, TokenType.R_PAREN)
        if low >= high:
            raise self._refused(self._at(i), "contribution bounds need the lower one first")
        return low, high, i

    def _signed(self, i: int) -> tuple[Fraction, int]:
        minus = self._at(i).token_type is TokenType.DASH
        value, after = self._value(i + minus)
        number = self._number(value)
        return -number if minus else number, after

    def _value(self, i: int) -> tuple[OptionValue, int]:
        """A name or a number, which may begin with its point; and the place after it."""
        token, pointed = self._at(i), self._at(i).token_type is TokenType.DOT
        after = self._at(i + pointed)
        return OptionValue(token, f".{after.text}" if pointed else token.text), i + 1 + pointed

    def _respell(self, start: int) -> None:
        """Backticks and double quotes, which mean names and texts in GoogleSQL, as SQL writes them elsewhere."""
        for token in self._tokens[start:]:
            first = self._sql[token.start]
            quote = {"`": '"', '"': "'", "'": "'"}.get(first)
            if quote is None or token.token_type not in (TokenType.IDENTIFIER, TokenType.STRING):
                continue
            plain = self._sql[token.start : token.end + 1] == first + token.text + first
            if not plain or quote in token.text or "\\" in token.text:
                raise self._refused(token, "a quotation mark or a backslash within quotation marks is not supported")
            self._letters[token.start] = self._letters[token.end] = quote

    def _check_words(self, start: int) -> None:
        """Refuse the first word that plain SQL would read otherwise, such as a prefix of a text, or a comment by #."""
        kept = [
            token
            for token in self._tokens[start:]
            if token.start in self._renamed or not self._letters[token.start].isspace()
        ]
        theirs = [
            (token, word)
            for token in kept
            for word in ([self._renamed[token.start]] if token.start in self._renamed else _words(token))
        ]
        ours = [word for token in sqlglot.tokenize("".join(self._letters), read=DIALECT)[1:] for word in _words(token)]
        for i, (token, word) in enumerate(theirs):
            if ours[i : i + 1] != [word]:
                raise self._refused(token, f"{token.text} is read otherwise in plain SQL; write it another way")
        if len(ours) > len(theirs):
            raise QueryError("a comment of GoogleSQL is not one in plain SQL; start it with --")

    def _number(self, value: OptionValue) -> Fraction:
        try:
            if value.token.token_type in (TokenType.NUMBER, TokenType.DOT) and len(value.text) < _LONGEST:
                return _checks.exact(Fraction(value.text))
        except ValueError:
            pass
        raise self._refused(value.token, f"{value.text} is not a number; here it must be one, written out")

    def _count(self, options: dict[str, OptionValue], name: str) -> int | None:
        if name not in options:
            return None
        number = self._number(options[name])
        if number.denominator != 1 or number < 1:
            raise self._refused(options[name].token, f"{name} must be a whole number, 1 or more")
        return number.numerator

    def _at(self, i: int) -> Token:
        if i >= len(self._tokens):
            raise QueryError("the SQL ends within WITH DIFFERENTIAL_PRIVACY; close its brackets")
        return self._tokens[i]

    def _expect(self, i: int, kind: TokenType) -> None:
        if self._at(i).token_type is not kind:
            raise self._refused(self._at(i), f"{self._at(i).text} is not expected here")

    def _blank(self, start: int, end: int) -> None:
        for place in range(start, end + 1):
            if self._letters[place] != "\n":
                self._letters[place] = " "

    def _refused(self, token: Token, message: str) -> QueryError:
        before = self._sql[: token.start]
        return QueryError(message, line=before.count("\n") + 1, column=token.start - (before.rfind("\n") + 1) + 1)


def per_person(question: ParsedQuery, unit: Column, bounds: Sequence[Ends | None]) -> ParsedQuery:
    """The question of a GoogleSQL text as one over people, who are told apart by `unit`; `bounds` are those of each
    output's call, None where they are to be found."""
    columns, grouped = {quoted(unit.name): name(unit)}, dict[str, Column]()
    group, value = question.table.unused("group"), question.table.unused("value")
    for i, column in enumerate(question.groups, start=1):
        plain = column.sql is None
        columns[quoted(column.name) if plain else f'"{group} {i}"'] = name(column)
        grouped[name(column)] = column if plain else replace(column, sql=f't."{group} {i}"')
    outputs: list[Any] = []
    for i, (output, ends) in enumerate(zip(question.outputs, bounds, strict=True), start=1):
        if isinstance(output, KeyOutput):
            outputs.append(replace(output, column=grouped[name(output.column)]))
            continue
        if not isinstance(output, AggregateOutput):
            raise TypeError("computed outputs have no form per person")
        sql, column = _person_value(output, ends, unit, f'"{value} {i}"')
        columns[f'"{value} {i}"'] = sql
        outputs.append(replace(output, function="avg" if output.function == "avg" else "sum", column=column))
    listed = ",\n  ".join(f"{sql} AS {alias}" for alias, sql in columns.items())
    by = ", ".join([name(unit), *(name(column) for column in question.groups)])
    where = f"\nWHERE {question.where}" if question.where is not None else ""
    people = f"(\nSELECT {listed}\nFROM {question.source}{where}\nGROUP BY {by}\n) AS t"
    return replace(
        question,
        outputs=tuple(outputs),
        groups=tuple(grouped[name(column)] for column in question.groups),
        where=None,
        people=people,
        renamed={sql: name(column) for sql, column in grouped.items()},
    )


def _person_value(output: AggregateOutput, ends: Ends | None, unit: Column, alias: str) -> tuple[str, Column]:
    """A person's number in SQL, over the person's rows in a group; and the column that it becomes."""
    text, rows = output.text, output.column
    if output.function not in ("count", "sum", "avg") or output.distinct:
        raise QueryError(f"{text} has no form per person; the aggregates are COUNT, SUM and AVG")
    low, high = (None, None) if ends is None else (ends.low, ends.high)
    column = Column(f"{text} per {unit.name}", ColumnKind.REAL, "DOUBLE", f"t.{alias}", low, high)
    if output.function == "count":
        counted = "COUNT(*)" if rows is None else f"COUNT({grids.presence(rows)})"
        return counted, replace(column, kind=ColumnKind.INTEGER, type="BIGINT")
    if rows is None:
        raise QueryError(f"{text} needs a column")
    step = Fraction(1) if rows.kind is ColumnKind.INTEGER else FINE
    step = step if ends is None else grids.choose(rows, (ends.low, ends.high)).step
    steps = grids.grid_index(rows, Grid(low=-WIDEST * step, high=WIDEST * step, step=step))
    whole = person_total(f"SUM({steps})", step)
    if output.function == "avg":
        return f"{whole} / NULLIF(COUNT({steps}), 0)", column
    return whole, column
