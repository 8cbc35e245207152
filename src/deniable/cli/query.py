"""`deniable query`, `describe`, `publish` and `convert`: one private answer, a survey of a table, a set of tables, and
checked copies of CSV files."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deniable import _checks
from deniable._progress import bar
from deniable.cli import asking, options
from deniable.cli.printing import Force, Json, interruptible, print_json, print_plan, say, waiting
from deniable.errors import InvalidArgument

if TYPE_CHECKING:
    from deniable.query import Session

File = Annotated[
    str,
    typer.Argument(
        help="A CSV, Parquet, Excel or DuckDB file, a folder or pattern, NAME=FILE, NAME=postgresql://…, spark:TABLE.",
        show_default=False,
    ),
]
LedgerPlace = Annotated[
    str | None,
    typer.Option(
        help="The ledger that is charged: a file, or postgresql://…; else the one beside FILE.", show_default=False
    ),
]
Encoding = Annotated[
    str | None,
    typer.Option(help="How the text of CSV files is written, such as cp1252; else UTF-8.", show_default=False),
]
Who = Annotated[str | None, typer.Option(help="The analyst who asks, where the ledger has budgets for each.")]
NewUnit = Annotated[
    str | None, typer.Option(help="For a new ledger: the column that says who a row is about, or 'row'.")
]
NewBudget = Annotated[float | None, typer.Option(help="For a new ledger: the ε of everything that will ever be asked.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Charge without asking.")]


def open_session(
    file: str,
    *,
    more: Sequence[str] = (),
    public: Sequence[str] = (),
    ledger: str | None,
    unit: str | None,
    budget: float | None,
    who: str | None,
    encoding: str | None,
) -> Session:
    """The session over the tables that a command names, and its ledger: given, beside the file, or created there."""
    from deniable.query import Session
    from deniable.query import open as open_tables

    shared = options.tables(public, option="--public")
    tables = options.tables([file, *more], without=shared)
    for option, value in (("--unit", unit), ("--budget", budget)):
        if ledger and value is not None:
            raise InvalidArgument(option, value, "left out where --ledger is given", "It is for a new ledger.")
    place, new = (ledger, None) if ledger else asking.ledger_for(file, unit=unit, budget=budget)
    with waiting("opening"):
        if new is None:
            return Session(tables, ledger=place, public=shared, who=who, encoding=encoding)
        session = open_tables(tables, **new._asdict(), ledger=place, public=shared, encoding=encoding)
        say(f"ledger {place}: {session.ledger.budget}", err=True)
        return session


def query(
    file: File,
    sql: Annotated[str, typer.Argument(help="The question, in SQL.", show_default=False)],
    ledger: LedgerPlace = None,
    epsilon: Annotated[float | None, typer.Option(help="The ε of the whole query.", show_default=False)] = None,
    rho: Annotated[float | None, typer.Option(help="In place of ε: its ρ, in zCDP.", show_default=False)] = None,
    error: Annotated[
        list[str] | None, typer.Option(help="In place of ε: ERROR, or NAME=ERROR for each aggregate.")
    ] = None,
    group_size: Annotated[
        int | None, typer.Option(help="The smallest group in which an average keeps --error.")
    ] = None,
    bounds: Annotated[
        list[str] | None,
        typer.Option(help="COLUMN=LOW:HIGH for a column that is added up; left out, or private: found privately."),
    ] = None,
    keys: Annotated[list[str] | None, typer.Option(help="COLUMN=KEY,KEY,... or COLUMN=@FILE, for GROUP BY.")] = None,
    groups_per_unit: Annotated[int | None, typer.Option(help="How many groups one unit may be counted in.")] = None,
    rows_per_unit: Annotated[int | None, typer.Option(help="How many rows one unit may have in one group.")] = None,
    total_per_unit: Annotated[int | None, typer.Option(help="How many rows one unit may have in all groups.")] = None,
    per_unit: Annotated[
        str | None, typer.Option(help="private: the two are found privately, as when all are left out.")
    ] = None,
    weights: Annotated[list[str] | None, typer.Option(help="NAME=WEIGHT, an aggregate's part of ε.")] = None,
    cover: Annotated[
        float | None,
        typer.Option(help="The share of ε with which intervals cover what limits leave out; 0: they cover the noise."),
    ] = None,
    leave_out: Annotated[
        bool, typer.Option("--leave-out", help="Leave units beyond stated limits and bounds out whole.")
    ] = False,
    diagnose: Annotated[
        float | None, typer.Option(help="A share of ε, for how many rows are clamped and left out.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="The δ of Gaussian noise and of keys found in the data.", show_default=False)
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="laplace or gaussian; else the smaller one.", show_default=False)
    ] = None,
    confidence: Annotated[float, typer.Option(help="Of every interval.")] = 0.95,
    table: Annotated[list[str] | None, typer.Option(help="Another table: FILE, or NAME=FILE.")] = None,
    public: Annotated[
        list[str] | None, typer.Option(help="A table that is about nobody, to join with: FILE, or NAME=FILE.")
    ] = None,
    encoding: Encoding = None,
    who: Who = None,
    unit: NewUnit = None,
    budget: NewBudget = None,
    server: Annotated[
        str | None,
        typer.Option(help="Ask the service at this address; its token is in the environment, as DENIABLE_TOKEN."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and its SQL; charge nothing.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Answer one SQL question privately, with an interval on every value.

    On a terminal, what is missing is asked for, and the cost is shown before anything is charged.

    Example: deniable query visits.csv "SELECT city, AVG(cost) AS cost FROM visits GROUP BY city" --epsilon 0.5
    --bounds cost=0:5000 --keys city=Bern,Basel --groups-per-unit 2 --rows-per-unit 4 --ledger hospital.ledger
    """
    from deniable.guarantees import ZCDP

    question: dict[str, Any] = {
        "cost": None if rho is None else ZCDP(rho),
        "error": options.errors(error or ()),
        "group_size": group_size,
        "bounds": options.bounds_or_private(bounds or ()),
        "keys": options.keys(keys or ()),
        "per_unit": options.per_unit(groups_per_unit, rows_per_unit, per_unit, total=total_per_unit),
        "weights": options.weights(weights or ()),
        "confidence": confidence,
        "cover": cover,
        "leave_out": leave_out,
        "diagnose": diagnose,
        "delta": delta,
        "noise": noise,
    }
    if server is not None:
        given = {"--ledger": ledger, "--table": table, "--public": public, "--encoding": encoding, "--who": who}
        _refuse_local({**given, "--unit": unit, "--budget": budget})
        _ask_service(server, sql, {"epsilon": epsilon, **question}, dry_run=dry_run, yes=yes, as_json=json)
        return
    with open_session(
        file, more=table or (), public=public or (), ledger=ledger, unit=unit, budget=budget, who=who, encoding=encoding
    ) as session:
        if epsilon is None and not error:
            epsilon = asking.epsilon_for(session.ledger)
        plan = session.plan(sql, epsilon=epsilon, **question)
        if dry_run:
            print_plan(plan, session.ledger, who=who, as_json=json)
            return
        if asking.at_terminal() and not yes:
            asking.agree(plan)
        with interruptible(session.ledger), waiting("computing"):
            release = plan.run()
    if json:
        print_json(release.to_dict())
        return
    say(str(release))
    if sys.stdout.isatty():
        asking.print_chart(release)


