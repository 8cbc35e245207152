"""The runtime of correlated noise: fresh normal numbers every step, corrected by a stream's memory.

The noise of every number of the model is a stream of its own, and only that number's earlier noise enters it. So the
numbers can lie on several devices or ranks: whoever draws the noise of a number holds its memory, from the first step
to the last. Where a step failed on one rank and another's streams went on, only the former skip it (`Stream.skip`): for
each number the entries of CᵀC only get smaller, and a squared sensitivity is a sum over the numbers.

The memory is part of every checkpoint until the last step, by the names of the parameters: with it one could take the
noise off the last sums, so a checkpoint of an unfinished run is as secret as the data, and the trainer leaves it out of
that of a finished one. It holds no key; fresh numbers are drawn anew after a resume, and steps that a crash lost are
never repeated (`Stream.skip`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import torch

from deniable.deep.correlated import CorrelatedNoise
from deniable.deep.noising import Noising, Sums
from deniable.deep.plan import Plan
from deniable.deep.randomness import Generator
from deniable.errors import DataError, NotSupported
from deniable.numerics.rounding import float_above
from deniable.strategies import Stream


@dataclass(frozen=True, eq=False)
class _Held:
    """The stream of one device, and the numbers that its vectors are for: sums in the order of the first step."""

    stream: Stream
    shapes: dict[str, torch.Size]

    @property
    def sizes(self) -> list[int]:
        return [shape.numel() for shape in self.shapes.values()]

    def memory(self) -> list[Sums | None]:
        """The stream's vectors by name; a tree has None for a node that was lost."""
        return [None if each is None else self._named(each) for each in self.stream.state()["memory"]]

    def _named(self, vector: torch.Tensor) -> Sums:
        parts = torch.split(vector, self.sizes)
        return {name: part.view(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}

    def restore(self, state: dict[str, Any], device: torch.device) -> None:
        memory = [None if each is None else self._flat(each).to(device) for each in state["memory"]]
        self.stream.load({"step": state["step"], "memory": memory})

    def _flat(self, named: Sums) -> torch.Tensor:
        for name, shape in self.shapes.items():
            if name not in named or named[name].numel() != shape.numel():
                raise DataError(f"the checkpoint has no noise for {name}, or noise of another size")
        return torch.cat([named[name].reshape(-1) for name in self.shapes])


class CorrelatedNoising(Noising):
    """One stream for the parameters of each device."""

    def __init__(self, plan: Plan, noise: CorrelatedNoise) -> None:
        self._strategy = noise.strategy
        self._may_skip = noise.strategy.survives_loss(noise.separation(plan.sampling, plan.schedule))
        self.scale = float_above(plan.noise_multiplier * plan.clip)
        self._held: dict[torch.device, _Held] = {}
        self._loaded: dict[str, Any] = {}
        """What a checkpoint held, until the first step shows where the parameters are."""

    def add(self, sums: Sums, *, step: int, generator: Generator, clip: Fraction | None = None) -> Sums:
        for device in sorted({each.device for each in sums.values()}, key=str):
            held = self._at(device, sums, step)
            many, size = held.stream.draws(), sum(held.sizes)
            drawn = generator.noise("normal", many * size, scale=self.scale, step=step, device=device)
            parts = torch.split(held.stream.next(list(drawn.view(many, size))), held.sizes)
            for name, part in zip(held.shapes, parts, strict=True):
                sums[name].add_(part.view(held.shapes[name]))
        self._loaded = {}
        return sums

    def _at(self, device: torch.device, sums: Sums, step: int) -> _Held:
        """The stream of a device, at a step: fresh, as a checkpoint left it, or behind steps that were lost."""
        if device not in self._held:
            shapes = {name: each.shape for name, each in sums.items() if each.device == device}
            held = _Held(self._strategy.stream(), shapes)
            if self._loaded:
                held.restore(self._loaded, device)
            self._held[device] = held
        held = self._held[device]
        if held.stream.step != step:
            if not self._may_skip:
                raise NotSupported(
                    f"steps {held.stream.step + 1} to {step} were lost in a crash, and {self._strategy!r}, which has"
                    " negative entries, cannot go on behind them under its event. Start a new run and pay for it."
                )
            held.stream.skip(step)
        return held

    def state(self) -> dict[str, Any]:
        """The step, and the vectors of the memory, each by the names of the parameters."""
        if not self._held:
            return self._loaded
        memories = zip(*(each.memory() for each in self._held.values()), strict=True)
        return {"step": next(iter(self._held.values())).stream.step, "memory": [_together(each) for each in memories]}

    def load(self, state: dict[str, Any]) -> None:
        if state and state.keys() != {"step", "memory"}:
            raise DataError("the state of the noise is not one that correlated noise wrote")
        self._held, self._loaded = {}, state


def _together(parts: tuple[Sums | None, ...]) -> Sums | None:
    """One vector of the memory over all devices; lost on one, it is lost."""
    joined: Sums = {}
    for part in parts:
        if part is None:
            return None
        joined |= part
    return joined
