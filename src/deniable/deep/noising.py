"""The runtime of each kind of noise: clipped sums of one step in, noisy sums out.

A kind with memory (correlated noise) implements the same three methods and keeps its state in `state`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

from deniable import noise as exact
from deniable.deep.correlated import CorrelatedNoise
from deniable.deep.noises import MOST_PARAMETERS, GaussianNoise, GridNoise, LaplaceNoise, NoiseShares, StepNoise
from deniable.deep.plan import Plan
from deniable.deep.randomness import Generator
from deniable.errors import DataError, NotSupported
from deniable.noise.discrete import SPREAD
from deniable.numerics.rounding import float_above

Sums = dict[str, Tensor]


class Noising(ABC):
    """Adds the noise of a plan, step by step."""

    @abstractmethod
    def add(self, sums: Sums, *, step: int, generator: Generator, clip: Fraction | None = None) -> Sums:
        """The sums with the noise of a step, still to be divided by the expected batch. They may take the place of the
        given ones. `clip` is what they were clipped to, if that is not what the plan says of the step."""

    def state(self) -> dict[str, Any]:
        """What a checkpoint must keep; nothing for noise that is independent from step to step."""
        return {}

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state that `state` gave."""
        if state:
            raise DataError("the checkpoint holds a state of the noise, and this noise has none")


class FloatNoising(Noising):
    """Floating-point noise of one law, scale `noise_multiplier` × clip, the product rounded up."""

    def __init__(self, plan: Plan, law: str, *, share: Fraction = Fraction(1)) -> None:
        self._plan, self.law, self._share = plan, law, share

    def scale(self, step: int, clip: Fraction | None = None) -> float:
        """The scale of the noise of a step (from 0)."""
        numbers = self._plan.at(step)
        return float_above(numbers.gradient_multiplier * (numbers.clip if clip is None else clip) * self._share)

    def add(self, sums: Sums, *, step: int, generator: Generator, clip: Fraction | None = None) -> Sums:
        generator.add(self.law, list(sums.values()), scale=self.scale(step, clip), step=step)
        return sums


class GridNoising(Noising):
    """Exact discrete Gaussian noise on integer sums, then back to real numbers; see `noises.GridNoise`."""

    def __init__(self, plan: Plan, noise: GridNoise) -> None:
        self._plan, self._steps = plan, 2**noise.bits

    def add(self, sums: Sums, *, step: int, generator: Generator, clip: Fraction | None = None) -> Sums:
        numbers = self._plan.at(step)
        variance = (numbers.gradient_multiplier * self._steps) ** 2 + SPREAD
        unit = float((numbers.clip if clip is None else clip) / self._steps)
        size = sum(each.numel() for each in sums.values())
        if size > MOST_PARAMETERS:
            raise NotSupported(f"grid noise states its leak for at most {MOST_PARAMETERS} parameters")
        drawn = exact.discrete_gaussian(variance=variance, size=size, source=generator.source(step, purpose="noise"))
        noisy: Sums = {}
        start = 0
        for name, each in sums.items():
            stop = start + each.numel()
            total = exact.add(each.cpu().numpy().reshape(-1), drawn[start:stop])
            noisy[name] = (torch.from_numpy(total.astype("float64")) * unit).float().view(each.shape)
            start = stop
        return noisy


@singledispatch
def noising(noise: StepNoise, plan: Plan) -> Noising:
    """The runtime of a plan's noise."""
    raise NotSupported(f"{noise!r} has no runtime here; use GaussianNoise, LaplaceNoise or GridNoise")


@noising.register
def _(noise: GaussianNoise, plan: Plan) -> Noising:
    return FloatNoising(plan, "normal")


@noising.register
def _(noise: NoiseShares, plan: Plan) -> Noising:
    return FloatNoising(plan, "normal", share=noise.share)


@noising.register
def _(noise: CorrelatedNoise, plan: Plan) -> Noising:
    from deniable.deep.correlating import CorrelatedNoising  # it builds on this module

    return CorrelatedNoising(plan, noise)


@noising.register
def _(noise: LaplaceNoise, plan: Plan) -> Noising:
    return FloatNoising(plan, "laplace")


@noising.register
def _(noise: GridNoise, plan: Plan) -> Noising:
    return GridNoising(plan, noise)
