"""What a run says of itself while it goes on: public progress, private statistics, and what an auditor may watch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import torch
from torch import Tensor

from deniable.deep.plan import Plan


@dataclass(frozen=True)
class Progress:
    """Where a run stands. Everything here is public.

    >>> from deniable.guarantees import ApproxDP
    >>> plan = Plan(examples=1000, batch=10, steps=300, clip=1, target=ApproxDP(3, 1e-5))
    >>> print(Progress(12, plan, charged=True))
    step 12 of 300; charged for the whole plan: ε ≤ 3.00, δ = 1e-5, one record added or removed
    """

    step: int
    plan: Plan
    charged: bool

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
        """The share of units whose gradient was shortened."""
        return float((self.norms > self.clip).double().mean()) if self.norms.numel() else 0.0

    def quantiles(self, at: tuple[float, ...] = (0.1, 0.5, 0.9)) -> tuple[float, ...]:
        """Quantiles of the gradient norms before clipping."""
        if not self.norms.numel():
            return tuple(0.0 for _ in at)
        found = torch.quantile(self.norms.double().cpu(), torch.tensor(at, dtype=torch.float64))
        return tuple(found.tolist())

    @property
    def loss(self) -> float:
        """The mean loss of the batch."""
        return float(self.losses.double().sum()) / self.rows if self.rows else 0.0

    def __str__(self) -> str:
        low, middle, high = self.quantiles()
        return (
            f"private, do not publish: loss {self.loss:.4g}, {self.clipped:.0%} of gradients clipped,"
            f" norms {low:.3g} / {middle:.3g} / {high:.3g} (10 % / 50 % / 90 %)"
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
