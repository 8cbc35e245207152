"""`deniable query`: one private answer from a file."""

from __future__ import annotations

from typing import Annotated

import typer

from deniable.cli import options
from deniable.cli.printing import Json, print_json, print_plan, say
from deniable.cli.progress import interruptible, waiting


def query(
    file: Annotated[
        str,
        typer.Argument(
            help="A CSV or Parquet file, a folder or pattern of them, or NAME=FILE; NAME=postgresql://…, spark:TABLE.",
            show_default=False,
        ),
    ],
    sql: Annotated[str, typer.Argument(help="The question, in SQL.", show_default=False)],
    ledger: Annotated[
        str, typer.Option(help="The ledger that is charged: a file, or postgresql://…", show_default=False)
    ],
    epsilon: Annotated[float | None, typer.Option(help="The ε of the whole query.", show_default=False)] = None,
    error: Annotated[
        list[str] | None, typer.Option(help="In place of ε: ERROR, or NAME=ERROR for each aggregate.")
    ] = None,
    group_size: Annotated[
        int | None, typer.Option(help="The smallest group in which an average keeps --error.")
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=LOW:HIGH for every column that is added up; COLUMN=private, or private for all."),
    ] = None,
    keys: Annotated[list[str] | None, typer.Option(help="COLUMN=KEY,KEY,... or COLUMN=@FILE, for GROUP BY.")] = None,
    groups_per_unit: Annotated[int | None, typer.Option(help="How many groups one unit may be counted in.")] = None,
    rows_per_unit: Annotated[int | None, typer.Option(help="How many rows one unit may have in one group.")] = None,
    per_unit: Annotated[
        str | None, typer.Option(help="private, in place of the two: limits are found privately.")
    ] = None,
    weights: Annotated[list[str] | None, typer.Option(help="NAME=WEIGHT, an aggregate's part of ε.")] = None,
    diagnose: Annotated[
        float | None, typer.Option(help="A share of ε, for how many rows are clamped and left out.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="The δ of keys that are found in the data.", show_default=False)
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of every interval.")] = 0.95,
    table: Annotated[list[str] | None, typer.Option(help="Another table: FILE, or NAME=FILE.")] = None,
    public: Annotated[
        list[str] | None, typer.Option(help="A table that is about nobody, to join with: FILE, or NAME=FILE.")
    ] = None,
    encoding: Annotated[
        str | None,
        typer.Option(help="How the text of CSV files is written, such as cp1252; else UTF-8.", show_default=False),
    ] = None,
    who: Annotated[
        str | None, typer.Option(help="The analyst who asks, where the ledger has budgets for each.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and its SQL; charge nothing.")] = False,
    json: Json = False,
) -> None:
    """Answer one SQL question privately, with an interval on every value.

    Example: deniable query visits.csv "SELECT city, AVG(cost) AS cost FROM visits GROUP BY city" --epsilon 0.5
    --bounds cost=0:5000 --keys city=Bern,Basel --groups-per-unit 2 --rows-per-unit 4 --ledger hospital.ledger
    """
    from deniable.query import Session

    tables = options.tables([file, *(table or ())])
    shared = options.tables(public or (), option="--public")
    with waiting("opening"):
        opened = Session(tables, ledger=ledger, public=shared, who=who, encoding=encoding)
    with opened as session:
        plan = session.plan(
            sql,
            epsilon=epsilon,
            error=options.errors(error or ()),
            group_size=group_size,
            bounds=options.bounds_or_private(bounds or ()),
            keys=options.keys(keys or ()),
            per_unit=options.per_unit(groups_per_unit, rows_per_unit, per_unit),
            weights=options.weights(weights or ()),
            confidence=confidence,
            diagnose=diagnose,
            delta=delta,
        )
        if dry_run:
            print_plan(plan, session.ledger, who=who, as_json=json)
            return
        with interruptible(session.ledger), waiting("computing"):
            release = plan.run()
    if json:
        print_json(release.to_json())
    else:
        say(str(release))
