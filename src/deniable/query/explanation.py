"""A plan in words and as HTML: what a printed plan and a notebook's view show.

Everything here is public. Where something was left out of the arguments, the line says which rule took its place. HTML
is one self-contained piece, without script, in the colours of the page it is in.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from deniable import _checks
from deniable._checks import shown
from deniable._escapes import escape_html, printable
from deniable.guarantees.printing import small
from deniable.query.answering import KEYS
from deniable.query.choice import AtMost
from deniable.query.estimates import ExpectedError, rounded
from deniable.query.noises import LAPLACE
from deniable.query.values import name as sql_name

if TYPE_CHECKING:
    from deniable.query.planning import QueryPlan
    from deniable.query.release import Release
    from deniable.query.staging import Bounds, StagedPlan
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


def why(plan: QueryPlan) -> str:
    """Why an answer is as noisy as it is, and what would halve the noise."""
    noun, limits = plan.cost.unit.noun, plan.limits
    lines = [
        f"{part.measure.name}: one {noun} may move it by {shown(part.move.sensitivity * part.measure.step)}, and noise "
        f"of scale {rounded(float(part.scale * part.measure.step))} hides that."
        for part in plan.noises
    ]
    halves = ["twice the ε"]
    if plan.unit is not None and limits.rows > 1:
        halves.append(f"half of the rows that count, {replace(limits, rows=max(1, limits.rows // 2))!r}")
    if plan.unit is not None and limits.groups > 1:
        halves.append(f"half of the groups that count, {replace(limits, groups=max(1, limits.groups // 2))!r}")
    if plan.grids:
        halves.append("bounds that are half as wide")
    if len(plan.noises) > 1:
        halves.append(f"fewer aggregates: {len(plan.noises)} measures share the cost")
    lines.append(f"To halve it: {'; or '.join(halves)}. Narrower limits and bounds leave out more people's data.")
    return "\n".join(printable(line) for line in lines)


def words(plan: QueryPlan) -> Words:
    """A plain plan in words."""
    facts = [("cost", str(plan.cost)), *_keys(plan), *_joins(plan), ("limits", _limits(plan))]
    facts += [*_bounds(plan), *_split(plan), *_noise(plan)]
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
    answer, searched, noun = plan.answer, {survey.column for survey in plan.bounds}, plan.cost.unit.noun
    facts = [("cost", str(plan.cost)), *_keys(answer, known=plan.limits is None), *_joins(answer)]
    if plan.limits is None:
        facts.append(("limits", _limits(answer)))
    else:
        within = _within(answer, plan.limits.kinds)
        fact = f"to be found with ε = {_short(plan.limits)}, at most {within}; a {noun} with more is left out"
        facts.append(("limits", fact))
    facts += [(name, fact) for column, name, fact in _bounds_by_column(answer) if column not in searched]
    facts += [
        (
            "bounds",
            f"{survey.column.name}: to be found with ε = {_short(survey)}; a {noun} with a value outside is left out",
        )
        for survey in plan.bounds
    ]
    facts += _split(answer)
    if plan.settled:
        facts += _noise(answer)
    elif answer.alternatives:
        facts.append(("noise", "discrete Laplace or discrete Gaussian, whichever is smaller for what is found"))
    if plan.beyond is not None:
        beyond = f"but for the {noun}s beyond{'' if answer.cuts else ', who are left out'}"
        facts.append(("covers", f"noise and limits, {beyond}; ε = {_short(plan.beyond)} counts them"))
    if plan.diagnosis is not None:
        facts.append(("bias", f"ε = {_short(plan.diagnosis)} for the share of {plan.diagnosis.name}"))
    rows = [_surveyed(survey, known=True) for survey in plan.surveys]
    for place in range(len(answer.noises)):
        name, epsilon, *noise = _measured(answer, place)
        rows.append((name, epsilon, *noise) if plan.settled else (name, epsilon, "set by what is found", ""))
    if plan.beyond is not None:
        rows.append(_surveyed(plan.beyond, known=True))
    if plan.diagnosis is not None:
        rows.append(_surveyed(plan.diagnosis, known=plan.limits is None))
    cases = [] if plan.settled else _cases(plan)
    known = f"error of the noise, {percent(answer)}"
    errors = [(name, str(error)) for name, error in plan.error.items()]
    if not plan.settled:
        known += ", which depends on what is found; for example"
        errors = [
            (a.name, "; ".join(f"{error[a.name]} with {found}" for found, error in cases)) for a in answer.aggregates
        ]
    written = answer.engine.written
    title = "answer" if plan.settled else "answer, with the bounds and limits found in place of the widest"
    return Words(
        " ".join(plan.sql.split()),
        tuple(facts),
        (_header(answer), *rows),
        (("released", known), *errors),
        (*((stage.name, written(stage.sql)) for stage in plan.stages), *_written(answer, title)),
    )


def _cases(plan: StagedPlan) -> list[tuple[str, Mapping[str, ExpectedError]]]:
    """Limits and bounds that may be found, small and larger ones, in words; and what the noise would do with them."""
    cases: list[tuple[str, Mapping[str, ExpectedError]]] = []
    most = 5 if plan.groups is None else min(5, plan.groups)
    for groups, rows, high in ((1, 1, 1), (most, 2, 100)):
        parts = [f"{survey.column.name} within [0, {high}]" for survey in plan.bounds]
        ends: Bounds = {survey.column: (0, high) for survey in plan.bounds}
        limits = None
        if plan.limits is not None:
            limits = AtMost(groups=groups, rows=rows)
            places = f" in {'each of ' if groups > 1 else ''}{groups} group{'s' if groups > 1 else ''}"
            counted = f"{rows} row{'s' if rows > 1 else ''}{places if plan.answer.keys else ''}"
            parts.insert(0, f"{counted} of each {plan.cost.unit.noun}")
        cases.append((" and ".join(parts), plan.settle(ends, limits).error))
    return cases


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
        for join in plan.question.all_joins
        if not join.table.public
    ]


def percent(plan: QueryPlan) -> str:
    """The plan's confidence."""
    return f"{shown(plan.confidence * 100)} %"


