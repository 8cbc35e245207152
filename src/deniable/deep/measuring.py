"""The runtime of what a step releases beside the gradients (`deniable.deep.measures`): the clip that adapts, the series
of losses, and their state in a checkpoint. All of it is public."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from deniable.deep.clips import LEAST, MOST, AdaptiveClipping
from deniable.deep.measures import SeriesPoint, deviation, release
from deniable.deep.plan import Plan
from deniable.deep.randomness import Generator
from deniable.errors import DataError


class Measuring:
    """What was released so far, and what the next step clips to."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._adapted = float(plan.clip) if isinstance(plan.clipping, AdaptiveClipping) else None
        self.series: list[SeriesPoint] = []

    def clip(self, step: int) -> Fraction:
        """What a step (from 0) clips to."""
        return self._plan.at(step).clip if self._adapted is None else Fraction(self._adapted)

    def take(self, step: int, norms: Tensor, losses: Tensor, generator: Generator) -> None:
        """Release what the plan releases of a step (from 0), each with its share of the noise."""
        plan, numbers = self._plan, self._plan.at(step)
        if not plan.shares:
            return
        source = generator.source(step, purpose="measures")

        def mean(values: Tensor, share: Fraction) -> float:
            """Over the expected batch, of values between −1 and 1, with noise."""
            noisy = release(values, multiplier=numbers.noise_multiplier, share=share, source=source)
            return noisy / float(numbers.batch)

        if isinstance(plan.clipping, AdaptiveClipping):
            clip = float(self.clip(step))
            fraction = (mean(torch.where(norms <= clip, 1.0, -1.0), plan.clipping.share) + 1) / 2
            self._adapted = plan.clipping.next(clip, fraction, first=plan.clip)
        if plan.series is not None:
            bound = float(plan.series.bound)
            each = losses.double().reshape(-1, plan.rows_per_unit * plan.augmentations).sum(1) / plan.rows_per_unit
            unread = each.new_full((len(norms) - len(each),), bound)
            values = torch.cat([each.nan_to_num(nan=bound).clamp(0, bound), unread]) * (2 / bound) - 1
            loss = (mean(values, plan.series.share) + 1) * bound / 2
            spread = deviation(numbers.noise_multiplier, plan.series.share) / float(numbers.batch)
            self.series.append(SeriesPoint(step + 1, loss, spread * bound / 2))

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"clip": self._adapted, "series": [list(point) for point in self.series]}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state that `state` gave."""
        clip = state["clip"]
        if (clip is None) != (self._adapted is None) or not (clip is None or float(LEAST) <= clip <= float(MOST)):
            raise DataError("the checkpoint holds a clip that its plan does not find")
        self._adapted, self.series = clip, [SeriesPoint(*point) for point in state["series"]]
