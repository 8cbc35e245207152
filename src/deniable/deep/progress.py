"""What a run says of itself while it goes on: public progress, private statistics, and what an auditor may watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from deniable.deep.plan import Plan
from deniable.ledger import Charge


@dataclass(frozen=True)
class Progress:
    """Where a run stands. Everything here is public.

    >>> from deniable.guarantees import ApproxDP
    >>> plan = Plan(size=1000, batch=10, steps=300, clip=1, target=ApproxDP(3, 1e-5))
    >>> print(Progress(12, plan))
    step 12 of 300; no ledger; the whole plan costs: ε ≤ 3.00, δ = 1e-5, one record added or removed
    """

    step: int
    plan: Plan
    run: str = ""
    """The name of the run."""
    charge: Charge | None = None
    """The row of the ledger that paid for all of it."""
    secure: bool = True
    """Whether nobody can repeat the noise."""

    @property
    def charged(self) -> bool:
        """Whether a ledger has paid."""
        return self.charge is not None

    @property
    def steps(self) -> int:
        """How many there will be."""
        return self.plan.steps

    def __str__(self) -> str:
        paid = "charged for the whole plan" if self.charged else "no ledger; the whole plan costs"
        return f"step {self.step} of {self.steps}; {paid}: {self.plan.guarantee}"


@dataclass(frozen=True)
class PrivateStatistics:
    """Statistics of the last batch, without noise: for your eyes while debugging, never for print."""

    norms: Tensor = field(repr=False)
    losses: Tensor = field(repr=False)
    rows: int = field(repr=False)
    clip: float

    @property
    def clipped(self) -> float:
        """The share of gradients that were shortened."""
        norms = self._finite()
        return float((norms > self.clip).double().mean()) if norms.numel() else 0.0

    @property
    def left_out(self) -> int:
        """How many units contributed nothing: they could not be read, had a form for which the model is not proved,
        made a kernel fail, or had no finite gradient."""
        return int((~torch.isfinite(self.norms)).sum())

    def _finite(self) -> Tensor:
        return self.norms[torch.isfinite(self.norms)]

    def quantiles(self, at: tuple[float, ...] = (0.1, 0.5, 0.9)) -> tuple[float, ...]:
        """Quantiles of the gradient norms before clipping."""
        norms = self._finite()
        if not norms.numel():
            return tuple(0.0 for _ in at)
        found = torch.quantile(norms.double().cpu(), torch.tensor(at, dtype=torch.float64))
        return tuple(found.tolist())

    @property
    def loss(self) -> float:
        """The mean loss of the batch."""
        return float(self.losses.double().nansum()) / self.rows if self.rows else 0.0

    def __str__(self) -> str:
        low, middle, high = self.quantiles()
        return (
            f"private, do not publish: loss {self.loss:.4g}, {self.clipped:.0%} of gradients clipped,"
            f" norms {low:.3g} / {middle:.3g} / {high:.3g} (10 % / 50 % / 90 %)"
            + (f", {self.left_out} of {self.norms.numel()} units left out" if self.left_out else "")
        )


@dataclass(frozen=True)
class Observation:
    """One step as an auditor sees it. `released` is what the guarantee is about; the rest is private."""

    step: int
    released: dict[str, Tensor]
    """The noisy gradients, divided by the expected batch: what the optimizer gets."""

    clipped: dict[str, Tensor]
    """The sums of clipped gradients before noise (integers on the grid for `GridNoise`)."""

    units: list[int]
    """Which units were in the batch."""


Observer: TypeAlias = Callable[[Observation], None]