def _header(plan: QueryPlan) -> tuple[str, ...]:
    return ("measured", plan.noise.form.symbol, "noise scale", f"most one {plan.cost.unit.noun} moves")


def _keys(plan: QueryPlan, *, known: bool = True) -> list[tuple[str, str]]:
    """The keys; `known` says whether the limits, on which a threshold rests, are."""
    return [
        ("keys", f"{k.column.name}: {len(k.values):,} declared, all of them released; rows with others are left out")
        for k in plan.keys
        if k.values is not None
    ] + _found_keys(plan, known=known)


def _found_keys(plan: QueryPlan, *, known: bool) -> list[tuple[str, str]]:
    """Keys that come from the data, and what it takes to be shown."""
    keys = plan.threshold
    if keys is None or keys.threshold is None:
        return []
    names = ", ".join(k.column.name for k in plan.keys if k.values is None)
    noun = plan.cost.unit.noun
    least = f"at least {keys.threshold.threshold:,}" if known else "large enough for the limits found"
    stated = not plan.options.shared_delta and (plan.options.delta is not None or plan.options.cost is not None)
    whole = getattr(plan.cost, "delta", keys.threshold.delta)
    half = known and keys.threshold.delta < whole
    share = "" if stated else ", a hundredth of what the ledger has left"
    if half:
        share = f", half of the query's{'' if stated else ', which is a hundredth of what the ledger has left'}"
    cost = f"which costs δ = {small(keys.threshold.delta if half else whole)}{share}"
    return [
        ("keys", f"{names}: found in the data; a group is released if its noisy number of {noun}s is {least}, {cost}")
    ]


