"""A trainer, watched step by step from outside: one canary, its own gradient, and what every step released.

A `StepWatcher` is an observer of a training run. At each step it computes, by its own plain loop, the gradient of every
unit in the batch at the parameters of that step, shortens each to the clipping norm, and takes the others' share away
from what was released. What is left is noise, plus the canary's clipped gradient where the canary was in the batch. Its
projection on that gradient, in clipping norms, is the score: N(0, σ²) and N(1, σ²) if the plan is kept, for a canary
whose gradient is longer than the clipping norm. The trainer's own clipping, sums and noise are not used.

`judge` attacks the step that the plan claims, twice at half the level: it bets on the scores, which needs no assumption
on their law, and it bounds μ from two normal samples, which a trainer that keeps its plan gives. If the plan is kept, a
score is independent of the past given whether the canary took part, whatever the model does in between. Both cover the
step *given the batch*: that batches are drawn as the plan says is not tested.

The model's forward pass must be the same for the same input (no dropout), a unit must be one row, noise Gaussian.
Nothing here imports a framework: model, loss and rows need the methods of torch's modules and tensors.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from deniable import _checks
from deniable._checks import Number
from deniable.accounting.accountant import account
from deniable.auditing.auditor import audit_scores
from deniable.auditing.report import AuditReport
from deniable.auditing.statistics import Bound, shift_lower
from deniable.errors import InvalidArgument
from deniable.events import Gaussian
from deniable.units import Relation

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class StepAudit:
    """What watching found about one step, given that the canary is in its batch."""

    report: AuditReport
    """The game on the scores, against the plan's step."""

    mu: Bound
    """A lower bound on the step's μ, from the same scores as normal samples."""

    claimed: float
    """The μ of the plan's step."""

    @property
    def refuted(self) -> bool:
        """Whether the trainer does not keep its plan."""
        return self.report.refuted or self.mu.value > self.claimed * (1 + 1e-9)

    def __str__(self) -> str:
        verdict = "refuted" if self.refuted else "consistent"
        return f"{verdict}: {self.mu.statement}, claimed μ = {self.claimed:.4f} for a step with the canary"


class StepWatcher:
    """An observer that scores every step by one canary: `Trainer(..., observers=[watcher])`."""

    def __init__(self, model: Any, loss: Any, *, plan: Any, rows: tuple[Any, Any], canary: int) -> None:
        """`rows` are (x, y) as the trainer gets them; `canary` is the place of a row with a long gradient."""
        if plan.relation is Relation.REPLACE or plan.rows_per_unit != 1 or type(plan.noise).__name__ != "GaussianNoise":
            raise InvalidArgument("plan", plan, "one of Gaussian noise, one row per unit, add/remove or zero-out")
        size = len(rows[1])
        self._canary = _checks.count("canary", canary, least=0)
        if self._canary >= size:
            raise InvalidArgument("canary", canary, f"the place of one of the {size} rows")
        self._model, self._twin = model, copy.deepcopy(model)
        self._loss, self._plan, self._rows = loss, plan, rows
        self.without: list[float] = []
        self.with_: list[float] = []

    def __call__(self, seen: Any) -> None:
        """Score one step; the twin still has the parameters that the step started from."""
        names = [name for name, each in self._twin.named_parameters() if each.requires_grad]
        released = np.concatenate([_numbers(seen.released[name]) for name in names])
        others = [unit for unit in seen.units if unit != self._canary]
        direction = self._clipped(self._canary)
        left = released * float(self._plan.batch) - sum((self._clipped(unit) for unit in others), np.zeros(1))
        score = float(left @ direction) / max(float(np.linalg.norm(direction) * float(self._plan.clip)), 1e-300)
        (self.with_ if self._canary in seen.units else self.without).append(score)
        self._twin.load_state_dict(self._model.state_dict())

    def _clipped(self, unit: int) -> Floats:
        """One unit's gradient at the twin's parameters, no longer than the clipping norm."""
        x, y = self._rows
        self._twin.zero_grad()
        self._loss(self._twin(x[unit : unit + 1]), y[unit : unit + 1]).sum().backward()
        parts = [_numbers(each.grad) for each in self._twin.parameters() if each.requires_grad]
        found = np.concatenate(parts)
        return found * min(1.0, float(self._plan.clip) / max(float(np.linalg.norm(found)), 1e-300))

    def judge(self, *, confidence: Number = 0.99, delta: Number = 1e-5, seed: int = 0) -> StepAudit:
        """Attack the plan's step with the scores seen so far."""
        half = (1 + _checks.inner_probability("confidence", confidence)) / 2
        step = Gaussian(self._plan.noise_multiplier, relation=self._plan.relation)
        report = audit_scores(self.without, self.with_, claim=step, confidence=half, delta=delta, seed=seed)
        return StepAudit(
            report, shift_lower(self.without, self.with_, confidence=half), float(1 / self._plan.noise_multiplier)
        )

    def run_epsilon(self, mu: float, *, delta: Number = 1e-5) -> float:
        """ε of the whole run if a step is μ-GDP and sampling and number of steps are as planned."""
        plan, found = self._plan, _checks.positive("mu", mu)
        return account(plan.noise.event(1 / found, plan.relation, plan.sampling, plan.schedule)).epsilon(delta)


def _numbers(tensor: Any) -> Floats:
    """A tensor's numbers in one row."""
    return np.asarray(tensor.detach().cpu().double().numpy()).ravel()
