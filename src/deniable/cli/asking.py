"""The first question on a terminal: a ledger is offered, the cost is shown, and nothing is charged before a yes.

Where nobody sits at a terminal nothing is asked: what is missing is refused, with the words that would give it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

import typer

from deniable._escapes import printable
from deniable.cli.printing import say
from deniable.errors import InvalidArgument

if TYPE_CHECKING:
    from deniable.ledger import Ledger
    from deniable.query import QueryPlan, Release, StagedPlan
    from deniable.service import RemotePlan

BUDGET = 3.0
"""The ε that is offered for a new ledger."""

SHARE = 10
"""The ε that is offered for a question is the budget's by this number."""


def at_terminal() -> bool:
    """Whether somebody can be asked: standard input and standard error are a terminal."""
    return sys.stdin.isatty() and sys.stderr.isatty()


class NewLedger(NamedTuple):
    """What a ledger is created with."""

    unit: str
    epsilon: float


def ledger_for(file: str, *, unit: str | None, budget: float | None) -> tuple[str, NewLedger | None]:
    """The ledger beside a file, and what to create it with if it is not there, which is asked for."""
    from deniable.query.starting import ledger_beside

    _, named, path = file.rpartition("=")
    place = ledger_beside(path if named else file)
    if place is not None and place.exists() and unit is None and budget is None:
        return str(place), None
    if place is None or (unit is None and not at_terminal()):
        name = "LEDGER" if place is None else str(place)
        raise InvalidArgument(
            "--ledger",
            None,
            "a ledger, which says who is protected and how much may be spent",
            f"Create it once: deniable ledger create {name} --unit COLUMN --epsilon 3 --delta 1e-6"
            + ("." if place is None else "; or give --unit COLUMN and --budget 3 here."),
        )
    if unit is None:
        say(f"There is no ledger yet. It records what is spent, and is created once, as {place}.", err=True)
        unit = str(typer.prompt("Which column says who a row is about? ('row' if each is about another)", err=True))
    if budget is None:
        budget = BUDGET
        if at_terminal():
            say(
                "The budget is the ε of everything that will ever be asked, together. With 1 a guess about one person"
                " is right at most 74 times in 100, with 3 at most 96 times, with 0 it is a coin.",
                err=True,
            )
            budget = _ask_number("Which ε, in all?", BUDGET)
    return str(place), NewLedger(unit, budget)


def epsilon_for(ledger: Ledger) -> float | None:
    """The ε of a question for which none was given: a part of the budget's, if somebody can be asked."""
    epsilon = getattr(ledger.budget, "epsilon", None)
    if epsilon is None or not at_terminal():
        return None
    return _ask_number("Which ε for this question?", float(f"{float(epsilon) / SHARE:.3g}"))


def agree(plan: QueryPlan | StagedPlan | RemotePlan | str) -> None:
    """Show what a question costs and how far off its answer will be, and leave unless the answer is yes."""
    say(str(plan), err=True)
    say("", err=True)
    if not typer.confirm("Charge this and answer?", default=True, err=True):
        say("nothing was charged", err=True)
        raise typer.Exit(1)


def print_chart(release: Release, *, most: int = 30, width: int = 40) -> None:
    """Print every released number as a bar: solid up to its low end, shaded up to its high end."""
    from deniable.explaining.report import value_figures

    for figure in value_figures(release):
        rows = figure.rows[:most]
        longest = max((row.high for row in rows), default=0.0)
        if longest <= 0:
            continue
        say(f"\n{printable(figure.title)}")
        space = max(len(printable(row.name)) for row in rows)
        for row in rows:
            low, high = (max(0, round(width * min(1.0, end / longest))) for end in (row.low, row.high))
            say(f"{printable(row.name).ljust(space)}  {'█' * low}{'░' * max(1, high - low)} {row.value:,.6g}")


def _ask_number(question: str, default: float) -> float:
    return float(typer.prompt(question, default=default, type=float, err=True))
