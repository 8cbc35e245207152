"""One look for everything the command line prints: aligned tables, colour only on a terminal, `--json` for machines."""

from __future__ import annotations

import json
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from deniable.ledger import Ledger
    from deniable.query import Publication, QueryPlan, StagedPlan

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
"""The option that every command has."""


Force = Annotated[bool, typer.Option("--force", help="Replace a file that is there. What is read is never replaced.")]
"""The option of every command that writes a file."""


def print_json(value: Any) -> None:
    """One JSON object on standard output; exact numbers as text."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2, default=str))


def print_plan(plan: QueryPlan | StagedPlan | Publication, ledger: Ledger, *, who: str | None, json: bool) -> None:
    """A plan that is not run: its words, and whether the ledger would pay for it now."""
    fits = ledger.fits(plan.event, who=who)
    if json:
        print_json({**plan.to_json(), "fits": fits})
        return
    typer.echo(plan.explain())
    if not fits:
        left = ledger.remaining(who=who).figures
        typer.echo(f"It does not fit: the ledger has {left} left.", err=True)


def print_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, right: Container[int] = ()) -> None:
    """Columns aligned; numbers, and the columns named in `right`, to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    lines = [list(row) for row in rows]
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    for place, name in enumerate(header):
        numeric = place in right or (bool(lines) and all(isinstance(row[place], int | float) for row in lines))
        table.add_column(name, justify="right" if numeric else "left", overflow="fold")
    for row in lines:
        table.add_row(*(str(cell) for cell in row))
    Console().print(table)


def print_bars(counts: Mapping[str, int], *, title: str, most: int = 30, width: int = 40) -> None:
    """A picture of counts over time: the last `most` of them, the longest bar `width` wide."""
    typer.echo(title)
    longest = max(counts.values())
    for name in sorted(counts)[-most:]:
        typer.echo(f"{name}  {'█' * max(1, round(width * counts[name] / longest))} {counts[name]}")
