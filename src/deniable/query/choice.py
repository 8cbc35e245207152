"""Which rows of a unit stay: `AtMost`, and steps of SQL, each within one unit, from its own rows and the hash key.

**Groups.** A unit's groups are ranked by a keyed hash of (unit, group). It keeps those below the (K+1)-th smallest
rank, so K at most: ties can only leave fewer.

1. `people`, `busy`: in one pass over the rows, which of 64 equal intervals of ranks each unit has groups in, as the
   bits of a number. The K smallest ranks lie in the first K intervals that are not empty, so rows beyond those are
   left out before anything is grouped by unit and group. That is not a choice yet: what the next steps choose lies
   before. Units that are surely within their limits (see `Shortcut`) need no choice, and are added up together, under
   u = NULL.
2. `shares`: per unit and group the number of rows, of values, and the sums.
3. `crowd`, `last`, `kept`: of units that still have more than K groups, those below the (K+1)-th smallest rank.

**Rows.** Of a unit and group with n > R rows, R are chosen. The rows are put in the order of their values, and numbered
i = 0 to n - 1; rows that are alike in all values may be numbered either way, since nothing tells them apart. Row i
stays if (i·R + s) mod n < R, where s is a keyed hash of (unit, group, n), modulo n. As i goes from 0 to n - 1, i·R + s
passes a multiple of n exactly R times, so R rows stay for every s. Each s from 0 to n - 1 is as likely as any other
(but for the remainder of 2⁶⁴ by n), so each row stays with probability R/n. The rows that stay are spread evenly over
the sorted values: their mean is nearer to the mean of all n than that of R rows drawn freely.

**Why others do not matter.** Every step but the last addition looks at one unit: at its rows as a multiset, and at the
key. Row order, row ids, numbers of other units' groups and other units' rows occur nowhere. Adding or removing a unit
therefore adds or removes its own share and changes no other share: the premise of `measures`. The hash need not be
strong for that; it decides which rows stay, and the key, fresh for every session, keeps that choice from being the
same one each time (`engines.base` says why one key may serve many answers).

**On every engine.** `portable_rows` is the same rule in SQL that every engine computes alike: a fixed key keeps the
same rows on all of them.

Groups of a unit, and rows of a unit and group, are ranked by MD5 of a text: the key, the unit, and the content, each
written so that engines agree on every letter (`spelled`). A unit keeps its K first groups, and R first rows in each.
The rule above is faster, with functions that DuckDB alone has; this one is what Spark and PostgreSQL run, and DuckDB
in a session with a fixed key.

1. `ranked`, `chosen`: the rows of each unit's K first groups. Only these go on.
2. `copies`: how many rows a unit has in a group; and a number for rows that are identical in unit, group and values.
3. `placed`, `rows`: the R first rows of a unit and group. Ranks are computed where there are more than R.
4. `turns`, where all rows of a unit are limited to T: its groups take turns, in the order of their ranks, each giving
   its next row, until there are T. So a group whose later rows stay has its first row, too. DuckDB takes the same steps
   for such limits, with its own hash (`total_rows`).

Every step reads the one before, once: the table itself is read once, and on Spark rows move once, to where those of
their unit are.

The argument is the same. Every step but the last addition looks at one unit, at its rows as a multiset, and at
the key. MD5 need not be strong for that, and two contents that are spelled alike do no harm: ties are broken by the
content itself, and at most K groups and R rows stay in any case.

**Shortcut.** If no unit is beyond its limits, the plain aggregate is the bounded one.

Most data are like that: a patient has one home town, a voter one district. `Shortcut.check` looks, in one pass that
reads ids and groups only, whether every unit is surely within its limits: it has at most R rows, and they are in one
group or no more than K. Then bounding would leave out nothing, and `Shortcut.plain` gives the same totals, in one more
pass without joins. Otherwise the bounded SQL runs as if nobody had looked. Either way the totals are the same function
of the rows; only the time differs, which is outside of the promise.

`peek` is the same check over the first rows that come. A unit that exceeds its limits in the first rows exceeds them in
the whole table. So if `peek` finds one, the full check is skipped.

**One number per unit.** Grouping by unit is bound by memory: each aggregate of a unit costs. Where they fit, the number
of rows n and the sums of g and of g² over a unit's rows are the digits of one sum, with g² last. It is a float: exact
below 2⁵³, and no smaller than 2⁵³ beyond. The digits below n cannot carry into it while n ≤ R, and adding only makes
the sum larger, so n > R is always seen. All rows are in one group exactly if n·Σg² = (Σg)² (Cauchy-Schwarz).

>>> AtMost(groups=2, rows=4)
AtMost(groups=2, rows=4)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from deniable import _checks, noise
from deniable._remedies import ExampleCall
from deniable._signatures import public_class
from deniable.errors import NotSupported
from deniable.query.functions import calendar
from deniable.query.schema import ColumnKind


@public_class
@dataclass(frozen=True, kw_only=True, repr=False)
class AtMost:
    """At most `groups` groups of the GROUP BY, at most `rows` rows in each of them, and at most `total` rows in all, if
    it is given, of every unit.

    What is beyond is left out; which rows stay is decided by a keyed hash of the unit's own rows. Choose them from
    what you know about the data, not from the data: larger values keep more and need more noise, in proportion to
    groups × rows, or to `total` where that is less.
    """

    groups: int
    rows: int
    total: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "groups", _checks.count("groups", self.groups))
        object.__setattr__(self, "rows", _checks.count("rows", self.rows))
        if self.total is not None:
            object.__setattr__(self, "total", _checks.count("total", self.total))

    @property
    def most_rows(self) -> int:
        """How many rows of one unit count."""
        return self.groups * self.rows if self.total is None else min(self.groups * self.rows, self.total)

    def within(self, groups: int | None) -> AtMost:
        """The same limits without what says nothing, where there are this many groups (None if that is private)."""
        most = self.groups if groups is None else min(self.groups, groups)
        rows = self.rows if self.total is None else min(self.rows, self.total)
        total = None if self.total is None or self.total >= most * rows else self.total
        return AtMost(groups=self.groups, rows=rows, total=total)

    def __repr__(self) -> str:
        return f"AtMost({', '.join(f'{name}={limit}' for name, limit in self.to_dict().items())})"

    @property
    def words(self) -> str:
        """ "2 groups, 4 rows in each"."""
        groups, rows = (f"{n} {noun}{'s' if n > 1 else ''}" for n, noun in ((self.groups, "group"), (self.rows, "row")))
        if self.total is None:
            return f"{groups}, {rows} in each"
        parts = [groups] if self.groups < self.total else []
        parts += [f"{rows} in each{'' if parts else ' group'}"] if self.rows < self.total else []
        return ", ".join([*parts, f"{self.total} {'rows' if self.total > 1 else 'row'} in all"])

    def to_dict(self) -> dict[str, int]:
        """The limits that are stated."""
        more = {} if self.total is None else {"total": self.total}
        return {"groups": self.groups, "rows": self.rows, **more}


LIMITS = ExampleCall("dn.AtMost", {"groups": 2, "rows": 4})
"""An example of limits, for remedies."""

ONE_ROW = AtMost(groups=1, rows=1)
"""What holds by itself when every row is a unit of its own."""


KEY_PARAMETERS = ("key_1", "key_2")
"""The two 64-bit halves of the hash key; their values are drawn by a session and are not part of the text."""


def draw_key() -> tuple[int, int]:
    """A fresh hash key, from the secure source."""
    first, second = noise.secure().words(2).tolist()
    return int(first), int(second)


MOST_KEPT = 100_000
"""Groups per unit, at most, where they are fewer than the groups in all."""

BUCKETS = 64
"""Intervals of ranks: the bits of a number."""

_FEW_ROWS = 1 << 15
"""Limits of rows up to this one, times the place of a row, fit 64 bits in every table."""

_ALL_ROWS = 1 << 62
"""More rows than any unit has."""


@dataclass(frozen=True)
class Base:
    """The rows that count, as SQL: where they come from, who owns them, and columns for the group and the values."""

    source: str
    person: str | None
    """The unit of a row; None when every row is a unit of its own."""
    group: dict[str, str]
    """The columns that name a row's group, by name."""
    values: tuple[str, ...]
    """What is read of a row; the columns are called v1, v2, …"""
    joins: tuple[str, ...]
    conditions: tuple[str, ...]
    kinds: Mapping[str, ColumnKind] = field(default_factory=dict)
    """What the columns of unit, group and values hold, by name."""
    outside: str = ""
    """That a row has a value for which its unit is left out (`allowance`): then 1 in a column `o`, else 0."""

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the columns that name a group."""
        return tuple(self.group)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of values."""
        return tuple(f"v{i}" for i in range(1, len(self.values) + 1))

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns of unit, group and values."""
        return ("u", *self.by, *self.names)

    @property
    def step(self) -> str:
        """The rows as the step `base`."""
        return f"base AS NOT MATERIALIZED (\n{self.select()}\n)"

    def select(self, *, person: str | None = None, join: str = "", condition: str = "", margin: str = "  ") -> str:
        """The rows, with their unit or what stands for it, joined and filtered once more. Every part gets its margin
        before it is put in: a line break within a text is the analyst's."""
        columns = {} if self.person is None else {"u": person or self.person}
        columns |= self.group | dict(zip(self.names, self.values, strict=True))
        columns |= {"o": f"CASE WHEN {self.outside} THEN 1 ELSE 0 END"} if self.outside else {}
        listed = f",\n{margin}  ".join(f"{sql} AS {name}" for name, sql in columns.items())
        lines = [f"SELECT {listed}", f"FROM {self.source}", *self.joins]
        lines += [join] if join else []
        conditions = [*self.conditions, condition] if condition else self.conditions
        lines += ["WHERE " + f"\n{margin}  AND ".join(conditions)] if conditions else []
        return "\n".join(margin + line for line in lines)


