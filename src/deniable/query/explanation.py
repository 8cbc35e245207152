"""A plan in words: what the printed plan and the notebook's view both show.

Everything here is public. Where something was left out of the request, the line says which rule took its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from deniable import _checks
from deniable._checks import shown
from deniable._escapes import printable
from deniable.guarantees.printing import small
from deniable.query.aggregates.base import rounded
from deniable.query.thresholds import KEYS

if TYPE_CHECKING:
    from deniable.query.planning import QueryPlan
    from deniable.query.staging import StagedPlan
    from deniable.query.surveys import Survey


@dataclass(frozen=True)
class Words:
    """A plan: the question, facts by name, what is measured, the expected errors, and the SQL of each stage."""

    question: str
    facts: tuple[tuple[str, str], ...]
    measured: tuple[tuple[str, ...], ...]
    errors: tuple[tuple[str, str], ...]
    sql: tuple[tuple[str, str], ...]

    def text(self, *, sql: bool) -> str:
        """For a terminal."""
        width = max(len(name) for name, _ in self.facts) + 2
        lines = [printable(self.question), ""]
        lines += [*(f"{name:<{width}}{printable(fact)}" for name, fact in self.facts), ""]
        lines += [*aligned(self.measured), "", *aligned(self.errors)]
        if sql:
            several = len(self.sql) > 1
            for what, text in self.sql:
                lines += ["", *([f"-- {printable(what)}"] if several else []), printable(text, lines=True)]
        return "\n".join(lines)


def explain(plan: QueryPlan, *, sql: bool) -> str:
    """Question, cost, rules, split and expected error; with `sql`, what the engine will run."""
    return words(plan).text(sql=sql)


def explain_stages(plan: StagedPlan, *, sql: bool) -> str:
    """The same of a plan in stages."""
    return staged_words(plan).text(sql=sql)


def words(plan: QueryPlan) -> Words:
    """A plain plan in words."""
    facts = [("cost", str(plan.cost)), *_keys(plan), *_joins(plan), ("limits", _limits(plan))]
    facts += [*_bounds(plan), *_split(plan)]
    errors = [(name, str(error)) for name, error in plan.error.items()]
    return Words(
        " ".join(plan.sql.split()),
        tuple(facts),
        (_header(plan), *(_measured(plan, place) for place in range(len(plan.noises)))),
        (("released", f"error of the noise, {percent(plan)}"), *errors),
        _written(plan, "answer"),
    )


def staged_words(plan: StagedPlan) -> Words:
    """A plan in stages in words."""
    answer, searched = plan.answer, {survey.column for survey in plan.bounds}
    facts = [("cost", str(plan.cost)), *_keys(answer, known=plan.limits is None), *_joins(answer)]
    if plan.limits is None:
        facts.append(("limits", _limits(answer)))
    else:
        most = answer.limits
        facts.append(("limits", f"to be found with ε = {_short(plan.limits)}, at most {_within(answer, most.groups)}"))
    facts += [(name, fact) for column, name, fact in _bounds_by_column(answer) if column not in searched]
    facts += [
        ("bounds", f"{survey.column.name}: to be found with ε = {_short(survey)}, clamped to them then")
        for survey in plan.bounds
    ]
    facts += _split(answer)
    if plan.diagnosis is not None:
        facts.append(("bias", f"ε = {_short(plan.diagnosis)} for the share of {plan.diagnosis.name}"))
    rows = [_surveyed(survey, known=True) for survey in plan.surveys]
    for place in range(len(answer.noises)):
        name, epsilon, *noise = _measured(answer, place)
        rows.append((name, epsilon, *noise) if plan.settled else (name, epsilon, "set by what is found", ""))
    if plan.diagnosis is not None:
        rows.append(_surveyed(plan.diagnosis, known=plan.limits is None))
    errors = [
        (a.name, str(plan.error[a.name]) if plan.settled else "known once the bounds and limits are found")
        for a in answer.aggregates
    ]
    stages = [*plan.surveys, *([plan.diagnosis] if plan.diagnosis is not None else [])]
    written = answer.engine.written
    title = "answer" if plan.settled else "answer, with the bounds and limits found in place of the widest"
    return Words(
        " ".join(plan.sql.split()),
        tuple(facts),
        (_header(answer), *rows),
        (("released", f"error of the noise, {percent(answer)}"), *errors),
        (*((stage.name, written(stage.sql)) for stage in stages), *_written(answer, title)),
    )


def _written(plan: QueryPlan, title: str) -> tuple[tuple[str, str], ...]:
    """The SQL of an answer; where there is a shortcut, with the question that decides."""
    text, easy = plan.engine.written(plan.bounded), plan.bounded.shortcut
    if easy is None:
        return ((title, text),)
    noun = plan.cost.unit.noun
    return (
        (f"how many {noun}s are not surely within the limits?", easy.check),
        (f"{title}, if there are none", easy.plain),
        (f"{title}, if there are some", text),
    )


def _joins(plan: QueryPlan) -> list[tuple[str, str]]:
    """Private tables that are joined count with one row per key."""
    noun = plan.cost.unit.noun
    return [
        ("joins", f"{join.table.name}: one row per {', '.join(join.columns)}, the first of each {noun}'s")
        for join in plan.question.joins
        if not join.table.public
    ]


def percent(plan: QueryPlan) -> str:
    """The plan's confidence."""
    return f"{shown(plan.confidence * 100)} %"


