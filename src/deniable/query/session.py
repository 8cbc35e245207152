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
from copy import copy
from dataclasses import replace
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from deniable._checks import Number, type_of
from deniable._remedies import MORE, Option, Remedy
from deniable._signatures import public
from deniable.errors import DataError, InvalidArgument
from deniable.guarantees import Guarantee
from deniable.ledger import Ledger
from deniable.ledger.records import check_who
from deniable.query.choice import AtMost, draw_key
from deniable.query.describing import TableDescription, describe
from deniable.query.engines import opening
from deniable.query.engines.base import EngineLimits
from deniable.query.engines.files import Files
from deniable.query.planning import PlanningContext
from deniable.query.release import Release
from deniable.query.schema import ColumnKind, Table, listed
from deniable.query.staging import Plan, plan_query
from deniable.units import Unit


class Session:
    """Private questions over tables, each charged to one ledger.

    Opening reads column names and types, and no rows but of CSV files, which are checked and copied, and of what the
    types of a Parquet file leave open (docs/inputs.md). Public tables are copied.

    Args:
        data: a CSV or Parquet file, a folder or a pattern of such files, a DuckDB file or connection for all of its
            tables; or a mapping from table names to any of these, to lists of files, or to pandas, Polars or Arrow
            tables. Tables of PostgreSQL (a URL, or a psycopg connection), of Spark (a DataFrame, `spark:table`, or a
            session by the table's name) and of Ibis are asked where they are (docs/engines.md). A file names its table,
            several files are named by their folder.
        ledger: a path or a `Ledger`; it says who is protected.
        public: tables that are about nobody (districts, price lists), which queries may join.
        who: the analyst in whose name charges are made.
        choice_key: a number below 2¹²⁸ that fixes which rows of a unit stay where its limits leave some out: they are
            then the same in every query and on every engine, and what is promised is the same. Without it every session
            draws one. Noise is fresh in either case.
        encoding: how the text of CSV files is written, such as "cp1252"; UTF-8 if not given.
        steady: run the same statements whatever the rows are. Queries take longer, and the time that they take tells
            less: without it, one person beyond a limit can be seen by a clock. Tables in PostgreSQL and Spark are
            always asked in this way.
        memory: the most memory that DuckDB takes, such as "2GB"; four fifths of the machine's, if not given.
        threads: of DuckDB; as many as the machine has cores, if not given.
        seconds: how long one statement may run. Past it, the charge stands and nothing is released. That tells how long
            the rows took, so let it be many times what the table needs (docs/sharp-edges.md).
    """

    @public
    def __init__(
        self,
        data: Any,
        *,
        ledger: Ledger | str | os.PathLike[str],
        public: Any = None,
        who: str | None = None,
        choice_key: int | None = None,
        encoding: str | None = None,
        steady: bool = False,
        memory: str | None = None,
        threads: int | None = None,
        seconds: Number | None = None,
    ) -> None:
        limits = EngineLimits.of(memory=memory, threads=threads, seconds=seconds)
        nobody = public is None or (isinstance(public, Mapping) and not public)
        named, known = _named(data, encoding), {} if nobody else _named(public, encoding)
        _check_encoding(encoding, [*named.values(), *known.values()])
        _check_names([*named, *known])
        self.ledger, self.who = Ledger.of(ledger), who
        self._key, self._key_fixed = (draw_key(), False) if choice_key is None else (_halves(choice_key), True)
        self._shared, self._envelopes = False, tuple[str, ...]()
        self._engine = opening.opened(
            named.values(), known.values(), alike=self._key_fixed, steady=bool(steady), limits=limits
        )
        try:
            unit = self.ledger.unit.column
            private = tuple(self._engine.add(name, given, unit=unit) for name, given in named.items())
            for table in private:
                _check_unit(table, self.ledger.unit)
            private = tuple(replace(table, owner=unit) for table in private)
            others = (self._engine.add(name, given, public=True) for name, given in known.items())
            self._tables = (*private, *others)
        except BaseException:
            self._engine.close()
            raise

    @property
    def tables(self) -> tuple[Table, ...]:
        """The tables that queries may name, with their columns."""
        return self._tables

    @public
    def plan(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        cost: Guarantee | None = None,
        error: Number | Mapping[str, Number] | None = None,
        group_size: int | None = None,
        bounds: Mapping[str, Sequence[Number] | str] | str | None = None,
        keys: Mapping[str, object] | None = None,
        per_unit: AtMost | str | None = None,
        weights: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
        cover: Number | None = None,
        leave_out: bool = False,
        diagnose: Number | None = None,
        delta: Number | None = None,
        noise: str | None = None,
    ) -> Plan:
        """Plan a query; free, reads no rows.

        Args:
            sql: SELECT keys and aggregates FROM a table, as docs/query.md lists; anything else is refused by name.
            epsilon: the cost of the whole query, divided over its parts. Give this, `cost` or `error`.
            cost: the cost as a guarantee: `dn.ZCDP(0.01)`, `dn.ApproxDP(1, 1e-8)` or `dn.PureDP(1)`.
            error: how far off each value may be, at `confidence`; one number, or one per aggregate. The smallest ε that
                gives it is found, to four digits per aggregate.
            group_size: with `error`, the smallest group in which an average must keep it.
            bounds: per column that is added up, (low, high) or (low, high, step). Values are clamped. Bounds that are
                left out, or called "private", are found privately with a part of ε.
            keys: per column of GROUP BY, the list of keys to release; rows with others are left out.
            per_unit: how much of one unit counts, where the ledger protects people by an id column. If it is left out,
                or "private", it is found privately with a part of ε.
            weights: per aggregate, by name, its part of epsilon relative to the others.
            confidence: of each interval.
            cover: the share of ε that counts the units beyond limits and bounds, so that intervals cover what these
                leave out; 0.1, or 0.16 where some are found. With 0 intervals cover the noise alone.
            leave_out: leave units beyond stated limits and bounds out, with all of their rows, as is done with those
                beyond limits and bounds that are found. Intervals are then those of the noise.
            diagnose: the share of ε that is spent on saying how many rows were clamped and left out.
            delta: the δ of Gaussian noise and of keys that are found in the data; a hundredth of what the ledger has
                left, if not given.
            noise: "laplace" or "gaussian"; the one with the smaller error, if not given.
        """
        return plan_query(
            sql, self.context, epsilon=epsilon, cost=cost, error=error, group_size=group_size, bounds=bounds, keys=keys,
            per_unit=per_unit, weights=weights, confidence=confidence, cover=cover,
            leave_out=leave_out, diagnose=diagnose, delta=delta, noise=noise,
        )  # fmt: skip

    @public
    def sql(
        self,
        sql: str,
        *,
        epsilon: Number | None = None,
        cost: Guarantee | None = None,
        error: Number | Mapping[str, Number] | None = None,
        group_size: int | None = None,
        bounds: Mapping[str, Sequence[Number] | str] | str | None = None,
        keys: Mapping[str, object] | None = None,
        per_unit: AtMost | str | None = None,
        weights: Mapping[str, Number] | None = None,
        confidence: Number = 0.95,
        cover: Number | None = None,
        leave_out: bool = False,
        diagnose: Number | None = None,
        delta: Number | None = None,
        noise: str | None = None,
    ) -> Release:
        """Plan a query and run it; the arguments are those of `plan`."""
        return self.plan(
            sql, epsilon=epsilon, cost=cost, error=error, group_size=group_size, bounds=bounds, keys=keys,
            per_unit=per_unit, weights=weights, confidence=confidence, cover=cover,
            leave_out=leave_out, diagnose=diagnose, delta=delta, noise=noise,
        ).run()  # fmt: skip

    @public
    def describe(self, table: str, *, epsilon: Number) -> TableDescription:
        """Survey one table, for ε: people, rows, rows per person, missing values, ranges of numbers, and the error that
        a count would have under limits of rows. Charges the ledger, and reads the table.

        Args:
            table: the name of a private table.
            epsilon: the cost of the whole survey.
        """
        return describe(table, self.context, epsilon=epsilon)

    @public
    def marginals(
        self,
        table: str,
        marginals: Any,
        *,
        columns: Mapping[str, Any],
        epsilon: Number,
        delta: Number | None = None,
        per_unit: AtMost | None = None,
        confidence: Number = 0.95,
    ) -> Any:
        """Plan tables of counts that agree with one another; free, reads no rows. `run` gives a `MarginalsRelease`.

        Args:
            table: a table's name, or SELECT columns FROM a table WHERE a condition.
            marginals: a list of columns and of tuples of columns, one for each table of counts; or a number of ways.
            columns: per column its categories (a list) or its bins (`dn.synthesis.ColumnBins`, or a range of whole
                numbers).
            epsilon: the ε of the whole release.
            delta: the δ at which ε holds; the ledger's, if not given.
            per_unit: how many rows of one unit count; needed when the ledger protects people by an id column.
            confidence: of each interval.
        """
        return _synthesis("marginals").plan_marginals(
            self.context, table, marginals, columns=columns, epsilon=epsilon, delta=delta, per_unit=per_unit,
            confidence=confidence,
        )  # fmt: skip

    @public
    def synthesize(
        self,
        table: str,
        *,
        columns: Mapping[str, Any],
        epsilon: Number,
        delta: Number | None = None,
        per_unit: AtMost | str | None = None,
        workload: Any = None,
        method: str | None = None,
        zeros: Any = None,
        rows: int | None = None,
        check: Number = 0.03,
        confidence: Number = 0.95,
    ) -> Any:
        """Plan a synthetic table; free, reads no rows. `run` gives a `SyntheticTable`.

        Args:
            table: a table's name, or SELECT columns FROM a table WHERE a condition.
            columns: per column its categories (a list) or its bins (`dn.synthesis.ColumnBins`, or a range of whole
                numbers); "private" finds them with a tenth of ε and a hundredth of δ.
            epsilon: the ε of the whole release.
            delta: the δ at which ε holds; the ledger's, if not given.
            per_unit: how many rows of one unit count; needed when the ledger protects people by an id column. "private"
                finds it, with a part of what domains are found with.
            workload: which marginals should be good: a list of tuples of columns, or a number of ways; all pairs.
            method: "aim" chooses in rounds, "mst" measures a spanning tree of pairs; chosen by the width if left out.
            zeros: combinations that cannot occur: a list of mappings from column to a value or values.
            rows: how many rows to draw; the noisy number of rows, if not given.
            check: the share of the budget for the check of the finished table, which its errors are known by.
            confidence: of each statement about the error.
        """
        return _synthesis("plan").plan_synthesis(
            self.context, table, columns=columns, epsilon=epsilon, delta=delta, per_unit=per_unit, workload=workload,
            method=method, zeros=zeros, rows=rows, check=check, confidence=confidence,
        )  # fmt: skip

    def as_(self, who: str | None, *, envelopes: Sequence[str] = ()) -> Session:
        """The same tables and ledger, asked by another analyst. Closing it leaves the tables open.

        Args:
            who: the analyst in whose name charges are made.
            envelopes: the ledger's envelopes that charges must fit as well (`Ledger.open_envelope`).
        """
        if who is not None:
            check_who(who)
        other = copy(self)
        other.who, other._envelopes, other._shared = who, tuple(envelopes), True
        other._key = self._key if self._key_fixed else draw_key()
        return other

    @property
    def context(self) -> PlanningContext:
        """What all plans of this session share."""
        return PlanningContext(self._tables, self._engine, self.ledger, self.who, self._key, self._envelopes)

    def close(self) -> None:
        """Let go of the tables and their temporary files; the ledger keeps its record."""
        if not self._shared:
            self._engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Session({', '.join(table.name for table in self._tables)}; {self.ledger.unit.one})"


