"""`deniable query`: one private answer from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from deniable.cli import options
from deniable.cli.printing import Json, print_json


def query(
    file: Annotated[
        Path, typer.Argument(help="A CSV or Parquet file; its table is named by its stem.", show_default=False)
    ],
    sql: Annotated[str, typer.Argument(help="The question, in SQL.", show_default=False)],
    ledger: Annotated[Path, typer.Option(help="The ledger that is charged.", show_default=False)],
    epsilon: Annotated[float, typer.Option(help="The ε of the whole query.", show_default=False)],
    bounds: Annotated[list[str] | None, typer.Option(help="COLUMN=LOW:HIGH, for every column that is summed.")] = None,
    keys: Annotated[list[str] | None, typer.Option(help="COLUMN=KEY,KEY,... or COLUMN=@FILE, for GROUP BY.")] = None,
    groups_per_unit: Annotated[int | None, typer.Option(help="How many groups one unit may be counted in.")] = None,
    rows_per_unit: Annotated[int | None, typer.Option(help="How many rows one unit may have in one group.")] = None,
    who: Annotated[
        str | None, typer.Option(help="The analyst who asks, where the ledger has budgets for each.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; read no data and charge nothing.")] = False,
    json: Json = False,
) -> None:
    """Answer one SQL question privately, with an interval on every value.

    Example: deniable query visits.csv "SELECT city, AVG(cost) AS cost FROM visits GROUP BY city" --epsilon 0.5
    --bounds cost=0:5000 --keys city=Bern,Basel --groups-per-unit 2 --rows-per-unit 4 --ledger hospital.ledger
    """
    from deniable.errors import InvalidArgument
    from deniable.query import AtMost, Session

    if (groups_per_unit is None) != (rows_per_unit is None):
        missing = "--groups-per-unit" if groups_per_unit is None else "--rows-per-unit"
        raise InvalidArgument(
            missing, None, "given together with its twin", "For example --groups-per-unit 2 --rows-per-unit 4."
        )
    per_unit = None
    if groups_per_unit is not None and rows_per_unit is not None:
        per_unit = AtMost(groups=groups_per_unit, rows=rows_per_unit)
    session = Session(file, ledger=ledger, who=who)
    plan = session.plan(
        sql, epsilon=epsilon, bounds=options.bounds(bounds or ()), keys=options.keys(keys or ()), per_unit=per_unit
    )
    answer = plan if dry_run else plan.run()
    if json:
        print_json(answer.to_json())
    else:
        typer.echo(str(answer))
