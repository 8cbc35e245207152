"""Which method a fit takes, and what other methods would predict: before any record is read.

`solver="auto"` is a fixed order of preference by measured results; the first method that applies is taken. Worst-case
bounds do not choose: they rank methods by their constants. `compare` shows them, for who wants a theorem.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
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
class MethodTable:
    """What methods predict: the excess of the average loss, by each one's own bound."""

    entries: tuple[MethodEntry, ...]

    def __str__(self) -> str:
        width = max(len(entry.name) for entry in self.entries)
        lines = [f"{'solver'.ljust(width)}  predicted excess risk"]
        for entry in self.entries:
            shown = f"{entry.risk:.4g}" if math.isfinite(entry.risk) else "-"
            lines.append(f"{entry.name.ljust(width)}  {shown.ljust(10)} {entry.note}".rstrip())
        return "\n".join(lines)


@dataclass(frozen=True)
class MethodChoice:
    """The method that was taken, its plan, and why those before it in the order do not apply."""

    plan: MethodPlan
    method: Method
    refusals: tuple[MethodEntry, ...] = ()

    @property
    def name(self) -> str:
        return self.method.name

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.method.theorem}", *(entry.note for entry in self.refusals)])


def choose(methods: Sequence[Method], plan: Callable[[Method], MethodPlan]) -> MethodChoice:
    """The first method that has a plan; an error with all reasons where none has one."""
    refusals: list[MethodEntry] = []
    for method in methods:
        entry = _entry(method, plan)
        if isinstance(entry, MethodPlan):
            return MethodChoice(entry, method, tuple(refusals))
        refusals.append(entry)
    reasons = " ".join(f"{entry.name}: {entry.note}" for entry in refusals)
    raise NotSupported(f"no solver applies. {reasons}")


def compare(methods: Sequence[Method], task: Task) -> MethodTable:
    """Every method's prediction for a task, or the precondition that fails."""
    entries = []
    for method in methods:
        entry = _entry(method, lambda method: method.plan(task))
        if isinstance(entry, MethodPlan):
            entry = MethodEntry(method.name, entry.risk, method.theorem)
        entries.append(entry)
    return MethodTable(tuple(entries))


def _entry(method: Method, plan: Callable[[Method], MethodPlan]) -> MethodPlan | MethodEntry:
    """A method's plan, or why it has none."""
    try:
        return plan(method)
    except DeniableError as refusal:
        return MethodEntry(method.name, math.inf, str(refusal))
    except ArithmeticError:
        return MethodEntry(method.name, math.inf, str(method.refuse("its numbers leave floating point.")))
