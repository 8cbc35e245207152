"""A whole model on every rank: `DistributedDataParallel`.

A step over W trusted ranks: the first rank draws one batch for all of them; each rank clips and adds up its part; the
rank adds the noise of *its own stretch* of the parameters; an all-reduce sums everything. Every number of the result
holds one draw of the plan's noise, as on one device, and the divisor is the expected batch of all ranks together. The
stretches are the same in every step, so correlated noise finds its memory where it draws.

DDP's own reduction takes the mean of unclipped gradients and never runs: the clipping engine works on `model.module`,
and no gradient is accumulated in between. What is used of DDP is that every rank begins with the parameters of the
first; equal gradients and equal optimizers keep them equal.

Under `NoiseShares` ranks are workers with data of their own: each draws its batch and adds its share to all its sums.

**A rank that fails** sends NaN in the place of its sums, so that nobody gets a sum from which its noise is missing, and
raises a flag, which travels with the sums. The others raise when they see it: at once on a CPU. A GPU works on while
the host is ahead of it, so there the flag is looked at before the next wait for all ranks, and until then the model
holds NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import Tensor, distributed
from torch.nn.parallel import DistributedDataParallel

from deniable.deep.distributed.alone import Add, Sums
from deniable.deep.distributed.ranks import Ranks
from deniable.deep.noises import GridNoise
from deniable.deep.plan import Plan
from deniable.errors import DeniableError

LARGE = 1 << 18
"""From so many numbers on, a message of its own costs less than a copy."""


class Replicas(Ranks):
    """The ranks of a `DistributedDataParallel` model."""

    def __init__(self, model: DistributedDataParallel, plan: Plan) -> None:
        device = next(model.module.parameters()).device
        super().__init__(model.module, plan, group=model.process_group, device=device)
        self._kind = torch.int64 if isinstance(plan.noise, GridNoise) else torch.float32
        self._at_once = device.type == "cpu"
        self._flags: Tensor | None = None
        """Which ranks failed in the last exchange, until somebody looks."""

    # sums

    def noisy(self, sums: Sums, add: Add) -> Sums:
        sums = {name: each.contiguous() for name, each in sums.items()}
        if self._own_data:
            with self._telling(sums):
                sums = add(sums)
            return self._added_up(sums)
        if self._kind.is_floating_point:
            self._add(add, sums, sums)
            return self._added_up(sums)
        # Integers become real numbers with their noise, so they are summed first, and every rank noises its stretch.
        whole = self._added_up(sums)
        out = self._empty(torch.float32)
        self._add(add, whole, out)
        return self._added_up(out)

    def _add(self, add: Add, sums: Sums, out: Sums) -> None:
        """Write this rank's stretch of the sums, with noise, to where it lies in `out`."""
        mine = self._stretch(sums)
        places = mine if out is sums else self._stretch(out)
        with self._telling(out):
            for name, each in add(mine).items():
                places[name].copy_(each)  # costs nothing where it was added in place

    def _stretch(self, sums: Sums) -> Sums:
        """The numbers that this rank draws the noise of, where they lie: every number is one rank's."""
        size = sum(each.numel() for each in sums.values())
        first, last = self.rank * size // self.number, (self.rank + 1) * size // self.number
        found: Sums = {}
        start = 0
        for name, each in sums.items():
            found[name] = each.view(-1)[max(0, first - start) : max(0, last - start)]
            start += each.numel()
        return found

    def _added_up(self, sums: Sums, *, failed: bool = False) -> Sums:
        """Sums over all ranks, in the place of what is given: large ones each in a message, small ones in one, with a
        flag for each rank."""
        self.look()
        small = {name: each for name, each in sums.items() if each.numel() < LARGE}
        some = next(iter(sums.values()))
        flags = some.new_zeros(self.number)
        if failed:
            flags[self.rank] = 1
        flat = self._summed(torch.cat([*(each.reshape(-1) for each in small.values()), flags]))
        *parts, self._flags = torch.split(flat, [*(each.numel() for each in small.values()), self.number])
        small = {name: part.view_as(each) for (name, each), part in zip(small.items(), parts, strict=True)}
        found = {name: small[name] if name in small else self._summed(each) for name, each in sums.items()}
        if self._at_once and not failed:
            self.look()
        return found

    def _summed(self, flat: Tensor) -> Tensor:
        """The sum over all ranks, in one message; it takes the place of what is given."""
        distributed.all_reduce(flat, group=self._group)
        return flat

    def _trained(self) -> dict[str, Tensor]:
        """The parameters that there are sums for, in their order."""
        return {name: each for name, each in self.model.named_parameters() if each.requires_grad}

    def _empty(self, kind: torch.dtype) -> Sums:
        """Sums of nobody."""
        return {name: torch.zeros(p.shape, dtype=kind, device=p.device) for name, p in self._trained().items()}

    def seen(self, sums: Sums) -> Sums:
        if self._own_data:  # a worker that is not trusted may see no sum without its noise
            return sums
        return self._added_up(sums)

    # failing

    def telling(self) -> AbstractContextManager[None]:
        return self._telling(None)

    @contextmanager
    def _telling(self, form: Sums | None) -> Iterator[None]:
        """As `telling`; the others wait for sums of this form, or of the usual one."""
        try:
            yield
        except Exception:  # whatever it was; it is raised again below
            nothing = self._empty(self._kind) if form is None else form
            for each in nothing.values():
                each.fill_(torch.nan if each.is_floating_point() else 0)
            self._added_up(nothing, failed=True)
            self._flags = None
            raise

    def look(self) -> None:
        if self._flags is None:
            return
        failed = [rank for rank, flag in enumerate(self._flags.tolist()) if flag]
        self._flags = None
        if failed:
            raise DeniableError(
                f"rank {failed[0]} could not go on in the last step; see what it printed. The step counts as taken. Go"
                " on from the last checkpoint with Trainer.resume."
            )

    # checkpoints

    def _joined(self, parts: Sums) -> Sums:
        out = self._empty(torch.float32)
        for name, place in self._stretch(out).items():
            place.copy_(parts[name])
        return self._added_up(out)

    def _part_of(self, whole: Sums) -> Sums:
        return self._stretch({name: whole[name] for name in self._trained() if name in whole})
