"""What replicas and shards share: a process group, and how its ranks agree, divide a batch and keep apart in noise."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, distributed, nn

from deniable.deep.data import Indices
from deniable.deep.distributed.alone import Alone, Made, Sums
from deniable.deep.fingerprints import Fingerprint, differ
from deniable.deep.plan import Plan
from deniable.deep.randomness import Generator, SeededGenerator
from deniable.errors import DeniableError, InvalidArgument


class Ranks(Alone, ABC):
    """The ranks of a process group, each of which runs the same program."""

    def __init__(self, model: nn.Module, plan: Plan, *, group: Any, device: torch.device) -> None:
        self._group, self._device = group, device
        self.rank, self.number = distributed.get_rank(group), distributed.get_world_size(group)
        super().__init__(model, plan)

    # agreeing

    def once(self, action: Callable[[], Made]) -> Made:
        outcome: list[Any] = [None, None]
        if self.rank == 0:
            try:
                outcome = [action(), None]
            except Exception as error:  # of any kind: the other ranks wait
                self._sent([None, _told_elsewhere(error)])
                raise
        made, failure = self._sent(outcome)
        if failure is not None:
            raise DeniableError(f"rank 0 could not go on: {failure}")
        result: Made = made
        return result

    def _sent(self, values: list[Any]) -> list[Any]:
        """Objects from the first rank."""
        self.look()
        distributed.broadcast_object_list(values, group=self._group, group_src=0, device=self._device)
        return values

    def everywhere(self, action: Callable[[], Made]) -> Made:
        try:
            made = action()
        except Exception as error:  # of any kind: the other ranks wait
            self._told(_told_elsewhere(error))
            raise
        for rank, failure in enumerate(self._told(None)):
            if failure is not None:
                raise DeniableError(f"rank {rank} could not go on: {failure}")
        return made

    def agree(self, what: str, value: object) -> None:
        own = hashlib.sha256(repr(value).encode()).hexdigest()
        if len(set(self._told(own))) > 1:
            raise InvalidArgument(what, "different from rank to rank", "the same on every rank")

    def _told(self, value: object) -> list[Any]:
        """What every rank says."""
        self.look()
        told: list[Any] = [None] * self.number
        distributed.all_gather_object(told, value, group=self._group)
        return told

    # data

    @property
    def shared(self) -> bool:
        return not self._own_data

    def same(self, data: Fingerprint) -> None:
        if self.shared and differ(self._told(data)):
            raise InvalidArgument(
                "dataset", "different from rank to rank", "the same rows in the same order on every rank",
                "The trainer divides every batch itself: give each rank the whole data set, not a shard of it.",
            )  # fmt: skip

    def total(self, units: int) -> int:
        return self._counted(units, distributed.ReduceOp.SUM) if self._own_data else units

    def drawn(self, draw: Callable[[], Indices]) -> Indices:
        units = draw() if self._own_data or self.rank == 0 else np.empty(0, np.int64)
        self.look()
        return units if self._own_data else self._from_first(units)

    def _from_first(self, units: Indices) -> Indices:
        """The first rank's units; how many there are is known there alone."""
        places = torch.from_numpy(units).to(self._device)
        size = torch.tensor([places.numel()], device=self._device)
        self._broadcast(size)
        if self.rank != 0:
            places = places.new_empty(int(size))
        if places.numel():
            self._broadcast(places)
        found: Indices = places.cpu().numpy()
        return found

    def _broadcast(self, values: Tensor) -> None:
        distributed.broadcast(values, group=self._group, group_src=0)

    def part(self, units: Indices) -> Indices:
        return units if self._own_data else units[self.rank :: self.number]

    def _counted(self, value: int, how: Any) -> int:
        count = torch.tensor([value], device=self._device)
        distributed.all_reduce(count, op=how, group=self._group)
        return int(count)

    # randomness

    def generator(self, given: Generator) -> Generator:
        # A secure generator is fresh in every process. The first rank keeps a seed, so that its samples are those of
        # one process; the others get seeds of their own.
        if self.rank == 0 or not isinstance(given, SeededGenerator):
            return given
        name = f"deniable rank {self.rank} of a run with seed {given.seed}"
        return type(given)(int.from_bytes(hashlib.sha256(name.encode()).digest()))

    # checkpoints

    def load(self, found: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        # Where a rank has an older file at that place, it would train another model from here on.
        self.agree("checkpoint", (found["run"], found["step"]))
        self._load(found, optimizer)

    def _load(self, found: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        super().load(found, optimizer)

    def gathered(self, memory: dict[str, Any]) -> dict[str, Any]:
        form = [each is None for each in memory.get("memory", [])]
        if any(each != form for each in self._told(form)):
            raise DeniableError(
                "ranks remember the noise of different steps, since a step failed on one of them. Go on from the last"
                " checkpoint with Trainer.resume."
            )
        return _over_vectors(memory, lambda parts: self._kept(self._joined(parts)))

    def _kept(self, whole: Sums) -> Sums:
        """One vector of the memory, out of the device's way: the first rank writes it down."""
        return {name: each.cpu() for name, each in whole.items()} if self.rank == 0 else {}

    def own(self, memory: dict[str, Any]) -> dict[str, Any]:
        return _over_vectors(memory, self._part_of)

    @abstractmethod
    def _joined(self, parts: Sums) -> Sums:
        """Whole tensors from the numbers that each rank draws the noise of."""

    @abstractmethod
    def _part_of(self, whole: Sums) -> Sums:
        """Of whole tensors the numbers that this rank draws the noise of."""


def _over_vectors(memory: dict[str, Any], change: Callable[[Sums], Sums]) -> dict[str, Any]:
    """A memory with every vector of it changed; some may be lost, and most noise remembers nothing."""
    if "memory" not in memory:
        return memory
    return {**memory, "memory": [None if each is None else change(each) for each in memory["memory"]]}


def _told_elsewhere(error: Exception) -> str:
    """An error in words for other ranks. Only errors of this library are known to name no private value."""
    return str(error) if isinstance(error, DeniableError) else f"{type(error).__name__}, see what it printed"
