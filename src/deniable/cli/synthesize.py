"""`deniable synthesize`: a synthetic table as a file, and its quality page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from deniable.cli import options
from deniable.cli.printing import Force, Json, interruptible, print_json, print_plan, say, waiting
from deniable.errors import InvalidArgument


def synthesize(
    file: Annotated[
        str,
        typer.Argument(
            help="A CSV or Parquet file, a folder or pattern of them, or NAME=FILE; NAME=postgresql://…, spark:TABLE.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Argument(help="The file to write: .csv or .parquet.", show_default=False)],
    ledger: Annotated[
        str, typer.Option(help="The ledger that is charged: a file, or postgresql://…", show_default=False)
    ],
    epsilon: Annotated[float, typer.Option(help="The ε of the whole table.", show_default=False)],
    delta: Annotated[
        float | None, typer.Option(help="The δ at which ε holds; the ledger's, if not given.", show_default=False)
    ] = None,
    keys: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=KEY,KEY,... or COLUMN=@FILE: its categories; COLUMN=private finds them."),
    ] = None,
    bins: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=LOW:HIGH:STEP: its bins, of numbers or days; COLUMN=private finds them."),
    ] = None,
    sql: Annotated[
        str | None, typer.Option(help="SELECT columns FROM the table WHERE a condition.", show_default=False)
    ] = None,
    rows_per_unit: Annotated[int | None, typer.Option(help="How many rows of one unit count.")] = None,
    per_unit: Annotated[
        str | None, typer.Option(help="private: how many rows of one unit count is found.", show_default=False)
    ] = None,
    method: Annotated[
        str | None, typer.Option(help="aim or mst; chosen by the width if left out.", show_default=False)
    ] = None,
    rows: Annotated[
        int | None, typer.Option(help="Rows to draw; the noisy number of rows, if not given.", show_default=False)
    ] = None,
    check: Annotated[float, typer.Option(help="The share of the budget for a check of the table.")] = 0.03,
    page: Annotated[Path | None, typer.Option(help="Write a quality page, in HTML.", show_default=False)] = None,
    who: Annotated[
        str | None, typer.Option(help="The analyst who asks, where the ledger has budgets for each.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan; charge nothing.")] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """Make a synthetic table: rows that follow a private one, with a statement about their error.

    Example: deniable synthesize visits.csv made.csv --epsilon 1 --keys city=Bern,Basel --bins age=0:100:10
    --rows-per-unit 2 --ledger hospital.ledger
    """
    from deniable._files import check_target
    from deniable.query import Session
    from deniable.synthesis.table import check_ending

    check_ending(out)
    tables = options.tables([file])
    if sql is None and len(tables) > 1:
        raise InvalidArgument("FILE", file, f"one of its tables {', '.join(tables)}", "Write NAME=FILE, or give --sql.")
    inputs = [*tables.values(), ledger]
    targets = [out] if page is None else [out, page]
    for target in [] if dry_run else targets:
        check_target(target, overwrite=force, inputs=inputs)
    if page is not None and page.absolute() == out.absolute():
        raise InvalidArgument("--page", str(page), "another file than the table's")
    declared = {**_categories(keys or ()), **options.bins(bins or ())}
    with waiting("opening"):
        new_session = Session(tables, ledger=ledger, who=who)
    with new_session as session:
        plan = session.synthesize(
            sql if sql is not None else next(iter(tables)),
            columns=declared,
            epsilon=epsilon,
            delta=delta,
            per_unit=options.per_unit(None if rows_per_unit is None else 1, rows_per_unit, per_unit),
            method=method,
            rows=rows,
            check=check,
        )
        if dry_run:
            print_plan(plan, session.ledger, who=who, as_json=json)
            return
        with interruptible(session.ledger), waiting("computing"):
            table = plan.run()
    table.write(out, overwrite=force)
    if page is not None:
        table.write_page(page, overwrite=force)
    if json:
        print_json({**table.to_dict(), "file": str(out)})
    else:
        say(f"{out}: {len(table)} rows")
        for name, text in (("cost", str(table.cost)), *table.facts):
            say(f"{name}: {text}")


def _categories(texts: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """Categories of columns; the word private finds them."""
    categories: dict[str, Any] = options.keys(texts)
    return {column: options.PRIVATE if listed == [options.PRIVATE] else listed for column, listed in categories.items()}