def counted(base: Base, *, limits: AtMost, groups: int | None, units: bool) -> list[str]:
    """The steps up to `counted`: n, m1, s1, … per unit and group that stay. Without `units`, units that need no choice
    may be added up."""
    steps = _shares(base, limits=limits, groups=groups, merged=not units, sums=True)
    by, parts = ", ".join(base.by), "".join(f", m{i}, s{i}" for i in range(1, len(base.values) + 1))
    if not base.values:
        # All rows of a unit and group are alike: counting the first R is the choice.
        n = f"CASE WHEN u IS NULL THEN n ELSE LEAST(n, {limits.rows}) END AS n"
        return [*steps, f"counted AS (\n  SELECT {by}, {n} FROM kept\n)"]
    return [
        *steps,
        _number_rows(base, limits=limits),
        f"counted AS (\n  SELECT {by}, n{parts} FROM kept WHERE u IS NULL OR n <= {limits.rows}\n  UNION ALL\n"
        f"  SELECT {by}, COUNT(*) AS n{summed(base)} FROM placed\n"
        f"  WHERE {_stays(base, limits=limits)} GROUP BY u, {by}\n)",
    ]


def rows(base: Base, *, limits: AtMost, groups: int | None) -> list[str]:
    """The steps up to `rows`: the rows that stay, with their unit, group and values."""
    listed, stays = ", ".join(base.columns), _stays(base, limits=limits)
    if not few_groups(limits, groups):
        number = f"COUNT(*) OVER (PARTITION BY u, {', '.join(base.by)}) AS n"
        return [
            base.step,
            f"placed AS (\n  SELECT {listed}, {number}, {_place(base)}\n  FROM base\n)",
            f"rows AS MATERIALIZED (\n  SELECT {listed} FROM placed WHERE n <= {limits.rows} OR {stays}\n)",
        ]
    own = ", ".join(f"base.{column}" for column in base.columns)
    return [
        *_shares(base, limits=limits, groups=groups, merged=False, sums=False),
        _number_rows(base, limits=limits),
        f"rows AS MATERIALIZED (\n  SELECT {own} FROM base JOIN kept ON {same(base)} AND kept.n <= {limits.rows}\n"
        f"  UNION ALL\n  SELECT {listed} FROM placed WHERE {stays}\n)",
    ]


