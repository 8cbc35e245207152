"""The runtime of correlated noise: fresh normal numbers every step, corrected by a stream's memory.

The memory lives where the parameters live and is part of every checkpoint until the last step: with it one could take
the noise off the last sums, so a checkpoint of an unfinished run is as secret as the data, and the trainer leaves it
out of that of a finished one. It holds no key; fresh numbers are drawn anew after a resume, and steps that a crash lost
are never repeated (`Stream.skip`).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from deniable.deep.correlated import CorrelatedNoise
from deniable.deep.noising import Noising, Sums, rounded_up
from deniable.deep.plan import Plan
from deniable.deep.randomness import Generator
from deniable.errors import DataError, NotSupported
from deniable.strategies import Stream


class CorrelatedNoising(Noising):
    """One stream for the parameters of each device."""

    def __init__(self, plan: Plan, noise: CorrelatedNoise) -> None:
        self._strategy = noise.strategy
        self._may_skip = noise.strategy.survives_loss(noise.separation(plan.sampling, plan.schedule))
        self.scale = rounded_up(plan.noise_multiplier * plan.clip)
        self._streams: dict[str, Stream] = {}
        self._waiting: dict[str, Any] = {}

    def add(self, sums: Sums, *, step: int, generator: Generator) -> Sums:
        noisy: Sums = {}
        for device in sorted({each.device for each in sums.values()}, key=str):
            here = {name: each for name, each in sums.items() if each.device == device}
            sizes = [each.numel() for each in here.values()]
            stream = self._stream(device, step)
            many, size = stream.draws(), sum(sizes)
            drawn = generator.noise("normal", many * size, scale=self.scale, step=step, device=device)
            parts = torch.split(stream.next(list(drawn.view(many, size))), sizes)
            noisy |= {name: each + part.view_as(each) for (name, each), part in zip(here.items(), parts, strict=True)}
        return {name: noisy[name] for name in sums}

    def _stream(self, device: torch.device, step: int) -> Stream:
        """The stream of a device, at a step: fresh, as a checkpoint left it, or behind steps that were lost."""
        name = str(device)
        if name not in self._streams:
            stream = self._strategy.stream()
            if self._waiting:
                # One device may be exchanged for another; several must be the same again.
                held = name if name in self._waiting or len(self._waiting) > 1 else next(iter(self._waiting))
                if held not in self._waiting:
                    raise DataError(f"the checkpoint has noise for {', '.join(self._waiting)}, and none for {name}.")
                stream.load(_moved(self._waiting.pop(held), device))
            self._streams[name] = stream
        stream = self._streams[name]
        if stream.step != step:
            if not self._may_skip:
                raise NotSupported(
                    f"steps {stream.step + 1} to {step} were lost in a crash, and {self._strategy!r}, which has"
                    " negative entries, cannot go on behind them under its event. Start a new run and pay for it."
                )
            stream.skip(step)
        return stream

    def state(self) -> dict[str, Any]:
        """The memory of every stream. Each rank of several has its own part, and a checkpoint would hold one only."""
        group = torch.distributed
        if group.is_available() and group.is_initialized() and group.get_world_size() > 1:
            raise NotSupported(
                "correlated noise on several ranks cannot be written to a checkpoint: train without, or on one rank."
            )
        held = {name: stream.state() for name, stream in self._streams.items()}
        return {**self._waiting, **held}

    def load(self, state: dict[str, Any]) -> None:
        """Streams go on when their device is first used."""
        self._streams, self._waiting = {}, dict(state)


def _moved(state: dict[str, Any], device: torch.device) -> dict[str, Any]:
    """A state with its vectors on a device."""
    memory = [each.to(device) if isinstance(each, Tensor) else each for each in state["memory"]]
    return {**state, "memory": memory}
