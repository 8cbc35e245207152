"""Which rows of a unit stay: steps of SQL, each computed within one unit, from its own rows and the hash key.

**Groups.** A unit's groups are ranked by a keyed hash of (unit, group). It keeps those below the (K+1)-th smallest
rank, so K at most: ties can only leave fewer.

1. `people`, `busy`: in one pass over the rows, which of 64 equal intervals of ranks each unit has groups in, as the
   bits of a number. The K smallest ranks lie in the first K intervals that are not empty, so rows beyond those are
   left out before anything is grouped by unit and group. That is not a choice yet: what the next steps choose lies
   before. Units that are surely within their limits (see `shortcut`) need no choice, and are added up together, under
   u = NULL.
2. `shares`: per unit and group the number of rows, of values, and the sums.
3. `crowd`, `last`, `kept`: of units that still have more than K groups, those below the (K+1)-th smallest rank.

**Rows.** Of a unit and group with more than R rows, R are chosen by a keyed hash of (unit, group, values, copy): `copy`
numbers the rows that are alike in everything that counts, and ties of the hash are broken by those same numbers.

**Why others do not matter.** Every step but the last addition looks at one unit: at its rows as a multiset, and at the
key. Row order, row ids, numbers of other units' groups and other units' rows occur nowhere. Adding or removing a unit
therefore adds or removes its own share and changes no other share: the premise of `measures`. The hash need not be
strong for that; it decides which rows stay, and the key, fresh for every query, keeps that choice from being the same
one each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from deniable.errors import NotSupported
from deniable.query.limits import AtMost
from deniable.query.schema import ColumnKind
from deniable.query.shortcut import marks

KEY_PARAMETERS = ("key_1", "key_2")
"""The two 64-bit halves of the hash key; their values are drawn at every run and are not part of the text."""

MOST_KEPT = 100_000
"""Groups per unit, at most, where they are fewer than the groups in all."""

BUCKETS = 64
"""Intervals of ranks: the bits of a number."""


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

    @property
    def by(self) -> tuple[str, ...]:
        """The names of the columns that name a group."""
        return tuple(self.group)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns of values."""
        return tuple(f"v{i}" for i in range(1, len(self.values) + 1))

    @property
    def step(self) -> str:
        """The rows as the step `base`."""
        return f"base AS NOT MATERIALIZED (\n{self.select()}\n)"

    def select(self, *, person: str | None = None, join: str = "", condition: str = "", margin: str = "  ") -> str:
        """The rows, with their unit or what stands for it, joined and filtered once more. Every part gets its margin
        before it is put in: a line break within a text is the analyst's."""
        columns = {} if self.person is None else {"u": person or self.person}
        columns |= self.group | dict(zip(self.names, self.values, strict=True))
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
        *_placed(base, limits=limits),
        f"counted AS (\n  SELECT {by}, n{parts} FROM kept WHERE u IS NULL OR n <= {limits.rows}\n  UNION ALL\n"
        f"  SELECT {by}, COUNT(*) AS n{summed(base)} FROM placed WHERE place <= {limits.rows} GROUP BY u, {by}\n)",
    ]


def rows(base: Base, *, limits: AtMost, groups: int | None) -> list[str]:
    """The steps up to `rows`: the rows that stay, with their unit, group and values."""
    steps = _shares(base, limits=limits, groups=groups, merged=False, sums=False)
    columns = ["u", *base.by, *base.names]
    listed, own = ", ".join(columns), ", ".join(f"base.{column}" for column in columns)
    return [
        *steps,
        *_placed(base, limits=limits),
        f"rows AS MATERIALIZED (\n  SELECT {own} FROM base JOIN kept ON {same(base)} AND kept.n <= {limits.rows}\n"
        f"  UNION ALL\n  SELECT {listed} FROM placed WHERE place <= {limits.rows}\n)",
    ]


def _shares(base: Base, *, limits: AtMost, groups: int | None, merged: bool, sums: bool) -> list[str]:
    """The steps up to `kept`, with n and, if asked for, the sums."""
    by, most = ", ".join(base.by), limits.groups
    parts = summed(base) if sums else ""
    few = groups is None or most < groups
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


def _placed(base: Base, *, limits: AtMost) -> list[str]:
    """The rows of units and groups with more than R of them, and the place of each."""
    order = ", ".join([_mixed("u", [*base.by, *base.names, "copy"]), *base.names, "copy"])
    return [
        copies(base, limits=limits),
        f"placed AS (\n  SELECT *, ROW_NUMBER() OVER (PARTITION BY u, {', '.join(base.by)} ORDER BY {order}) AS place\n"
        "  FROM copies\n)",
    ]


def copies(base: Base, *, limits: AtMost) -> str:
    """The rows of units and groups with more than R of them, numbered where they are alike in all that counts."""
    own = ", ".join(f"base.{column}" for column in ("u", *base.by, *base.names))
    return (
        f"copies AS (\n  SELECT {own},\n    ROW_NUMBER() OVER (PARTITION BY {own}) AS copy\n"
        f"  FROM base JOIN kept ON {same(base)} AND kept.n > {limits.rows}\n)"
    )


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
