"""`deniable ledger create|allot|show|dashboard|verify|export`: the budget on disk. Addresses lose their password."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from json import loads
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from deniable._files import peek, replacing, show_path
from deniable.cli.printing import Force, Json, print_bars, print_json, print_record, print_table, say
from deniable.errors import InvalidArgument

if TYPE_CHECKING:
    from deniable.guarantees import Guarantee
    from deniable.ledger import LedgerRecord

app = typer.Typer(help="Create, read and check the record of what was charged.", no_args_is_help=True)

File = Annotated[str, typer.Argument(help="The ledger's file, or its address postgresql://…", show_default=False)]
Record = Annotated[
    str, typer.Argument(help="The ledger's file, its export, or its address postgresql://…", show_default=False)
]


@app.command()
def create(
    file: File,
    epsilon: Annotated[float, typer.Option(help="The whole budget's ε.", show_default=False)],
    unit: Annotated[str, typer.Option(help="The column that says who a row is about, or 'row'.", show_default=False)],
    delta: Annotated[float, typer.Option(help="The whole budget's δ; 0 for a pure promise.")] = 0.0,
    replace: Annotated[
        bool, typer.Option("--replace", help="Promise for a unit exchanged, its number being public.")
    ] = False,
    size: Annotated[
        int | None, typer.Option(help="How many units there are, if that is public, to check δ.", show_default=False)
    ] = None,
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
    with Ledger.create(file, unit=unit, budget=budget, size=size) as ledger:
        if json:
            print_json({"file": ledger.place, "unit": ledger.unit.column or "row", "budget": ledger.budget.to_dict()})
        else:
            say(f"created {ledger.place}: {ledger.budget}")


@app.command()
def allot(
    file: File,
    who: Annotated[str, typer.Argument(help="The analyst.", show_default=False)],
    epsilon: Annotated[float, typer.Option(help="The ε of the analyst's own budget.", show_default=False)],
    delta: Annotated[float, typer.Option(help="Its δ; 0 for a pure promise.")] = 0.0,
    json: Json = False,
) -> None:
    """Give an analyst a budget of their own inside the common one, once. From then on every charge names its analyst.

    Example: deniable ledger allot hospital.ledger ada --epsilon 1 --delta 1e-7
    """
    from deniable.ledger import Ledger

    with Ledger.open(file) as ledger:
        ledger.allot(who, epsilon=epsilon, delta=delta or None)
        own = ledger.analysts()[who]
        if json:
            print_json({"file": ledger.place, "who": who, "budget": own.to_dict()})
        else:
            say(f"{who}: {own}")


@app.command()
def show(
    file: Record,
    who: Annotated[str | None, typer.Option(help="One analyst's own budget and charges.", show_default=False)] = None,
    last: Annotated[int, typer.Option(help="How many charges, counted from the newest.", min=1)] = 20,
    page: Annotated[int, typer.Option(help="2 for those before the last ones, and so on.", min=1)] = 1,
    events: Annotated[bool, typer.Option("--events", help="Also the event of every charge.")] = False,
    json: Json = False,
) -> None:
    """What was charged for what, when, and what remains: the newest charges, or a page of older ones.

    Each charge is shown with what it costs on its own. Charges do not add up to what was spent: composition costs less.

    Example: deniable ledger show hospital.ledger
    """
    with record_at(file) as ledger:
        analysts = ledger.analysts() if who is not None else {}
        if who is not None and who not in analysts:
            raise InvalidArgument("--who", who, "an analyst of this ledger", f"It has {_list_names(analysts)}.")
        remaining = ledger.remaining(who=who)
        budget = ledger.budget if who is None else analysts[who]
        newest = list(ledger.charges(who=who, last=last * page + 1))
        rows = ledger.head().seq
        repeats = ledger.repeats_left(newest[-1].event, who=who, at=newest[-1].at) if newest else None
        costs = {charge.seq: ledger.cost_of(charge) for charge in newest[max(0, len(newest) - last * page) :]}
    older = len(newest) > last * page
    charges = newest[max(0, len(newest) - last * page) : max(0, len(newest) - last * (page - 1))]
    if json:
        print_json(
            {
                "budget": budget.to_dict(),
                "remaining": remaining.to_dict(),
                "repeats_left": repeats,
                "rows": rows,
                "page": page,
                "older": older,
                "charges": [
                    {**c.to_dict(), "cost": None if (cost := costs[c.seq]) is None else cost.to_dict()} for c in charges
                ],
            }
        )
        return
    say(f"budget     {budget}")
    say(f"remaining  {remaining.figures}{_repeats_text(repeats)}")
    if charges:
        say("")
        named = any(charge.who for charge in charges)
        print_table(
            ["no.", "time", *(["who"] if named else []), "purpose", "on its own", *(["event"] if events else [])],
            [
                (
                    c.seq,
                    c.time[:16].replace("T", " "),
                    *([c.who or ""] if named else []),
                    c.purpose,
                    cost_text(costs[c.seq]),
                    *([repr(c.event)] if events else []),
                )
                for c in charges
            ],
        )
        say("")
        whole = page == 1 and not older
        print_bars(
            Counter(c.time[:10] for c in charges),
            title="charges per day (UTC)" if whole else "charges per day (UTC), of those shown",
        )
    if older:
        say(f"\nOlder charges: --page {page + 1}, or --last N. The ledger has {rows:,} rows.")


def _repeats_text(repeats: int | None) -> str:
    if repeats is None:
        return ""
    many = "a million or more" if repeats >= 10**6 else "no" if not repeats else f"{repeats:,}"
    return f": {many} more {'question' if repeats == 1 else 'questions'} like the last one"


def cost_text(cost: Guarantee | None) -> str:
    """A cost as `ε ≤ 0.50, δ = 0`, without the neighbours; a dash where no finite number is known."""
    return "–" if cost is None else str(cost).removesuffix(f", {cost.neighbours}")


def record_at(file: str) -> LedgerRecord:
    """The ledger at an address or in a file; or its export, which is verified."""
    from deniable.ledger import Ledger

    return Ledger.read_export(file) if _is_json(file) else Ledger.open(file)


def _is_json(file: str) -> bool:
    """Whether a file begins as an export does. An export whose first line was edited still counts as one."""
    try:
        return peek(file, 1) == b"{"
    except (OSError, ValueError):
        return False


@app.command()
def dashboard(
    file: Record,
    out: Annotated[Path, typer.Option(help="The page to write.")] = Path("dashboard.html"),
    title: Annotated[str, typer.Option(help="Of the page; the ledger's name, if left out.")] = "",
    show_queries: Annotated[
        bool, typer.Option("--show-queries", help="Show queries as they were typed, with their names and values.")
    ] = False,
    force: Force = False,
    json: Json = False,
) -> None:
    """One static page for those who keep the ledger: what is left, charges over time, who made them.

    Example: deniable ledger dashboard hospital.ledger --out dashboard.html
    """
    from deniable._files import check_target, write_text
    from deniable.explaining.dashboard import dashboard_page

    check_target(out, overwrite=force, inputs=[file])
    with record_at(file) as ledger:
        text = dashboard_page(ledger, title=title, show_queries=show_queries)
        rows = ledger.head().seq
    write_text(out, text, overwrite=force, inputs=[file])
    if json:
        print_json({"file": str(out), "rows": rows})
    else:
        say(f"wrote {show_path(out)}")


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none with a budget of their own"


@app.command()
def verify(
    file: Record,
    head: Annotated[
        str | None, typer.Option(help="A head that was printed earlier; it must still be in the chain.")
    ] = None,
    json: Json = False,
) -> None:
    """Check every link of the record and recompute the sums; of an export too, without the database.

    Example: deniable ledger verify hospital.ledger
    """
    from deniable.ledger import Ledger

    with Ledger.read_export(file, head=head) if _is_json(file) else Ledger.open(file) as ledger:
        head_now = ledger.verify(head) if isinstance(ledger, Ledger) else ledger.head()
        if json:
            print_json({"file": ledger.place, "rows": head_now.seq, "head": str(head_now)})
        else:
            rows = "1 row" if head_now.seq == 1 else f"{head_now.seq:,} rows"
            say(f"{ledger.place}: {rows} verified, head {head_now}")


@app.command()
def export(
    file: Record,
    out: Annotated[
        Path | None, typer.Option(help="The file to write; standard output if left out.", show_default=False)
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """The whole record, one JSON object per line: the header, every row with its hash, the head.

    Example: deniable ledger export hospital.ledger > hospital.jsonl
    """
    with record_at(file) as ledger:
        lines = (f"{line}\n" for line in ledger.export())
        if out is not None:
            with replacing(out, overwrite=force, inputs=[file]) as beside, beside.open("w", encoding="ascii") as stream:
                stream.writelines(lines)
        if not json:
            if out is None:
                print_record(lines)
            else:
                say(f"wrote {show_path(out)}")
            return
        if out is not None:
            print_json({"file": str(out), "head": str(ledger.head())})
            return
        header, *rows, end = map(loads, lines)
        print_json({"header": header, "rows": rows, "end": end})
