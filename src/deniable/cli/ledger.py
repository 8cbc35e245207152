"""`deniable ledger create|show|verify|export`: the budget on disk. An address is shown without its password."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from json import loads
from typing import Annotated

import typer

from deniable.cli.printing import Json, print_bars, print_json, print_table
from deniable.errors import InvalidArgument

app = typer.Typer(help="Create, read and check the record of what was charged.", no_args_is_help=True)

File = Annotated[str, typer.Argument(help="The ledger's file, or its address postgresql://…", show_default=False)]


@app.command()
def create(
    file: File,
    epsilon: Annotated[float, typer.Option(help="The whole budget's ε.", show_default=False)],
    unit: Annotated[str, typer.Option(help="The column that says who a row is about, or 'row'.", show_default=False)],
    delta: Annotated[float, typer.Option(help="The whole budget's δ; 0 for a pure promise.")] = 0.0,
    replace: Annotated[
        bool, typer.Option("--replace", help="Promise for a unit exchanged, its number being public.")
    ] = False,
    json: Json = False,
) -> None:
    """Create a ledger, once. It is never overwritten.

    Example: deniable ledger create hospital.ledger --epsilon 3 --delta 1e-6 --unit patient_id
    """
    from deniable.guarantees import ApproxDP, PureDP
    from deniable.ledger import Ledger
    from deniable.units import Relation

    relation = Relation.REPLACE if replace else Relation.ADD_REMOVE
    budget = ApproxDP(epsilon, delta, relation=relation) if delta else PureDP(epsilon, relation=relation)
    with Ledger.create(file, unit=unit, budget=budget) as ledger:
        if json:
            print_json({"file": ledger.place, "unit": ledger.unit.column or "row", "budget": str(ledger.budget)})
        else:
            typer.echo(f"created {ledger.place}: {ledger.budget}")


@app.command()
def show(
    file: File,
    who: Annotated[str | None, typer.Option(help="One analyst's own budget and charges.", show_default=False)] = None,
    json: Json = False,
) -> None:
    """What was charged for what, when, and what remains.

    Example: deniable ledger show hospital.ledger
    """
    from deniable.ledger import Ledger

    with Ledger.open(file) as ledger:
        if who is not None and who not in ledger.analysts():
            raise InvalidArgument("--who", who, "an analyst of this ledger", f"It has {_listed(ledger.analysts())}.")
        remaining = ledger.remaining(who=who).figures
        budget = ledger.budget if who is None else ledger.analysts()[who]
        charges = [charge for charge in ledger.charges() if who is None or charge.who == who]
    if json:
        print_json(
            {
                "budget": str(budget),
                "remaining": remaining,
                "charges": [
                    {"number": c.seq, "time": c.time, "who": c.who, "purpose": c.purpose, "event": repr(c.event)}
                    for c in charges
                ],
            }
        )
        return
    typer.echo(f"budget     {budget}")
    typer.echo(f"remaining  {remaining}")
    if charges:
        typer.echo("")
        named = any(charge.who for charge in charges)
        print_table(
            ["no.", "time", *(["who"] if named else []), "purpose", "event"],
            [
                (c.seq, c.time[:16].replace("T", " "), *([c.who or ""] if named else []), c.purpose, repr(c.event))
                for c in charges
            ],
        )
        typer.echo("")
        print_bars(Counter(c.time[:10] for c in charges), title="charges per day (UTC)")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none with a budget of their own"


@app.command()
def verify(
    file: File,
    head: Annotated[
        str | None, typer.Option(help="A head that was exported earlier; it must still be in the chain.")
    ] = None,
    json: Json = False,
) -> None:
    """Check every link of the record and recompute the sums.

    Example: deniable ledger verify hospital.ledger
    """
    from deniable.ledger import Ledger

    with Ledger.open(file) as ledger:
        found = ledger.verify(head)
        if json:
            print_json({"file": ledger.place, "rows": found.seq, "head": str(found)})
        else:
            rows = "1 row" if found.seq == 1 else f"{found.seq:,} rows"
            typer.echo(f"{ledger.place}: {rows} verified, head {found}")


@app.command()
def export(file: File, json: Json = False) -> None:
    """The whole record, one JSON object per line: the header, then every row with its hash.

    Example: deniable ledger export hospital.ledger > hospital.jsonl
    """
    from deniable.ledger import Ledger

    with Ledger.open(file) as ledger:
        if json:
            header, *rows = map(loads, ledger.export())
            print_json({"header": header, "rows": rows})
            return
        for line in ledger.export():
            typer.echo(line)
