"""What a unit may own, and SQL that leaves out those who own more.

An `Allowance` is a list of public limits: at most R rows in a group, K groups, T rows in all, and values within bounds.
A unit is *beyond* it if one of its limits is exceeded, or one of its values lies outside of its bounds.

**Left out whole.** Limits and bounds that are found privately leave a unit out if it is beyond them, with all of its
rows. Whether it is depends on its own rows alone, and no other unit's rows are touched. So a unit that is within moves
every measure by what `measures.move` says of those limits; one that is beyond moves none; and where a unit is replaced,
the old and the new one each have a share that is within, or none. The sensitivity is that of a table that is cut to the
same limits. What is computed is then exactly the answer about the table without the units beyond: nothing is cut or
clamped, so an interval for the noise holds that answer, and the number of units beyond is released beside it
(`diagnosis`).

**The SQL.** A unit is summed up by four marks: t rows in all, c rows in its fullest group, k groups, and o, which is 1
if a value is outside. DuckDB finds the units beyond, who are few, and joins the rows against them. The other engines
compute the same numbers by windows over the rows, so that a table is read once. There is no order and no hash: the same
rows stay at every run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deniable.noise import Grid
from deniable.query.grids import grid_index, wider
from deniable.query.schema import Column

_MARKS = {"rows": "c", "groups": "k", "total": "t"}
"""What a unit owns, by the limit of it."""


@dataclass(frozen=True)
class Allowance:
    """Limits of "rows" in a group, of "groups" and of the "total" of rows, and bounds of columns."""

    limits: tuple[tuple[str, int], ...] = ()
    grids: tuple[tuple[Column, Grid], ...] = ()

    @classmethod
    def of(cls, limits: Mapping[str, int], grids: Mapping[Column, Grid], *, groups: int | None) -> Allowance:
        """The allowance without limits that follow from others, where there are this many groups (None if that is
        private)."""
        most = dict(limits)
        if groups == 1 and "rows" in most:
            rows = most.pop("rows")
            most["total"] = min(rows, most.get("total", rows))
        total = most.get("total")
        least = {"rows": [total], "groups": [total, groups], "total": []}
        kept = tuple(
            (name, limit)
            for name, limit in most.items()
            if all(other is None or limit < other for other in least[name])
        )
        return cls(kept, tuple(grids.items()))

    def __bool__(self) -> bool:
        return bool(self.limits or self.grids)

    @property
    def outside(self) -> str:
        """That a row has a value outside of its bounds; empty where there are none. A missing value is inside."""
        return " OR ".join(
            f"{grid_index(column, grid)} <> {grid_index(column, wider(grid))}" for column, grid in self.grids
        )

    @property
    def beyond(self) -> str:
        """That a unit, by its marks, is beyond."""
        limits = [f"{_MARKS[name]} > {most}" for name, most in self.limits]
        return " OR ".join([*limits, *(["o > 0"] if self.grids else [])])

    def people(self, by: Sequence[str]) -> list[str]:
        """The steps from `base`, which has `o` where there are bounds, to `people`: a line of marks for every unit."""
        flag = ", MAX(o) AS o" if self.grids else ""
        if self._by_group:
            return [
                f"shares AS (\n  SELECT u, COUNT(*) AS c{flag} FROM base GROUP BY u, {', '.join(by)}\n)",
                f"people AS (\n  SELECT u, COUNT(*) AS k, MAX(c) AS c, SUM(c) AS t{flag} FROM shares GROUP BY u\n)",
            ]
        return [f"people AS (\n  SELECT u, COUNT(*) AS t{flag} FROM base GROUP BY u\n)"]

    def leave_out(self, by: Sequence[str], columns: Sequence[str], *, name: str, alike: bool) -> list[str]:
        """The steps from `base` to one called `name`: these columns of the rows of all units that are not beyond."""
        listed = ", ".join(columns)
        if not alike:
            own = ", ".join(f"base.{column}" for column in columns)
            return [
                *self.people(by),
                f"beyond AS (\n  SELECT u FROM people WHERE {self.beyond}\n)",
                f"{name} AS NOT MATERIALIZED (\n  SELECT {own} FROM base ANTI JOIN beyond ON base.u = beyond.u\n)",
            ]
        marks = ["COUNT(*) OVER (PARTITION BY u) AS t"]
        marks += ["MAX(o) OVER (PARTITION BY u) AS o"] if self.grids else []
        if not self._by_group:
            steps, source = [], "base"
        else:
            group = ", ".join(by)
            parts = [f"COUNT(*) OVER (PARTITION BY u, {group}) AS n"]
            parts.append(f"DENSE_RANK() OVER (PARTITION BY u ORDER BY {group}) AS place")
            flag = ", o" if self.grids else ""
            steps, source = [f"placed AS (\n  SELECT {listed}{flag}, {', '.join(parts)} FROM base\n)"], "placed"
            marks += ["MAX(n) OVER (PARTITION BY u) AS c", "MAX(place) OVER (PARTITION BY u) AS k"]
        return [
            *steps,
            f"marked AS (\n  SELECT {listed}, {', '.join(marks)} FROM {source}\n)",
            f"{name} AS (\n  SELECT {listed} FROM marked WHERE NOT ({self.beyond})\n)",
        ]

    @property
    def _by_group(self) -> bool:
        """Whether a unit's rows must be counted in each group."""
        return any(limit != "total" for limit, _ in self.limits)
