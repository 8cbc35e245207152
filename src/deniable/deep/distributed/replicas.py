"""A whole model on every rank: `DistributedDataParallel`.

A step over W trusted ranks: the first rank draws one batch for all of them; each rank clips and adds up its part; the
rank adds the noise of *its own stretch* of the parameters; an all-reduce sums everything. Every number of the result
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
from deniable.deep.distributed.ranks import Ranks
from deniable.deep.plan import Plan

LARGE = 1 << 18
"""From so many numbers on, a message of its own costs less than a copy."""


class Replicas(Ranks):
    """The ranks of a `DistributedDataParallel` model."""

    def __init__(self, model: DistributedDataParallel, plan: Plan) -> None:
        device = next(model.module.parameters()).device
        super().__init__(model.module, plan, group=model.process_group, device=device)

    def noisy(self, sums: Sums, add: Add) -> Sums:
        sums = {name: each.contiguous() for name, each in sums.items()}
        if self._own_data:
            return self._added_up(add(sums))
        if all(each.is_floating_point() for each in sums.values()):
            mine = self._stretch(sums)
            for name, each in add(mine).items():
                mine[name].copy_(each)
            return self._added_up(sums)
        # Integers become real numbers with their noise, so they are summed first, and every rank noises its stretch.
        whole = self._added_up(sums)
        out = {name: torch.zeros(each.shape, device=each.device) for name, each in whole.items()}
        places = self._stretch(out)
        for name, each in add(self._stretch(whole)).items():
            places[name].copy_(each)
        return self._added_up(out)

    def _stretch(self, sums: Sums) -> Sums:
        """The numbers that this rank draws the noise of, where they lie: every number is one rank's."""
        size = sum(each.numel() for each in sums.values())
        first, last = self.rank * size // self.number, (self.rank + 1) * size // self.number
        found: Sums = {}
        start = 0
        for name, each in sums.items():
            here = slice(max(0, first - start), max(0, min(last - start, each.numel())))
            if here.start < here.stop:
                found[name] = each.view(-1)[here]
            start += each.numel()
        return found

    def _added_up(self, sums: Sums) -> Sums:
        """Sums over all ranks, in the place of what is given: large ones each in a message, small ones in one."""
        small = {name: each for name, each in sums.items() if each.numel() < LARGE}
        if small:
            flat = self._summed(torch.cat([each.reshape(-1) for each in small.values()]))
            parts = torch.split(flat, [each.numel() for each in small.values()])
            small = {name: part.view_as(each) for (name, each), part in zip(small.items(), parts, strict=True)}
        return {name: small[name] if name in small else self._summed(each) for name, each in sums.items()}

    def seen(self, sums: Sums) -> Sums:
        if self._own_data:  # a worker that is not trusted may see no sum without its noise
            return sums
        return self._added_up(sums)
