"""One process: everything is here, and nobody needs to be asked. The methods are what several processes change."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from deniable.deep import optimizers
from deniable.deep.data import Indices
from deniable.deep.fingerprints import Fingerprint
from deniable.deep.noises import NoiseShares
from deniable.deep.plan import Plan
from deniable.deep.randomness import Generator
from deniable.errors import InvalidArgument

Sums = dict[str, Tensor]
Add = Callable[[Sums], Sums]
"""Sums in, the same sums with noise out."""
Made = TypeVar("Made")
Value = TypeVar("Value")


class Alone:
    """The only process of a run."""

    rank = 0
    number = 1

    def __init__(self, model: nn.Module, plan: Plan) -> None:
        self.model = model
        """The module itself, without what wraps it."""
        shares = plan.noise if isinstance(plan.noise, NoiseShares) else None
        if shares is not None and shares.workers != self.number:
            raise InvalidArgument(
                "noise", shares, f"for as many workers as there are, {self.number}",
                "Start that many with torchrun, and wrap the model in DistributedDataParallel.",
            )  # fmt: skip
        self._own_data = shares is not None

    # agreeing

    def once(self, action: Callable[[], Made]) -> Made:
        """Do it on the first rank; every rank gets what it returned."""
        return action()

    def everywhere(self, action: Callable[[], Made]) -> Made:
        """Do it on every rank; where it fails on one, it fails on all."""
        return action()

    def telling(self) -> AbstractContextManager[None]:
        """An error in here, of any kind, is told to the ranks that wait for this one's sums."""
        return nullcontext()

    def look(self) -> None:
        """Raise where another rank failed. It may wait for the device, so it is asked where the host waits anyway."""

    def agree(self, what: str, value: object) -> None:
        """Refuse to go on where ranks were given different things."""

    def most(self, count: int) -> int:
        """How many passes every rank takes, so that those through a sharded model meet."""
        return count

    def union(self, values: list[Value]) -> list[Value]:
        """What any rank has, in one order, where passes are taken together."""
        return values

    # data

    @property
    def shared(self) -> bool:
        """Whether several ranks work on one data set, which must be the same on each."""
        return False

    def same(self, data: Fingerprint) -> None:
        """Refuse to go on where ranks that work on one data set were given different ones."""

    def total(self, units: int) -> int:
        """How many units there are, when this rank was given so many. Asked only where that is public."""
        return units

    def drawn(self, draw: Callable[[], Indices]) -> Indices:
        """The batch of a step: one draw for all ranks."""
        return draw()

    def part(self, units: Indices) -> Indices:
        """The units of a batch that this rank works on."""
        return units

    # randomness and sums

    def generator(self, given: Generator) -> Generator:
        """The generator of this rank: no two ranks may draw the same noise."""
        return given

    def noisy(self, sums: Sums, add: Add) -> Sums:
        """Sums over all ranks with the noise of a step; they may take the place of the given ones."""
        return add(sums)

    def seen(self, sums: Sums) -> Sums:
        """Sums without noise over all ranks that work on one data set, likewise: for observers."""
        return sums

    def released(self, noisy: Sums) -> Sums:
        """Noisy sums, whole: for observers."""
        return noisy

    def gradient(self, name: str, parameter: nn.Parameter, value: Tensor) -> Tensor:
        """A value for `parameter.grad`."""
        return value.to(parameter.device, parameter.dtype)

    # checkpoints

    def gathered(self, memory: dict[str, Any]) -> dict[str, Any]:
        """What noise remembers (`Noising.state`) by whole parameters, on the first rank."""
        return memory

    def own(self, memory: dict[str, Any]) -> dict[str, Any]:
        """The part of it that this rank draws the noise of."""
        return memory

    def state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Model and optimizer as the first rank writes them down."""
        return {"model": self.model.state_dict(), "optimizer": optimizer.state_dict()}

    def load(self, found: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        """Model and optimizer from a checkpoint, which every rank has read."""
        optimizers.check_state(optimizer, found["optimizer"])
        self.model.load_state_dict(found["model"])
        optimizer.load_state_dict(found["optimizer"])
