"""One run on several processes: who draws, who pays, who holds what, and how their sums become one.

The model says how it is spread: `DistributedDataParallel(model)` is a replica on every rank (`replicas`),
`fully_shard(model)` spreads its parameters (`shards`, FSDP2), anything else is one process (`alone`). The collectives
are PyTorch's. The trainer is the same for all three; what differs is behind the methods of `Alone`.
"""

from __future__ import annotations

from torch import nn

from deniable.deep.distributed.alone import Alone
from deniable.deep.plan import Plan

__all__ = ["Alone", "workers_of"]


def workers_of(model: nn.Module, plan: Plan) -> Alone:
    """The processes that a model is spread over, checked against what the plan says of them."""
    from torch.nn.parallel import DistributedDataParallel

    from deniable.deep.clipping.sharding import is_sharded

    if isinstance(model, DistributedDataParallel):
        from deniable.deep.distributed.replicas import Replicas

        return Replicas(model, plan)
    if is_sharded(model):
        from deniable.deep.distributed.shards import Shards

        return Shards(model, plan)
    return Alone(model, plan)
