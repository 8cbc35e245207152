"""Parameters spread over the ranks: FSDP2, `torch.distributed.fsdp.fully_shard`.

Every rank works on its part of the batch; `deniable.deep.clipping.sharding` says how norms are exact and how a finished
sum is added up over the ranks and spread at once. What arrives here is this rank's part of the sums over all ranks. The
rank draws the noise of that part: every number gets one draw of the plan's noise, and no rank sees another's.

Passes through a sharded model are collective. Ranks with fewer units, or none, take empty passes until all are done.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.tensor import distribute_tensor

from deniable.deep.clipping.sharding import Sharding
from deniable.deep.distributed.alone import Sums, Value
from deniable.deep.distributed.ranks import Ranks
from deniable.deep.noises import GridNoise, NoiseShares
from deniable.deep.plan import Plan
from deniable.errors import NotSupported


class Shards(Ranks):
    """The ranks of a model under `fully_shard`."""

    def __init__(self, model: nn.Module, plan: Plan) -> None:
        if isinstance(plan.noise, GridNoise | NoiseShares):
            raise NotSupported(f"{plan.noise!r} needs a whole model on every rank; use DistributedDataParallel")
        self._sharding = Sharding.of(model)
        device = next(model.parameters()).device
        super().__init__(model, plan, group=self._sharding.group, device=device)

    def most(self, count: int) -> int:
        return self._counted(count, distributed.ReduceOp.MAX)

    def union(self, values: list[Value]) -> list[Value]:
        return sorted({each for told in self._told(values) for each in told}, key=repr)

    def seen(self, sums: Sums) -> Sums:
        return {name: self._sharding.whole(name, each) for name, each in sums.items()}

    def released(self, noisy: Sums) -> Sums:
        return self.seen(noisy)

    def gradient(self, name: str, parameter: nn.Parameter, value: Tensor) -> Tensor:
        spread: Tensor = self._sharding.distributed(name, value.to(parameter.dtype))
        return spread

    def _joined(self, parts: Sums) -> Sums:
        return self.seen({name: each.to(self._device) for name, each in parts.items()})

    def _part_of(self, whole: Sums) -> Sums:
        spread: dict[str, Any] = dict(self.model.named_parameters())
        found: Sums = {}
        for name, each in whole.items():
            mesh, placements = spread[name].device_mesh, spread[name].placements
            part = distribute_tensor(each.to(self._device), mesh, placements, src_data_rank=None)
            found[name] = part.to_local()
        return found

    def state(self, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        options = StateDictOptions(full_state_dict=True, cpu_offload=True)
        model = get_model_state_dict(self.model, options=options)
        # Asked before the first step, PyTorch would take one to have something to show, and Adam would count it.
        moments = get_optimizer_state_dict(self.model, optimizer, options=options) if optimizer.state else {}
        return {"model": model, "optimizer": moments}

    def _load(self, found: dict[str, Any], optimizer: torch.optim.Optimizer) -> None:
        options = StateDictOptions(full_state_dict=True)
        set_model_state_dict(self.model, found["model"], options=options)
        if found["optimizer"]:
            set_optimizer_state_dict(self.model, optimizer, found["optimizer"], options=options)