def _synthesis(module: str) -> Any:
    """A module of the room `synthesis`, which is above this one: opened by name, when a caller asks for it."""
    return import_module(f"deniable.synthesis.{module}")


def _named(data: Any, encoding: str | None) -> dict[str, Any]:
    """Tables by name."""
    data = opening.expanded(data, encoding=encoding)
    if isinstance(data, Mapping) and data:
        for name in data:
            if not isinstance(name, str) or not name:
                raise InvalidArgument("data", name, "a mapping from table names to tables")
        return dict(data)
    raise DataError(
        f"data must be a path or a mapping from table names to tables; got {type_of(data)}; "
        "name a frame by writing {'visits': frame}"
    )


def _check_encoding(encoding: str | None, tables: Sequence[Any]) -> None:
    if encoding is not None and not any(isinstance(given, Files) and given.csv for given in tables):
        raise InvalidArgument("encoding", encoding, "left out where no table is a CSV file", "It is for CSV files.")


def _halves(key: int) -> tuple[int, int]:
    """A key of 128 bits as two of 64."""
    if isinstance(key, bool) or not isinstance(key, int) or not 0 <= key < 1 << 128:
        raise InvalidArgument("choice_key", key, "a whole number from 0 to 2¹²⁸ − 1", "For example choice_key=7.")
    return key >> 64, key & (1 << 64) - 1


def _check_names(names: Sequence[str]) -> None:
    if len({name.casefold() for name in names}) < len(names):
        raise InvalidArgument("data", tuple(names), "tables whose names differ by more than case")


def _check_unit(table: Table, unit: Unit) -> None:
    """A table must say who each of its rows is about."""
    if unit.column is None:
        return
    if not table.has(unit.column):
        # The first line of a CSV file may be somebody's row.
        untyped = all(column.kind is ColumnKind.UNTYPED for column in table.columns)
        there = "its first line names the columns" if untyped else f"its columns are {listed(table.names)}"
        public_table = Option("public", {table.name: MORE})
        raise DataError(
            Remedy(
                f"the ledger protects one {unit.noun} by the column {unit.column}, which table {table.name} does not "
                f"have; {there}; if it is about nobody, give it as {public_table}",
                public_table,
            )
        )
    column = table.find(unit.column)
    if column.kind is ColumnKind.OTHER:
        raise DataError(
            f"column {column.name} of table {table.name} cannot say who is who: it is of type {column.type}"
        )
    if column.merged is not None:
        raise DataError(
            f"column {column.name} of table {table.name} cannot say who is who: {column.merged}, so that two ids could "
            "become one; write the ids as whole numbers or as text"
        )
