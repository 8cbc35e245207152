"""The aggregates that can be released privately, one file each.

A new aggregate is a class that says which measures it needs and how it reads its answer off them; it joins by a line in
`build`, and by its SQL name in `reading.FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping

from deniable.errors import QueryError
from deniable.noise import Grid
from deniable.query.aggregates.average import Average
from deniable.query.aggregates.base import Aggregate, Estimate, ExpectedError, Noisy
from deniable.query.aggregates.count import Count
from deniable.query.aggregates.sum import Sum
from deniable.query.measures import Values
from deniable.query.reading import AggregateOutput
from deniable.query.schema import Column

__all__ = ["Aggregate", "Average", "Count", "Estimate", "ExpectedError", "Noisy", "Sum", "build"]


def build(output: AggregateOutput, grids: Mapping[Column, Grid]) -> Aggregate:
    """The aggregate that an output of a query asks for, with the bounds it needs."""
    if output.column is None:
        return Count(output.name, None)
    values = Values(output.column, grids.get(output.column))
    if output.function == "count":
        return Count(output.name, values)
    if values.grid is None:
        raise QueryError(
            f"{output.text} needs bounds for {output.column.name}: one value could otherwise move it without limit; "
            f"give bounds={{{output.column.name!r}: (low, high)}} from what you know, not from the data"
        )
    return {"sum": Sum, "avg": Average}[output.function](output.name, values)
