"""The aggregates that can be released privately, one file each.

A new aggregate is a class that says which measures it needs and how it reads its answer off them; it joins by a line in
`build`, and by its SQL name in `reading.FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Mapping

from deniable._remedies import HIGH, LOW, MORE, Option, Remedy
from deniable.errors import InvalidArgument, QueryError
from deniable.noise import Grid
from deniable.query.aggregates.average import Average
from deniable.query.aggregates.base import Aggregate, Choice, EstimateColumn, ExpectedError, Noisy
from deniable.query.aggregates.count import CountAggregate
from deniable.query.aggregates.distinct import CountDistinct
from deniable.query.aggregates.mode import ModeAggregate
from deniable.query.aggregates.quantile import QuantileAggregate
from deniable.query.aggregates.sum import SumAggregate
from deniable.query.aggregates.variance import VarianceAggregate
from deniable.query.grids import coarse, find
from deniable.query.keys import Keys
from deniable.query.measures import Different, UnitCounts, Values
from deniable.query.outputs import AggregateOutput
from deniable.query.readings import BinNumber, Distinct
from deniable.query.schema import Column

__all__ = [
    "Aggregate",
    "Average",
    "Choice",
    "CountAggregate",
    "CountDistinct",
    "EstimateColumn",
    "ExpectedError",
    "ModeAggregate",
    "Noisy",
    "QuantileAggregate",
    "SumAggregate",
    "VarianceAggregate",
    "build",
]

_WIDEST = 1 << 31
"""Grid points between bounds, at most, whose squares are added up."""


def build(
    output: AggregateOutput, grids: Mapping[str, Grid], *, unit: Column | None, categories: Keys | None = None
) -> Aggregate:
    """The aggregate that an output of a query asks for, with the bounds or categories it needs."""
    column, function = output.column, output.function
    if column is None:
        return CountAggregate(output.name, None)
    if output.distinct:
        people = unit is not None and column == unit
        measure = UnitCounts(None, noun=column.name) if people else Different(None, distinct=Distinct(column))
        return CountDistinct(output.name, measure)
    if function == "mode":
        if categories is None or categories.values is None or categories.texts is None:
            keys = Option("keys", {column.name: [MORE]})
            raise QueryError(
                Remedy(
                    f"{output.text} needs its categories declared: which values there are must not come from the data; "
                    f"give {keys} with the public list of values",
                    keys,
                )
            )
        return ModeAggregate(output.name, BinNumber(column, None, categories.values, categories.texts, categories.type))
    grid = find(column, grids)
    values = Values(column, grid)
    if function == "count":
        return CountAggregate(output.name, values)
    if grid is None:
        stated, private = Option("bounds", {column.name: (LOW, HIGH)}), Option("bounds", "private")
        raise QueryError(
            Remedy(
                f"{output.text} needs bounds for {column.name}: one value could otherwise move it without limit; "
                f"give {stated} from what you know, or {private}, which finds them with a tenth of ε",
                stated,
                private,
            )
        )
    if function == "quantile" and output.level is not None:
        return QuantileAggregate(output.name, BinNumber(column, coarse(column, grid)), output.level)
    if function in ("sum", "avg"):
        return SumAggregate(output.name, values) if function == "sum" else Average(output.name, values)
    if grid.highest - grid.lowest > _WIDEST:
        raise InvalidArgument(
            f"bounds[{column.name!r}] step", grid.step, f"at least 1/{_WIDEST} of the distance of the bounds",
            "The squares of a variance must fit 64 bits.",
        )  # fmt: skip
    return VarianceAggregate(output.name, values, sample=function.endswith("samp"), root=function.startswith("stddev"))
