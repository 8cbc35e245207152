"""What a run and a day may cost, and what needs a second person: limits of ε and δ together.

A limit of ε alone limits nothing: an answer that costs ε = 0.01 and δ = 0.5 may be the exact one half of the time. So a
limit always has a δ, and what is not stated in ε and δ is refused where there is a limit.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP, Guarantee, PureDP
from deniable.query.planning import DELTA_SHARE, UNCOUNTED_DELTA
from deniable.service.settings import ServiceSettings
from deniable.service.store import RunRow


class RunCost(NamedTuple):
    """The ε and δ of a run."""

    epsilon: Fraction
    delta: Fraction

    @classmethod
    def of(cls, cost: Guarantee) -> RunCost | None:
        """What a plan costs; None where that is not stated in ε and δ. An ε of Rényi order is another number."""
        if isinstance(cost, ApproxDP):
            return cls(cost.epsilon, cost.delta)
        return cls(cost.epsilon, Fraction(0)) if isinstance(cost, PureDP) else None


class CostLimit(NamedTuple):
    """The most ε and the most δ."""

    epsilon: Fraction
    delta: Fraction

    @classmethod
    def of(cls, epsilon: float | None, delta: float | None, budget: Guarantee) -> CostLimit | None:
        """A limit as the settings state it; None where they state none.

        A δ that is left out is the share of the budget's δ that the ε is of its ε, and not less than what a plan takes
        by default.
        """
        if epsilon is None:
            return None
        most = Fraction(str(epsilon))
        if delta is not None:
            return cls(most, Fraction(str(delta)))
        if isinstance(budget, ApproxDP):
            share = min(Fraction(1), most / budget.epsilon) if budget.epsilon else Fraction(1)
            return cls(most, budget.delta * max(share, DELTA_SHARE))
        return cls(most, Fraction(0) if isinstance(budget, PureDP) else UNCOUNTED_DELTA)

    def admits(self, cost: RunCost | None) -> bool:
        """Whether a cost is within both."""
        return cost is not None and cost.epsilon <= self.epsilon and cost.delta <= self.delta

    def check(self, cost: RunCost | None, *, day: CostLimit | None = None) -> None:
        """Refuse a cost beyond the limit, of which `day` is the whole where this is what is left of a day."""
        if cost is None:
            raise InvalidArgument("cost", "…", "stated in ε and δ here", "The service limits what a run may cost.")
        for name, most in self._asdict().items():
            if getattr(cost, name) > most:
                whole = "in one run here" if day is None else f"now, of {float(getattr(day, name)):g} for a day"
                raise InvalidArgument(name, float(getattr(cost, name)), f"at most {float(most):g} {whole}")


class CostPolicy:
    """The limits of one service."""

    def __init__(self, settings: ServiceSettings, budget: Guarantee) -> None:
        self._run = CostLimit.of(settings.most_epsilon_per_run, settings.most_delta_per_run, budget)
        self._day = CostLimit.of(settings.most_epsilon_per_day, settings.most_delta_per_day, budget)
        self._alone = CostLimit.of(settings.approval_above, settings.approval_above_delta, budget)

    def check_run(self, cost: RunCost | None) -> None:
        """Refuse a run that costs too much, whatever else was asked."""
        for limit in (self._run, self._day):
            if limit is not None:
                limit.check(cost)

    @property
    def limits_days(self) -> bool:
        """Whether the other runs of a day count."""
        return self._day is not None

    def check_day(self, cost: RunCost | None, runs: Iterable[RunRow]) -> None:
        """Refuse a run that costs too much beside the others of its day."""
        left = self._day
        if left is None:
            return
        for run in runs:
            # A run that was paid before there was a limit, in other numbers, leaves nothing of its day.
            spent = RunCost(Fraction(run.epsilon), Fraction(run.delta or 0)) if run.epsilon else RunCost(*left)
            left = CostLimit(max(Fraction(0), left.epsilon - spent.epsilon), max(Fraction(0), left.delta - spent.delta))
        left.check(cost, day=self._day)

    def needs_approval(self, cost: RunCost | None) -> bool:
        """Whether a second person must approve a run."""
        return self._alone is not None and not self._alone.admits(cost)
