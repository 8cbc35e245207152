"""A session: tables, and the ledger that is charged for every answer about them.

>>> import tempfile, pathlib, deniable as dn
>>> folder = pathlib.Path(tempfile.mkdtemp())
>>> _ = (folder / "visits.csv").write_text("patient_id,city,cost\\n1,Bern,120\\n1,Bern,80\\n2,Basel,300\\n")
>>> _ = dn.Ledger.create(folder / "hospital.ledger", unit="patient_id", budget=dn.PureDP(3))
>>> session = dn.Session(folder / "visits.csv", ledger=folder / "hospital.ledger")
>>> plan = session.plan(
...     "SELECT city, AVG(cost) AS cost FROM visits GROUP BY city",
...     epsilon=0.5, bounds={"cost": (0, 5000)}, keys={"city": ["Bern", "Basel"]}, per_unit=dn.AtMost(groups=2, rows=4),
... )
>>> print(plan.cost)
ε ≤ 0.50, δ = 0, one patient added or removed
>>> release = plan.run()
>>> list(release.columns)
['city', 'cost', 'cost_low', 'cost_high']
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from deniable._checks import Number
from deniable.errors import DataError, InvalidArgument
from deniable.ledger import Ledger
from deniable.query.engines import DuckDB
from deniable.query.limits import AtMost
from deniable.query.planning import QueryPlan, plan
from deniable.query.release import Release
from deniable.query.schema import Kind, Table, listed
from deniable.units import Unit


class Session:
    """Private questions over tables, each charged to one ledger.

    `data` is a path to a CSV or Parquet file, whose table is named by the file's stem, or a mapping from table names
    to paths or to pandas, Polars or Arrow tables. `ledger` is a path or a `Ledger`; it says who is protected. `who`
    is the analyst in whose name charges are made. Opening reads column names and types, no rows.
    """

    def __init__(self, data: Any, *, ledger: Ledger | str | os.PathLike[str], who: str | None = None) -> None:
        named = _named(data)
        self.ledger, self.who = Ledger.of(ledger), who
        self._engine = DuckDB()
        try:
            self._tables = tuple(self._engine.add(name, given) for name, given in named.items())
            for table in self._tables:
                _check_unit(table, self.ledger.unit)
        except DataError:
            self._engine.close()
            raise

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that queries may name, with their columns."""
        return self._tables

    def plan(
        self,
        sql: str,
        *,
        epsilon: Number,
        bounds: Mapping[str, Sequence[Number]] | None = None,
        keys: Mapping[str, object] | None = None,
        per_unit: AtMost | None = None,
        weights: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
    ) -> QueryPlan:
        """Plan a query; free, reads no rows.

        Args:
            sql: SELECT keys, COUNT(*), COUNT(c), SUM(c), AVG(c) FROM one table, with WHERE and GROUP BY.
            epsilon: the cost of the whole query, divided over its aggregates.
            bounds: per column that is summed or averaged, (low, high) or (low, high, step); values are clamped.
            keys: per column of GROUP BY, the list of keys to release; rows with others are left out.
            per_unit: how much of one unit counts; needed when the ledger protects people by an id column.
            weights: per aggregate, by name, its part of epsilon relative to the others.
            confidence: of each interval.
        """
        return plan(
            sql,
            tables=self._tables,
            engine=self._engine,
            ledger=self.ledger,
            who=self.who,
            epsilon=epsilon,
            bounds=bounds,
            keys=keys,
            per_unit=per_unit,
            weights=weights,
            confidence=confidence,
        )

    def sql(
        self,
        sql: str,
        *,
        epsilon: Number,
        bounds: Mapping[str, Sequence[Number]] | None = None,
        keys: Mapping[str, object] | None = None,
        per_unit: AtMost | None = None,
        weights: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
    ) -> Release:
        """Plan a query and run it; the arguments are those of `plan`."""
        planned = self.plan(
            sql, epsilon=epsilon, bounds=bounds, keys=keys, per_unit=per_unit, weights=weights, confidence=confidence
        )
        return planned.run()

    def close(self) -> None:
        """Let go of the tables and their temporary files; the ledger keeps its record."""
        self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({', '.join(table.name for table in self._tables)}; {self.ledger.unit.one})"


def _named(data: Any) -> dict[str, Any]:
    """Tables by name."""
    if isinstance(data, str | os.PathLike):
        return {Path(data).stem: data}
    if isinstance(data, Mapping) and data:
        for name in data:
            if not isinstance(name, str) or not name:
                raise InvalidArgument("data", name, "a mapping from table names to tables")
        folded = {name.casefold() for name in data}
        if len(folded) < len(data):
            raise InvalidArgument("data", tuple(data), "tables whose names differ by more than case")
        return dict(data)
    raise DataError(
        f"data must be a path or a mapping from table names to tables; got a {type(data).__name__}; "
        "name a frame by writing {'visits': frame}"
    )


def _check_unit(table: Table, unit: Unit) -> None:
    """A table must say who each of its rows is about."""
    if unit.column is None:
        return
    if not table.has(unit.column):
        raise DataError(
            f"the ledger protects one {unit.noun} by the column {unit.column}, which table {table.name} does not have; "
            f"its columns are {listed(table.names)}"
        )
    column = table.find(unit.column)
    if column.kind is Kind.OTHER:
        raise DataError(
            f"column {column.name} of table {table.name} cannot say who is who: it is of type {column.type}"
        )