def _shares(base: Base, *, limits: AtMost, groups: int | None, merged: bool, sums: bool) -> list[str]:
    """The steps up to `kept`, with n and, if asked for, the sums."""
    by, most = ", ".join(base.by), limits.groups
    parts = summed(base) if sums else ""
    few = few_groups(limits, groups)
    if few and most > MOST_KEPT:
        raise NotSupported(f"per_unit keeps {most} groups; at most {MOST_KEPT} are supported, or all of them")
    sifted = few and most < BUCKETS
    steps, source = [base.step], "base"
    if sifted or merged:
        found = marks(base.by, limits=limits, groups=groups)
        bits = f"BIT_OR({_bit('u', base.by)}) AS bits"
        columns = [*([found.columns] if merged else []), *([bits] if sifted else [])]
        needed = found.beyond if merged else f"BIT_COUNT(bits) > {most}"
        steps.append(f"people AS (\n  SELECT u, {', '.join(columns)} FROM base GROUP BY u\n)")
        steps.append(f"busy AS (\n  SELECT u{', bits' if sifted else ''} FROM people WHERE {needed}\n)")
        before = f"BIT_COUNT(busy.bits & ({_bit(str(base.person), list(base.group.values()))} - 1))"
        source = base.select(
            person="busy.u" if merged else None,
            join=f"LEFT JOIN busy ON busy.u = {base.person}",
            condition=f"(busy.u IS NULL OR {before} < {most})" if sifted else "",
            margin="    ",
        )
        source = f"(\n{source}\n  )"
    share = f"  SELECT u, {by}, COUNT(*) AS n{parts}\n  FROM {source} GROUP BY u, {by}"
    if not few:
        return [*steps, f"kept AS MATERIALIZED (\n{share}\n)"]
    steps.append(f"shares AS MATERIALIZED (\n{share}\n)")
    steps.append(f"crowd AS (\n  SELECT u FROM shares WHERE u IS NOT NULL GROUP BY u HAVING COUNT(*) > {most}\n)")
    edge = f"MIN({_mixed('u', base.by)}, {most + 1})[{most + 1}] AS edge"
    steps.append(f"last AS (\n  SELECT u, {edge} FROM shares SEMI JOIN crowd USING (u) GROUP BY u\n)")
    steps.append(
        "kept AS (\n  SELECT shares.* FROM shares LEFT JOIN last ON shares.u = last.u\n"
        f"  WHERE edge IS NULL OR {_mixed('shares.u', base.by)} < edge\n)"
    )
    return steps