def describe(
    file: File,
    table: Annotated[
        str | None, typer.Argument(help="The table's name, where FILE has several.", show_default=False)
    ] = None,
    epsilon: Annotated[float | None, typer.Option(help="The ε of the whole survey.", show_default=False)] = None,
    ledger: LedgerPlace = None,
    encoding: Encoding = None,
    who: Who = None,
    unit: NewUnit = None,
    budget: NewBudget = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the cost; charge nothing.")] = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Survey a table privately: people, rows per person, ranges, missing values, and the error that limits would give.

    Example: deniable describe visits.csv --epsilon 0.2 --ledger hospital.ledger
    """
    with open_session(file, ledger=ledger, unit=unit, budget=budget, who=who, encoding=encoding) as session:
        names = [each.name for each in session.tables if not each.public]
        if table is None and len(names) != 1:
            raise InvalidArgument("TABLE", None, f"one of {', '.join(names)}", "Name it after FILE.")
        if epsilon is None:
            epsilon = asking.epsilon_for(session.ledger)
        if epsilon is None:
            raise InvalidArgument("--epsilon", None, "the cost of the survey", "For example --epsilon 0.2.")
        name = names[0] if table is None else table
        if name not in names:
            raise InvalidArgument("TABLE", name, f"one of {', '.join(names)}", "Name it after FILE.")
        _checks.positive("--epsilon", epsilon)
        if dry_run:
            left = session.ledger.remaining(who=who)
            if json:
                print_json({"table": name, "epsilon": epsilon, "remaining": left.to_dict()})
            else:
                say(f"a survey of {name}, for ε = {epsilon:g}; remaining {left.figures}")
            return
        if asking.at_terminal() and not yes:
            asking.agree(f"a survey of {name}, for ε = {epsilon:g}")
        with interruptible(session.ledger), waiting("computing"):
            survey = session.describe(name, epsilon=epsilon)
    if json:
        print_json(survey.to_dict())
    else:
        say(str(survey))


def _refuse_local(given: dict[str, Any]) -> None:
    """Refuse options that say where tables are: a service has its own."""
    for option, value in given.items():
        if value:
            raise InvalidArgument(option, value, "left out with --server, which has its own tables and ledger")


def _ask_service(server: str, sql: str, question: dict[str, Any], *, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Ask a service, and print what it answers."""
    from deniable.service import connect

    token = os.environ.get("DENIABLE_TOKEN")
    if not token:
        raise InvalidArgument("DENIABLE_TOKEN", None, "set in the environment: the token of the service")
    with connect(server, token) as session:
        plan = session.plan(sql, **question)
        if dry_run:
            print_json(plan.to_dict()) if as_json else say(plan.explain())
            return
        if asking.at_terminal() and not yes:
            asking.agree(plan)
        with waiting("waiting for the service"):
            release = plan.run()
    print_json(release.to_dict()) if as_json else say(str(release))


def publish(
    file: Annotated[Path, typer.Argument(help="A TOML file that describes the tables.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The folder to make; it must not exist.", show_default=False)],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and its SQL; charge nothing.")] = False,
    json: Json = False,
) -> None:
    """Make several tables under one charge: CSV files with intervals, and a note on the method.

    A run that was cut short is finished by the same command, without a second charge.

    Example: deniable publish tables.toml --out release
    """
    from deniable.query import Publication

    with waiting("opening"):
        new_publication = Publication.read(file)
    with new_publication as publication:
        if dry_run:
            print_plan(publication, publication.session.ledger, who=publication.draft.who, as_json=json)
            return
        ledger = publication.session.ledger
        again = f"Run the same command again to finish {out}; it is not charged twice."
        with interruptible(ledger, remedy=again), bar() as update:
            folder = publication.write(out, progress=update)
        files = sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
        if json:
            print_json({"folder": str(folder), "files": files, "cost": publication.cost.to_dict()})
        else:
            say(f"{folder}: {', '.join(files)}")
            say(f"cost       {publication.cost}")
            say(f"remaining  {ledger.remaining(who=publication.draft.who).figures}")


def convert(
    file: Annotated[
        str, typer.Argument(help="A CSV file (.csv, .csv.gz), or a folder or pattern of them.", show_default=False)
    ],
    out: Annotated[Path, typer.Argument(help="The Parquet file to write.", show_default=False)],
    encoding: Annotated[
        str | None, typer.Option(help="How the text is written, such as cp1252; else UTF-8.", show_default=False)
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Write CSV files as one checked Parquet file, which is opened at once and asked faster.

    A file that is not well formed is refused with the number of its line.

    Example: deniable convert visits.csv visits.parquet
    """
    from deniable.query import convert as convert_files

    with waiting("converting"):
        convert_files(file, out, encoding=encoding, overwrite=force)
    if json:
        print_json({"file": str(out)})
    else:
        say(f"{out}: written")
