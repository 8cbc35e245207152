"""The dashboard of a ledger: what is left, charges over time, and who made them. One static page.

It is for those who keep a ledger. It holds nothing but what the ledger holds, and nothing that was not charged there;
names and values of queries are left out unless they are asked for. `explaining.report` is the page for the public.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from pathlib import Path

from deniable._escapes import escape_html
from deniable.explaining import pages
from deniable.explaining.curves import charges_figure
from deniable.explaining.redaction import redact
from deniable.guarantees import Guarantee
from deniable.ledger import Charge, LedgerRecord

MOST_CHARGES = 30
"""How many charges are listed, the newest ones."""

MOST_DAYS = 60
"""More days than these are drawn as months."""


def dashboard_page(ledger: LedgerRecord, *, title: str = "", show_queries: bool = False) -> str:
    """The page, as HTML without scripts.

    Args:
        ledger: The record; every row is read once.
        title: Of the page; the ledger's name, if left out.
        show_queries: Show purposes that are queries as they were typed, with their names and values.
    """
    days: Counter[str] = Counter()
    analysts: Counter[str] = Counter()
    last_day: dict[str, str] = {}
    newest: deque[Charge] = deque(maxlen=MOST_CHARGES)
    for charge in ledger.charges():
        days[charge.time[:10]] += 1
        analysts[charge.who or ""] += 1
        last_day[charge.who or ""] = charge.time[:10]
        newest.append(charge)
    own = ledger.analysts()
    many = sum(days.values())
    return pages.page(
        title or f"Budget of {Path(ledger.place).stem}",
        language="en",
        main=[
            pages.paragraph(str(ledger.budget), kind="promise"),
            _tiles(_standing(ledger, list(newest), many)),
            _left_bar(ledger.budget, ledger.remaining()),
            pages.picture(charges_figure(_by_month(days))) if days else pages.paragraph("Nothing was charged yet."),
            *_analysts(ledger, analysts, last_day, own),
            *_newest(ledger, list(newest), many=many, show_queries=show_queries),
        ],
        footer=f"Row {ledger.head().seq:,} of the ledger; its head is {ledger.head()}. "
        "For those who keep the ledger, not for the public.",
    )


def _standing(ledger: LedgerRecord, newest: Sequence[Charge], many: int) -> list[tuple[str, str]]:
    """The numbers at the top: a value and what it is."""
    tiles = [(ledger.remaining().figures, "is left: the largest request that fits")]
    if newest:
        repeats = ledger.repeats_left(newest[-1].event, at=newest[-1].at) if not ledger.analysts() else None
        if repeats is not None:
            tiles.append((f"{repeats:,}", f"more {'question' if repeats == 1 else 'questions'} like the last one"))
        tiles.append((newest[-1].time[:10], "was the last charge"))
    return [*tiles, (f"{many:,}", "charge" if many == 1 else "charges")]


def _tiles(tiles: Sequence[tuple[str, str]]) -> str:
    inner = "".join(
        f'<div class="tile"><strong>{escape_html(value)}</strong><span>{escape_html(words)}</span></div>'
        for value, words in tiles
    )
    return f'<div class="tiles">{inner}</div>'


def _left_bar(budget: Guarantee, remaining: Guarantee) -> str:
    """A bar of what is left; nothing where budget and rest have no number in common."""
    whole, rest = next(iter(budget.numbers.values())), next(iter(remaining.numbers.values()))
    share = min(1.0, max(0.0, float(rest / whole))) if whole else 0.0
    words = f"{100 * share:.0f} % of the budget is left"
    return (
        f'<div class="bar" role="img" aria-label="{words}"><div style="width:{100 * share:.1f}%"></div></div>'
        f"{pages.paragraph(words)}"
    )


def _by_month(days: Counter[str]) -> Counter[str]:
    """The counts by day, or by month where there are many days."""
    if len(days) <= MOST_DAYS:
        return days
    months: Counter[str] = Counter()
    for day, count in days.items():
        months[day[:7]] += count
    return months


def _analysts(
    ledger: LedgerRecord, counts: Counter[str], last_day: dict[str, str], own: dict[str, Guarantee]
) -> list[str]:
    """A row for each analyst; nothing where nobody was named."""
    names = sorted({name for name in counts if name} | set(own))
    if not names:
        return []
    rows = [
        (
            name,
            f"{counts[name]:,}",
            last_day.get(name, "–"),
            own[name].figures if name in own else "–",
            ledger.remaining(who=name).figures if name in own else "–",
        )
        for name in names
    ]
    head = ("who", "charges", "last", "own budget", "left of it")
    kinds = ("by", "short", "short", "short", "short")
    return [pages.heading("Who charged"), pages.table(head, rows, kinds=kinds, label="Who charged")]


def _newest(ledger: LedgerRecord, charges: Sequence[Charge], *, many: int, show_queries: bool) -> list[str]:
    """The newest charges, each with what it costs on its own."""
    if not charges:
        return []
    named = any(charge.who for charge in charges)
    rows = []
    for charge in reversed(charges):
        cost = ledger.cost_of(charge)
        rows.append(
            (
                str(charge.seq),
                charge.time[:16].replace("T", " "),
                *((charge.who or "–",) if named else ()),
                charge.purpose if show_queries else redact(charge.purpose),
                "–" if cost is None else cost.figures,
            )
        )
    head = ("no.", "time (UTC)", *(("who",) if named else ()), "purpose", "on its own")
    kinds = ("short", "short", *(("by",) if named else ()), "purpose", "short")
    older = many - len(charges)
    return [
        pages.heading("Newest charges"),
        pages.table(head, rows, kinds=kinds, label="Newest charges"),
        pages.paragraph("Charges do not add up to what was spent: together they cost less."),
        pages.paragraph(f"{older:,} earlier charges are not listed.") if older else "",
    ]