def _limits(plan: QueryPlan) -> str:
    unit, limits = plan.cost.unit, plan.limits
    if unit.column is None:
        return "every row is protected on its own"
    rows = f"{limits.rows} row{'s' if limits.rows > 1 else ''}"
    rest = f"a {unit.noun} with more is left out" if plan.options.whole_limits else "a keyed hash leaves out the rest"
    if not plan.keys:
        return f"{rows} of each {unit.noun}; {rest}"
    groups = f"{limits.groups} of {plan.groups} groups" if plan.groups is not None else f"{limits.groups} groups"
    total = "" if limits.total is None else f", {limits.total} rows in all"
    return f"{groups}, {rows} per group{total}, of each {unit.noun}; {rest}"


def _within(plan: QueryPlan, kinds: Container[str]) -> str:
    """The widest limits that can be found."""
    of = "" if plan.groups is None else f" of {plan.groups}"
    parts = [f"{plan.limits.groups}{of} groups"] if "groups" in kinds else []
    parts += [f"{plan.limits.rows} rows"] if "total" in kinds else []
    return f"{' and '.join(parts)} of each {plan.cost.unit.noun}"


def _bounds(plan: QueryPlan) -> list[tuple[str, str]]:
    return [(name, fact) for _, name, fact in _bounds_by_column(plan)]


def _bounds_by_column(plan: QueryPlan) -> list[tuple[object, str, str]]:
    found: list[tuple[object, str, str]] = []
    for values in plan.bounded.values:
        grid = getattr(values, "grid", None)
        if grid is not None:
            low, high, step = (shown(number) for number in (grid.low, grid.high, grid.step))
            fact = f"{values.column.name} clamped to [{low}, {high}], in steps of {step}"
            if sql_name(values.column) in plan.options.whole_bounds:
                owner = "row" if plan.cost.unit.column is None else plan.cost.unit.noun
                fact = f"{values.column.name} in [{low}, {high}], in steps of {step}; a {owner} outside is left out"
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
    if plan.noise.form is LAPLACE:
        moved = shown(noise.move.sensitivity * step)
    else:
        moved = f"{rounded(float(noise.move.squared) ** 0.5 * float(step))} in L2"
    return (noise.measure.name, _figure(noise.amount), rounded(float(noise.scale * step)), moved)


def _noise(plan: QueryPlan) -> list[tuple[str, str]]:
    """That the noise is Gaussian, and what Laplace noise would give, where there was a choice."""
    if plan.noise.form is LAPLACE:
        return []
    fact = plan.noise.form.words
    for other in plan.alternatives:
        if other.form is LAPLACE:
            name, error = next(iter(plan.errors(other).items()))
            fact += f"; with {other.form.words} noise {name} would have {error}"
    return [("noise", fact)]


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


_FRAME = "font-family:system-ui,sans-serif;line-height:1.45;max-width:60rem"
_CELL = "padding:.15rem .8rem .15rem 0;border:0;background:none;vertical-align:middle"
_FAINT = "opacity:.65"
_BAR = 100


def plan_html(plan: Words) -> str:
    """A plan: the question, its rules, what is measured, the expected errors; the SQL folded away."""
    stages = "".join(
        f"<details><summary>SQL: {escape_html(what)}</summary>"
        f"<pre style='white-space:pre-wrap'>{escape_html(text)}</pre></details>"
        for what, text in plan.sql
    )
    return _framed(
        f"<pre style='margin:0 0 .6rem;white-space:pre-wrap'>{escape_html(plan.question)}</pre>",
        _facts(plan.facts),
        _table(plan.measured[0], plan.measured[1:], numbers={1, 2, 3}),
        _table(plan.errors[0], plan.errors[1:]),
        stages,
    )