def _header(plan: QueryPlan) -> tuple[str, ...]:
    return ("measured", "ε", "noise scale", f"most one {plan.cost.unit.noun} moves")


def _keys(plan: QueryPlan, *, known: bool = True) -> list[tuple[str, str]]:
    """The keys; `known` says whether the limits, on which a threshold rests, are."""
    return [
        ("keys", f"{k.column.name}: {len(k.values):,} declared, all of them released; rows with others are left out")
        for k in plan.keys
        if k.values is not None
    ] + _found_keys(plan, known=known)


def _found_keys(plan: QueryPlan, *, known: bool) -> list[tuple[str, str]]:
    """Keys that come from the data, and what it takes to be shown."""
    part = plan.threshold
    if part is None or part.threshold is None:
        return []
    names = ", ".join(k.column.name for k in plan.keys if k.values is None)
    noun = plan.cost.unit.noun
    least = f"at least {part.threshold.threshold:,}" if known else "large enough for the limits found"
    share = ", a hundredth of what the ledger has left" if plan.options.delta is None else ""
    cost = f"which costs δ = {small(part.threshold.delta)}{share}"
    return [
        ("keys", f"{names}: found in the data; a group is released if its noisy number of {noun}s is {least}, {cost}")
    ]


def _limits(plan: QueryPlan) -> str:
    unit, limits = plan.cost.unit, plan.limits
    if unit.column is None:
        return "every row is protected on its own"
    rows = f"{limits.rows} row{'s' if limits.rows > 1 else ''}"
    if not plan.keys:
        return f"{rows} of each {unit.noun}; a keyed hash leaves out the rest"
    groups = f"{limits.groups} of {plan.groups} groups" if plan.groups is not None else f"{limits.groups} groups"
    return f"{groups}, {rows} per group, of each {unit.noun}; a keyed hash leaves out the rest"


def _within(plan: QueryPlan, groups: int) -> str:
    rows = f"{plan.limits.rows} rows of each {plan.cost.unit.noun}"
    of = "" if plan.groups is None else f" of {plan.groups}"
    return f"{groups}{of} groups and {rows} in each" if plan.keys else rows


def _bounds(plan: QueryPlan) -> list[tuple[str, str]]:
    return [(name, fact) for _, name, fact in _bounds_by_column(plan)]


def _bounds_by_column(plan: QueryPlan) -> list[tuple[object, str, str]]:
    found: list[tuple[object, str, str]] = []
    for values in plan.bounded.values:
        grid = getattr(values, "grid", None)
        if grid is not None:
            low, high, step = (shown(number) for number in (grid.low, grid.high, grid.step))
            fact = f"{values.column.name} clamped to [{low}, {high}], in steps of {step}"
            if (values.column, "bounds", fact) not in found:
                found.append((values.column, "bounds", fact))
    return found


def _split(plan: QueryPlan) -> list[tuple[str, str]]:
    names = list(dict.fromkeys([*(a.name for a in plan.aggregates), *([KEYS] if plan.threshold is not None else [])]))
    if len(names) < 2:
        return []
    if not plan.options.weights:
        return [("split", f"equal parts for {', '.join(names)}")]
    parts = (f"{name} {shown(_checks.exact(plan.options.weights.get(name, 1)))}" for name in names)
    return [("split", " : ".join(parts))]


def _measured(plan: QueryPlan, place: int) -> tuple[str, ...]:
    noise = plan.noises[place]
    step = noise.measure.step
    moved = shown(noise.move.sensitivity * step)
    return (noise.measure.name, _figure(noise.epsilon), rounded(float(noise.scale * step)), moved)


def _surveyed(survey: Survey, *, known: bool) -> tuple[str, ...]:
    if not known:
        return (survey.name, _short(survey), "set by what is found", "")
    return (survey.name, _short(survey), rounded(float(survey.scale)), shown(survey.event.sensitivity))


def _short(survey: Survey) -> str:
    return _figure(survey.epsilon)


def _figure(epsilon: Fraction) -> str:
    """An ε as a decimal; where it has no short one, to six digits."""
    text = shown(epsilon)
    return text if "/" not in text and len(text) <= 10 else f"{float(epsilon):.6g}"


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[bool] = ()) -> list[str]:
    """Rows of text in columns two spaces apart; `right` says which columns hold numbers."""
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if i < len(right) and right[i] else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
