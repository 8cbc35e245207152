"""`SyntheticTable`: made-up rows that follow a private table, what they were made from, and how far off they are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks, _files
from deniable._checks import shown
from deniable._escapes import printable
from deniable._forms import Plain
from deniable._notebook import Shown
from deniable.descriptions import Description
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.guarantees import ApproxDP, Guarantee
from deniable.noise.source import fresh_numbers
from deniable.query.columnar import Columnar
from deniable.query.explanation import aligned
from deniable.synthesis import sampling
from deniable.synthesis.domain import Domain
from deniable.synthesis.fitting import Measurement, Model, condition, merged
from deniable.synthesis.quality import ErrorStatement, TableCheck, statement
from deniable.synthesis.selection import SpentStep

MOST_ROWS = 20_000_000
"""Rows of a synthetic table, at most."""

NOT_FOR = (
    "single people: no row is a person, and rare combinations are noise",
    "tests and intervals that take its rows for data: they would be too narrow, whatever the number of rows",
    "relations between columns that were not measured: the model has them independent, given the others",
    "values within a bin: they are drawn evenly",
)
"""What a synthetic table should not be used for."""


@dataclass(frozen=True, eq=False)
class SyntheticTable(Columnar, Shown, Plain):
    """Rows that were drawn from a private model; all of it may be published."""

    name: str
    domain: Domain
    codes: NDArray[np.int64] = field(repr=False)
    """The code of every row in every column."""
    model: Model = field(repr=False)
    measurements: tuple[Measurement, ...] = field(repr=False)
    """Every noisy marginal that was measured."""
    check: TableCheck | None = field(repr=False)
    cost: ApproxDP
    event: Event
    steps: tuple[SpentStep, ...] = field(repr=False)
    """What was done within the event, one by one."""
    confidence: Fraction
    remaining: Guarantee
    """What the ledger still allows, after this charge."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """What every row was conditioned on."""

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The rows by column: categories, numbers and dates drawn evenly from their bins, None where missing."""
        random = fresh_numbers()
        return {one.name: one.decode(self.codes[:, place], random) for place, one in enumerate(self.domain.attributes)}

    @property
    def marginals(self) -> dict[tuple[str, ...], Measurement]:
        """The noisy marginals, by columns; those that were measured several times are averaged by their precision.
        Where rare cells were counted together, `groups` says which."""
        return {self.domain.named(one.columns): one for one in merged(self.measurements)}

    def counts(self, *names: str) -> NDArray[np.int64]:
        """A marginal of the rows: how many have each combination of codes, in the order of the domain."""
        from deniable.synthesis.quality import tabulate

        return tabulate(self.codes, self.domain.clique(names), self.domain)

    def error(self, *names: str) -> ErrorStatement:
        """How far the marginal of some columns is from the data, and what that covers."""
        measured = {one.columns: one for one in merged(self.measurements)}
        return statement(self.domain.clique(names), self.domain, self.check, measured, confidence=self.confidence)

    def sample(self, rows: int, *, given: Mapping[str, Any] | None = None) -> SyntheticTable:
        """More rows, or rows in which some columns have given values, from the same model; free. They know no more than
        the model does, and the check of the first table does not speak about them.

        Args:
            rows: how many.
            given: per column the value that all rows have; None for missing.
        """
        many = _rows(rows)
        known = dict(given or {})
        places = {self.domain.clique(name, what="given")[0]: value for name, value in known.items()}
        codes = {place: self.domain.attributes[place].code(value) for place, value in places.items()}
        beliefs: Sequence[NDArray[np.float64]] = self.model.beliefs
        if codes:
            beliefs, probability = condition(self.model.tree, beliefs, codes)
            if not probability:
                raise InvalidArgument("given", known, "values that occur together in the model")
        drawn = sampling.sample(self.model.tree, beliefs, many, random=fresh_numbers())
        return replace(self, codes=drawn, check=None, given=known)

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the rows as a CSV or a Parquet file, by the ending of its name.

        Args:
            path: the file, which ends in .csv or .parquet.
            overwrite: replace a file that is there.
        """
        ending = check_ending(path)
        if ending == ".csv":
            _files.write_text(path, self.to_csv(), overwrite=overwrite)
            return
        table = self.to_arrow()
        from pyarrow import parquet

        with _files.replacing(path, overwrite=overwrite) as beside:
            parquet.write_table(table, beside)

    def page(self) -> str:
        """The quality page: how the table was made, which pairs were measured, how far off it is, what not to use it
        for. HTML, without scripts."""
        from deniable.synthesis.page import page

        return page(self)

    def write_page(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the quality page.

        Args:
            path: the HTML file.
            overwrite: replace a file that is there.
        """
        _files.write_text(path, self.page(), overwrite=overwrite)

    def describe(self) -> Description:
        """The table in public facts, with the curve of what it cost."""
        from deniable.accounting import account

        title = f"synthetic rows of {self.name}"
        return Description(title, self.cost, self.facts, account(self.event, unit=self.cost.unit))

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What belongs to the rows: how they were made, how far off they are, what they are not for."""
        sets = [" × ".join(names) for names in self.marginals if len(names) > 1]
        listed = ", ".join(sets[:8]) + (f" and {len(sets) - 8} more" if len(sets) > 8 else "")
        lines = [
            ("columns", ", ".join(self.domain.names)),
            ("measured", f"every column by itself{'; together: ' + listed if sets else ''}"),
            ("error", self._error),
        ]
        if self.given:
            lines.append(("given", ", ".join(f"{name} = {value}" for name, value in self.given.items())))
        lines += [("not for", text) for text in NOT_FOR]
        return (*lines, ("remaining", self.remaining.figures))

    @property
    def _error(self) -> str:
        if self.check is None:
            return "not checked: only the noise of the measurements is known"
        share, spread = 100 * self.check.mean_share, 100 * self.check.mean_scale / self.check.size
        return (
            f"{share:.3g} % of the rows misplaced in a column or pair on average (± {spread:.2g} at "
            f"{shown(self.confidence * 100)} %), by a paid check that covers noise, model and rounding"
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "rows": len(self),
            "columns": list(self.domain.names),
            "measured": [
                {"columns": list(names), "scale": one.scale, "values": one.values.tolist()}
                for names, one in self.marginals.items()
            ],
            "error": None
            if self.check is None
            else {
                "mean_share": self.check.mean_share,
                "distances": {
                    " × ".join(self.domain.named(clique)): value for clique, value in self.check.distances.items()
                },
                "scale": self.check.scale,
            },
            "confidence": float(self.confidence),
            "cost": self.cost.to_dict(),
            "event": self.event.to_dict(),
            "remaining": self.remaining.to_dict(),
        }

    def __str__(self) -> str:
        first = [[str(column[row]) for column in self.columns.values()] for row in range(min(8, len(self)))]
        lines = aligned([list(self.columns), *first])
        lines += [f"… {len(self)} rows in all"] if len(self) > len(first) else []
        facts = [f"{name}: {printable(text)}" for name, text in (("cost", str(self.cost)), *self.facts)]
        return "\n".join([*(printable(line) for line in lines), "", *facts])

    def __repr__(self) -> str:
        return str(self)  # what a shell shows


def check_ending(path: str | os.PathLike[str]) -> str:
    """The ending of a table's file, .csv or .parquet."""
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in (".csv", ".parquet"):
        raise InvalidArgument("path", os.fspath(path), "a name that ends in .csv or .parquet")
    return ending


def _rows(rows: object) -> int:
    many = _checks.count("rows", rows)
    if many > MOST_ROWS:
        raise InvalidArgument("rows", rows, f"at most {MOST_ROWS}")
    return many


def read_rows(rows: object) -> int | None:
    """How many rows a caller asks for; None for as many as the noisy number says."""
    return None if rows is None else _rows(rows)