def _number_rows(base: Base, *, limits: AtMost) -> str:
    """The rows of units and groups with more than R of them: n, and the place of each in the order of values."""
    own = ", ".join(f"base.{column}" for column in base.columns)
    joined = f"SELECT {own}, kept.n FROM base JOIN kept ON {same(base)} AND kept.n > {limits.rows}"
    return f"placed AS (\n  SELECT *, {_place(base)}\n  FROM ({joined})\n)"


def _place(base: Base) -> str:
    """The place of a row in the order of values, within its unit and group."""
    owner, order = ", ".join(["u", *base.by]), ", ".join(base.names)
    return f"ROW_NUMBER() OVER (PARTITION BY {owner}{f' ORDER BY {order}' if order else ''}) - 1 AS place"


def _stays(base: Base, *, limits: AtMost) -> str:
    """That a row of `placed` is one of the R that stay."""
    shift = f"CAST({_mixed('u', [*base.by, 'n'])} % CAST(n AS UBIGINT) AS BIGINT)"
    rows = min(limits.rows, _ALL_ROWS)
    place = "place" if rows <= _FEW_ROWS else "CAST(place AS HUGEINT)"
    return f"({place} * {rows} + {shift}) % n < {rows}"


def same(base: Base) -> str:
    """That a row of `base` is of the unit and group of `kept`."""
    return " AND ".join(f"base.{column} = kept.{column}" for column in ("u", *base.by))


def summed(base: Base) -> str:
    """The number and the sum of every value, as columns."""
    return "".join(f", COUNT(v{i}) AS m{i}, SUM(v{i}) AS s{i}" for i in range(1, len(base.values) + 1))


def _bit(unit: str, content: Sequence[str]) -> str:
    """The interval of a rank, as one bit: its first six binary digits say which."""
    return f"(1::UBIGINT << ({_mixed(unit, content)} >> 58))"


def _mixed(unit: str, content: Sequence[str]) -> str:
    """A hash of the unit and some content. DuckDB's HASH of one 64-bit number mixes all of its bits, and mixes them
    again after each half of the key came in, so the choices of two units, and of two queries, look independent."""
    inner = f"HASH(XOR(HASH({unit}), ${KEY_PARAMETERS[0]}::UBIGINT))"
    return f"HASH(XOR({inner}, XOR(HASH({', '.join(content)}), ${KEY_PARAMETERS[1]}::UBIGINT)))"


_LARGEST = "9.0e18"
"""Within what fits 64 bits."""