def release_html(release: Release, shown: Sequence[Sequence[str]], *, names: Sequence[str], note: str) -> str:
    """A release: per number its value, its interval and a bar of it; below, the facts. `shown` holds the printed cells
    by row, `names` the released numbers; `note` follows the rows."""
    ends = {name + ending for name in names for ending in ("_low", "_high")}
    head = "".join(
        f"<th colspan='{3 if name in names else 1}' style='{_CELL};text-align:left;font-weight:600'>"
        f"{escape_html(name)}</th>"
        for name in release.columns
        if name not in ends
    )
    spans = {name: _span(release.columns, name) for name in names}
    body = []
    for place, row in enumerate(shown):
        cells = dict(zip(release.columns, row, strict=True))
        parts = []
        for name, cell in cells.items():
            if name in spans:
                low, high = escape_html(cells[f"{name}_low"]), escape_html(cells[f"{name}_high"])
                parts.append(_td(escape_html(cell), right=True))
                parts.append(_td(f"{low} to {high}", right=True, faint=True))
                parts.append(_td(_bar(release.columns, name, place, spans[name])))
            elif name not in ends:
                parts.append(_td(escape_html(cell)))
        body.append(f"<tr style='background:none'>{''.join(parts)}</tr>")
    below = f"<div style='{_FAINT}'>{escape_html(note)}</div>" if note else ""
    return _framed(_grid(head, "".join(body)), below, _facts(release.facts))


def _framed(*parts: str) -> str:
    return f"<div style='{_FRAME}'>{''.join(parts)}</div>"


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(
        f"<tr style='background:none'><td style='{_CELL};{_FAINT};text-align:left'>{escape_html(name)}</td>"
        f"<td style='{_CELL};text-align:left'>{escape_html(fact)}</td></tr>"
        for name, fact in facts
    )
    return f"<table style='border-collapse:collapse;border:0;margin:.4rem 0'>{rows}</table>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Container[int] = ()) -> str:
    """A table of text; the columns in `numbers` are set to the right."""
    head = "".join(
        f"<th style='{_CELL};text-align:{'right' if i in numbers else 'left'};font-weight:600'>{escape_html(name)}</th>"
        for i, name in enumerate(header)
    )
    lines = ("".join(_td(escape_html(cell), right=i in numbers) for i, cell in enumerate(row)) for row in rows)
    body = "".join(f"<tr style='background:none'>{line}</tr>" for line in lines)
    return _grid(head, body)


def _grid(head: str, body: str) -> str:
    return (
        "<table style='border-collapse:collapse;border:0;margin:.4rem 0'>"
        f"<thead><tr style='background:none;border-bottom:1px solid currentColor'>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def _td(cell: str, *, right: bool = False, faint: bool = False) -> str:
    style = f"{_CELL};text-align:{'right' if right else 'left'};font-variant-numeric:tabular-nums;white-space:nowrap"
    return f"<td style='{style}{';' + _FAINT if faint else ''}'>{cell}</td>"


def _span(columns: dict[str, list[Any]], name: str) -> tuple[float, float]:
    """The range of the column's bars: from the least low end to the greatest high end, 0 included."""
    ends = [float(x) for ending in ("_low", "_high") for x in columns[name + ending] if math.isfinite(x)]
    return min([0.0, *ends]), max([0.0, *ends])


def _bar(columns: dict[str, list[Any]], name: str, place: int, span: tuple[float, float]) -> str:
    """One interval as a line with a dot at the value."""
    value, low, high = (float(columns[name + ending][place]) for ending in ("", "_low", "_high"))
    wide = span[1] - span[0]
    if not all(map(math.isfinite, (value, low, high))) or not wide > 0:
        return ""
    x, a, b = (4 + (_BAR - 8) * (min(max(end, span[0]), span[1]) - span[0]) / wide for end in (value, low, high))
    title = f"{escape_html(name)}: {low:g} to {high:g}"
    return (
        f"<svg width='{_BAR}' height='14' role='img' aria-label='{title}'><title>{title}</title>"
        f"<line x1='{a:.1f}' x2='{b:.1f}' y1='7' y2='7' stroke='currentColor' stroke-width='2' opacity='.45'/>"
        f"<circle cx='{x:.1f}' cy='7' r='3' fill='currentColor'/></svg>"
    )
