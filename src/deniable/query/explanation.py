"""A plan in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deniable._checks import shown
from deniable.query.aggregates.base import rounded

if TYPE_CHECKING:
    from deniable.query.planning import QueryPlan


def explain(plan: QueryPlan, *, sql: bool) -> str:
    """Question, cost, limits, split and expected error; with `sql`, what the engine will run."""
    unit = plan.cost.unit
    lines = [" ".join(plan.sql.split()), "", f"cost    {plan.cost}", f"limits  {_limits(plan)}"]
    for values in dict.fromkeys(n.measure.values for n in plan.noises if n.measure.summed):
        if values is not None and values.grid is not None:
            low, high, step = (shown(number) for number in (values.grid.low, values.grid.high, values.grid.step))
            lines.append(f"bounds  {values.column.name} clamped to [{low}, {high}], in steps of {step}")
    lines.append("")
    header = ("measured", "ε", "noise scale", f"most one {unit.noun} moves")
    lines += aligned([header, *(_measured(plan, place) for place in range(len(plan.noises)))])
    lines.append("")
    sure = f"{shown(plan.confidence * 100)} %"
    errors = [(name, str(error)) for name, error in plan.error.items()]
    lines += aligned([("released", f"error of the noise, {sure}"), *errors])
    if sql:
        lines += ["", plan.bounded.text]
    return "\n".join(lines)


def _limits(plan: QueryPlan) -> str:
    unit, limits = plan.cost.unit, plan.limits
    if unit.column is None:
        return "every row is protected on its own"
    rows = f"{limits.rows} row{'s' if limits.rows > 1 else ''}"
    if not plan.keys:
        return f"{rows} of each {unit.noun}; a keyed hash leaves out the rest"
    groups = f"{limits.groups} of {plan.groups} groups"
    return f"{groups}, {rows} per group, of each {unit.noun}; a keyed hash leaves out the rest"


def _measured(plan: QueryPlan, place: int) -> tuple[str, ...]:
    noise = plan.noises[place]
    step = noise.measure.step
    moved = shown(noise.move.sensitivity * step)
    return (noise.measure.name, shown(noise.epsilon), rounded(float(noise.scale * step)), moved)


def aligned(rows: Sequence[Sequence[str]], *, right: Sequence[bool] = ()) -> list[str]:
    """Rows of text in columns two spaces apart; `right` says which columns hold numbers."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [
            cell.rjust(width) if i < len(right) and right[i] else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
    return lines