def portable_counts(base: Base, *, limits: AtMost, groups: int | None) -> list[str]:
    """The steps up to `counted`, where no values are read: the number n of rows per unit and group that stay. All rows
    of a unit and group are alike, so counting the first R is the choice."""
    by = ", ".join(base.by)
    steps = [base.step, f"shares AS (\n  SELECT u, {by}, COUNT(*) AS n FROM base GROUP BY u, {by}\n)"]
    source = "shares"
    if few_groups(limits, groups):
        steps.append(f"ranked AS (\n  SELECT u, {by}, n, {_place_of_group(base)} FROM shares\n)")
        source = f"ranked WHERE place <= {limits.groups}"
    return [*steps, f"counted AS (\n  SELECT u, {by}, LEAST(n, {limits.rows}) AS n FROM {source}\n)"]


def portable_rows(base: Base, *, limits: AtMost, groups: int | None, source: str = "base") -> list[str]:
    """The steps from `source` up to `rows`: the rows that stay, with their unit, group, values, and place within unit
    and group."""
    return _ranked_rows(base, lambda content: _rank(base, content), limits=limits, groups=groups, source=source)


def total_rows(base: Base, *, limits: AtMost, groups: int | None, source: str = "base") -> list[str]:
    """The same with DuckDB's own hash, for limits on all rows of a unit."""
    return _ranked_rows(base, lambda content: _mixed("u", content), limits=limits, groups=groups, source=source)


def _ranked_rows(
    base: Base, rank_of: Callable[[Sequence[str]], str], *, limits: AtMost, groups: int | None, source: str
) -> list[str]:
    """The steps of `portable_rows`, by any hash of a row's unit and some content."""
    columns, owner = ", ".join(base.columns), ", ".join(["u", *base.by])
    steps, by = [base.step] if source == "base" else [], ", ".join(base.by)
    if few_groups(limits, groups):
        place = f"DENSE_RANK() OVER (PARTITION BY u ORDER BY {rank_of(base.by)}, {by}) AS place"
        steps.append(f"ranked AS (\n  SELECT {columns}, {place} FROM {source}\n)")
        steps.append(f"chosen AS (\n  SELECT {columns} FROM ranked WHERE place <= {limits.groups}\n)")
        source = "chosen"
    copy = f"ROW_NUMBER() OVER (PARTITION BY {columns}) AS copy"
    number = f"COUNT(*) OVER (PARTITION BY {owner}) AS n"
    rank = rank_of([*base.by, *base.names, "copy"])
    if limits.total is None:  # else the order of a group's rows says which of them come before other groups' rows
        rank = f"CASE WHEN n > {limits.rows} THEN {rank} END"
    place = f"ROW_NUMBER() OVER (PARTITION BY {owner} ORDER BY {', '.join([rank, *base.names, 'copy'])}) AS place"
    steps += [
        f"copies AS (\n  SELECT {columns}, {copy}, {number} FROM {source}\n)",
        f"placed AS (\n  SELECT {columns}, {place} FROM copies\n)",
    ]
    if limits.total is None:
        return [*steps, f"rows AS (\n  SELECT {columns}, place FROM placed WHERE place <= {limits.rows}\n)"]
    turn = f"ROW_NUMBER() OVER (PARTITION BY u ORDER BY place, {rank_of(base.by)}, {by}) AS turn"
    return [
        *steps,
        f"turns AS (\n  SELECT {columns}, place, {turn} FROM placed WHERE place <= {limits.rows}\n)",
        f"rows AS (\n  SELECT {columns}, place FROM turns WHERE turn <= {limits.total}\n)",
    ]


def few_groups(limits: AtMost, groups: int | None) -> bool:
    """Whether a unit may have more groups than it keeps."""
    return groups is None or limits.groups < groups


def _place_of_group(base: Base) -> str:
    """The place of a row's group among those of its unit."""
    return f"DENSE_RANK() OVER (PARTITION BY u ORDER BY {_rank(base, base.by)}, {', '.join(base.by)}) AS place"


def _rank(base: Base, content: Sequence[str]) -> str:
    """The hash of a unit and some content, under the key."""
    kinds = {"copy": ColumnKind.INTEGER, **base.kinds}
    key = [f"CAST(${parameter} AS VARCHAR)" for parameter in KEY_PARAMETERS]
    texts = [f"COALESCE({spelled(name, kinds[name])}, '')" for name in ("u", *content)]
    return "MD5(" + " || '|' || ".join([*key, *texts]) + ")"


