"""The method note: who is protected, what was charged, by which theorem, which noise, how to read the intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deniable._checks import shown
from deniable._escapes import escape_markdown, fence, printable
from deniable.guarantees import PureDP
from deniable.ledger import Charge
from deniable.query.explanation import Words, staged_words, words
from deniable.query.limits import AtMost
from deniable.query.planning import QueryPlan

if TYPE_CHECKING:
    from deniable.query.publication.publication import Publication
    from deniable.query.staging import Plan

_NOISE = (
    "Noise is added to exact whole numbers and has exactly the discrete Laplace law stated, from a cryptographic "
    "source of randomness. With sensitivity D and scale D/ε it is ε-differentially private (Ghosh, Roughgarden and "
    "Sundararajan 2009)."
)
_BASIC = (
    "The ε of all measurements add up to the ε charged (basic composition; Dwork, McSherry, Nissim and Smith 2006)."
)
_STAGED = (
    "Where bounds or limits were found from the data, they were found with noise, paid for by the stated share, and "
    "the answer's noise was scaled to what was found; its ε was fixed beforehand (adaptive composition; Dwork and "
    "Roth 2014, Theorem B.1)."
)


def method_note(publication: Publication, charge: Charge, facts: Mapping[str, Mapping[str, Any]]) -> str:
    """The note, in Markdown. `facts` holds what surveys found, by table."""
    cost, draft = publication.cost, publication.draft
    unit, noun, one = cost.unit, escape_markdown(cost.unit.noun), escape_markdown(cost.unit.one)
    sure = f"{shown(next(iter(publication.plans.values())).confidence * 100)} %"
    composed = _BASIC if publication.summed or isinstance(cost, PureDP) else (
        f"All measurements together were accounted for as one event by their composed privacy curve "
        f"({publication.method}), at δ = {shown(cost.delta)}."
    )  # fmt: skip
    staged = any(not isinstance(plan, QueryPlan) and not plan.settled for plan in publication.plans.values())
    lines = [
        f"# {escape_markdown(draft.title)}: how these tables were made",
        "",
        "The numbers are not exact. Noise was added so that nobody can tell from them whether any one "
        f"{noun}'s data were used.",
        "",
        "## Who is protected, and what was promised",
        "",
        f"- Protected: {one}, " + (f"by the column {_code(unit.column)}." if unit.column else "each on its own."),
        f"- Promise for all tables of this release together: **{escape_markdown(cost)}**.",
        "- Whatever anybody concludes from these tables, they would have concluded with nearly the same probability "
        f"(a factor of at most e^ε) had {one} been {cost.relation.verb}.",
        f"- Charged as row {charge.seq} of the ledger at {charge.time}; the row's hash is `{charge.hash}`.",
        "",
        "## Why it holds",
        "",
        f"- {_NOISE}",
        f"- {composed}",
        *([f"- {_STAGED}"] if staged else []),
        "- Averages, intervals and rounding are computed from noisy numbers only.",
        "",
        "## How to read the intervals",
        "",
        f"A number `n` comes with `n_low` and `n_high`. With probability {sure} each, the interval holds the number "
        "that the same bounded query would give without noise. It does not cover values that were clamped to their "
        f"bounds, rows of a {noun} beyond the limits, rows that are missing, or what would have come out for "
        "other people. Small and negative counts are left as they are, so that sums stay right on average.",
    ]
    for name, plan in publication.plans.items():
        lines += ["", *_table(publication, name, plan, facts.get(name, {}))]
    return "\n".join(lines) + "\n"


def _table(publication: Publication, name: str, plan: Plan, facts: Mapping[str, Any]) -> list[str]:
    title = next(table.title for table in publication.draft.tables if table.name == name)
    said: Words = words(plan) if isinstance(plan, QueryPlan) else staged_words(plan)
    return [
        f"## {escape_markdown(title)}" if title != name else f"## {_code(name)}",
        "",
        f"File {_code(f'{name}.csv')}.",
        "",
        *fence(plan.sql.strip(), "sql"),
        "",
        *(f"- {label}: {escape_markdown(fact)}" for label, fact in said.facts if label != "cost"),
        f"- part of the cost: {escape_markdown(plan.cost)}",
        *_found(facts),
        "",
        *_grid(said.measured),
        "",
        *_grid(said.errors),
    ]


def _code(name: str) -> str:
    """A name in the type of code."""
    return "`" + printable(name).replace("`", "'") + "`"


def _found(facts: Mapping[str, Any]) -> list[str]:
    """What surveys and the diagnosis said."""
    found = facts.get("found", {})
    lines = [
        f"- found: bounds of {escape_markdown(c)}: [{low:g}, {high:g}]"
        for c, (low, high) in found.get("bounds", {}).items()
    ]
    if found.get("per_unit"):
        lines.append(f"- found: limits: {AtMost(**found['per_unit']).words}")
    seen = facts.get("diagnosis", {})
    if seen.get("left_out"):
        lines.append(f"- left out by the limits: {_share(seen['left_out'])} of the rows")
    lines += [
        f"- clamped: {_share(share)} of the rows, in {escape_markdown(c)}"
        for c, share in seen.get("clamped", {}).items()
    ]
    return lines


def _share(share: Mapping[str, float]) -> str:
    return f"{100 * share['value']:.1f} % ({100 * share['low']:.1f} to {100 * share['high']:.1f})"


def _grid(rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows as a Markdown table."""
    head, *body = [[escape_markdown(cell).replace("|", "\\|") for cell in row] for row in rows]
    return [
        "| " + " | ".join(head) + " |",
        "|" + "---|" * len(head),
        *("| " + " | ".join(row) + " |" for row in body),
    ]
