"""A whole model on every rank: `DistributedDataParallel`.

A step over W trusted ranks: the first rank draws one batch for all of them; each rank clips and adds up its part; the
rank adds the noise of *its own stretch* of the parameters; one all-reduce sums everything. Every number of the result
holds one draw of the plan's noise, as on one device, and the divisor is the expected batch of all ranks together.

DDP's own reduction takes the mean of unclipped gradients and never runs: the clipping engine works on `model.module`,
and no gradient is accumulated in between. What is used of DDP is that every rank begins with the parameters of the
first; equal gradients and equal optimizers keep them equal.

Under `NoiseShares` ranks are workers with data of their own: each draws its batch and adds its share to all its sums.
"""

from __future__ import annotations

import torch
from torch.nn.parallel import DistributedDataParallel

from deniable.deep.distributed.alone import Add, Sums
from deniable.deep.distributed.ranks import Ranks, flattened, like
from deniable.deep.plan import Plan


class Replicas(Ranks):
    """The ranks of a `DistributedDataParallel` model."""

    def __init__(self, model: DistributedDataParallel, plan: Plan) -> None:
        device = next(model.module.parameters()).device
        super().__init__(model.module, plan, group=model.process_group, device=device)

    def noisy(self, sums: Sums, add: Add) -> Sums:
        flat = flattened(add(sums) if self._own_data else sums)
        mine = self._stretch(flat.numel())
        if self._own_data:
            return like(sums, self._summed(flat))
        if flat.is_floating_point():
            flat[mine] = add({"": flat[mine]})[""]
            return like(sums, self._summed(flat))
        # Integers become real numbers with their noise, so they are summed first, and every rank noises its stretch.
        whole = self._summed(flat)
        out = torch.zeros(whole.shape, device=whole.device)
        out[mine] = add({"": whole[mine]})[""]
        return like(sums, self._summed(out))

    def _stretch(self, size: int) -> slice:
        """The numbers that this rank draws the noise of: every number is one rank's."""
        return slice(self.rank * size // self.number, (self.rank + 1) * size // self.number)

    def seen(self, sums: Sums) -> Sums:
        if self._own_data:  # a worker that is not trusted may see no sum without its noise
            return sums
        return like(sums, self._summed(flattened(sums)))