def spelled(sql: str, kind: ColumnKind) -> str:
    """A value as text, letter by letter the same on every engine.

    A number with decimals becomes two whole ones, below 2⁶³ each, by operations that IEEE 754 fixes to the last bit; a
    time becomes its microseconds since 1970, within the years 1 to 9999.
    """
    if kind in (ColumnKind.TEXT, ColumnKind.UNTYPED):
        return sql
    if kind is ColumnKind.REAL:
        near = f"LEAST(GREATEST(TRY_CAST({sql} AS DOUBLE), -{_LARGEST}), {_LARGEST})"
        whole = f"TRY_CAST({near} AS BIGINT)"
        rest = f"TRY_CAST(({near} - TRY_CAST({whole} AS DOUBLE)) * 4503599627370496.0e0 AS BIGINT)"
        return f"CAST({whole} AS VARCHAR) || ';' || CAST({rest} AS VARCHAR)"
    if kind in (ColumnKind.DATE, ColumnKind.TIMESTAMP):
        return f"CAST(EPOCH_US({calendar(f'TRY_CAST({sql} AS TIMESTAMP)')}) AS VARCHAR)"
    return f"CAST({sql} AS VARCHAR)"


PEEK = 1 << 18
"""Rows that are looked at before all are."""

_EXACT = 1 << 53


@dataclass(frozen=True)
class Shortcut:
    """SQL around the bounded SQL."""

    peek: str
    """Of the first rows: how many units are not surely within their limits, and how many rows these were."""
    check: str
    """Of all rows: how many units are not surely within their limits."""
    plain: str
    """The totals, with the same columns as the bounded SQL, if nobody is beyond."""


class Marks(NamedTuple):
    """What is computed of every unit's rows, and the condition under which it is not surely within its limits."""

    columns: str
    beyond: str


def shortcut(base: str, by: Sequence[str], plain: str, *, limits: AtMost, groups: int) -> Shortcut:
    """The shortcut of a bounded query over the rows of the step `base`."""
    found = marks(by, limits=limits, groups=groups)

    def look(rows: str, *, unit: str = "u", more: str = "", counted: str = "") -> str:
        people = f"people AS (\n  SELECT {found.columns}{more} FROM {rows} GROUP BY {unit}\n)"
        return f"WITH {base},\n{people}\nSELECT COUNT(*) FILTER ({found.beyond}){counted} FROM people"

    # By a hash, because an array for all units would take longer than these rows. Two units with one hash can only look
    # like one that is beyond.
    peek = look(f"(SELECT * FROM base LIMIT {PEEK})", unit="HASH(u)", more=", COUNT(*) AS c", counted=", SUM(c)")
    return Shortcut(peek, look("base"), plain)


def marks(by: Sequence[str], *, limits: AtMost, groups: int | None) -> Marks:
    """How a unit's rows are summed up; `groups` is None when their number is private."""
    rows, most = limits.rows, limits.groups
    if groups is not None and most >= groups:
        return Marks("COUNT(*) AS n", f"n > {rows}")
    if groups is not None and len(by) == 1 and (packed := _packed(by[0], rows, most, groups)) is not None:
        return packed
    one = " AND ".join(f"MIN({column}) = MAX({column})" for column in by)
    return Marks(f"COUNT(*) AS n, {one} AS one", f"n > {rows} OR (n > {most} AND NOT one)")


def _packed(g: str, rows: int, most: int, groups: int) -> Marks | None:
    """n, Σg and Σg² as digits of one sum; None where they do not fit. `g` is a number from 0 to groups - 1."""
    squares = (rows * (groups - 1) ** 2).bit_length()
    sums = (rows * (groups - 1)).bit_length()
    first = squares + sums
    if (rows + 1) << first > _EXACT:
        return None
    whole = "TRY_CAST(mark AS BIGINT)"
    n, total = f"({whole} >> {first})", f"({whole} >> {squares} & {(1 << sums) - 1})"
    one = f"{n} * ({whole} & {(1 << squares) - 1}) = {total} * {total}"
    return Marks(
        f"SUM(CAST({1 << first} + ({g} << {squares}) + {g} * {g} AS DOUBLE)) AS mark",
        f"mark >= {(rows + 1) << first} OR (mark >= {(most + 1) << first} AND NOT {one})",
    )
