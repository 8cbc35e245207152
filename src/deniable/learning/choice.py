"""Choosing a method by its own bound, before any record is read.

Every method that applies predicts the excess of the average loss from n, d, ε, δ and the loss's constants. The smallest
prediction wins. The table holds all methods with their predictions, and for those that do not apply the precondition
that fails, so that the choice explains itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from deniable.errors import DeniableError, NotSupported
from deniable.learning.optimizers.base import Method, MethodPlan, Task


@dataclass(frozen=True)
class MethodEntry:
    """One method's line in the table."""

    name: str
    risk: float
    note: str


@dataclass(frozen=True)
class MethodChoice:
    """The method that was taken, its plan, and what all methods predicted."""

    plan: MethodPlan
    method: Method
    table: tuple[MethodEntry, ...]

    @property
    def name(self) -> str:
        return self.method.name

    def __str__(self) -> str:
        width = max(len(entry.name) for entry in self.table)
        lines = [f"{'solver'.ljust(width)}  predicted excess risk"]
        for entry in self.table:
            shown = f"{entry.risk:.4g}" if math.isfinite(entry.risk) else "-"
            mark = "  <- chosen" if entry.name == self.name else ""
            lines.append(f"{entry.name.ljust(width)}  {shown.ljust(10)} {entry.note}{mark}".rstrip())
        return "\n".join(lines)


def choose(task: Task, methods: Sequence[Method], *, otherwise: MethodChoice | None = None) -> MethodChoice:
    """The applicable method with the smallest predicted excess risk; `otherwise` where none applies, or an error."""
    entries, best = [], None
    for method in methods:
        try:
            plan = method.plan(task)
        except DeniableError as refusal:
            entries.append(MethodEntry(method.name, math.inf, str(refusal)))
            continue
        except ArithmeticError:
            entries.append(MethodEntry(method.name, math.inf, str(method.refuse("its numbers leave floating point."))))
            continue
        entries.append(MethodEntry(method.name, plan.risk, method.theorem))
        if best is None or plan.risk < best[0].risk:
            best = plan, method
    if best is None and otherwise is not None:
        return otherwise
    if best is None:
        reasons = " ".join(f"{entry.name}: {entry.note}" for entry in entries)
        raise NotSupported(f"no solver applies. {reasons}")
    return MethodChoice(best[0], best[1], tuple(entries))
