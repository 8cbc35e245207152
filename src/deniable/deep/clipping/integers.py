"""Clipped gradients as exact integers, for `GridNoise`.

Every unit's gradient is scaled so that the clipping norm is 2^bits, shortened in double precision, and cut towards 0 to
integers. The length of those integers is then checked in integers: a unit that is still too long, or not finite, counts
as 0. So the sums are exact, whatever the order of addition, and one unit moves them by at most 2^bits, with no rounding
left out of the sensitivity.

>>> import torch
>>> whole = cut({"w": torch.tensor([[3.0, 4.0], [0.0, 0.25]])}, clip=1.0, bits=4, mask=torch.tensor([True, True]))
>>> whole.sums["w"].tolist()
[9, 15]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from deniable.deep.clips import Group


class Whole(NamedTuple):
    """Sums by parameter name (int64, in steps of clip/2^bits); norms and factors by unit."""

    sums: dict[str, Tensor]
    norms: Tensor
    factors: Tensor


def cut(
    gradients: dict[str, Tensor],
    *,
    clip: float,
    bits: int,
    mask: Tensor,
    groups: Sequence[Group] = (),
    stability: float | None = None,
) -> Whole:
    """Integer sums of gradients [units, …], of the units that the mask lets in; by the rule of `deniable.deep.clips`,
    all parameters together if no groups are given."""
    flat = {name: each.detach().double().reshape(len(each), -1) for name, each in gradients.items()}
    own = {name: each.square().sum(1) for name, each in flat.items()}
    squares = torch.stack([*own.values()]).sum(0)
    shorter: dict[str, Tensor] = {}
    by_group = []
    for group in groups or (Group(tuple(gradients), 1.0),):
        norm = torch.sqrt(torch.stack([own[name] for name in group.names]).sum(0))
        # 2⁻⁴⁰ covers the rounding of the norm; the check in integers below needs no such allowance.
        divisor = norm.clamp_min(clip * group.share) if stability is None else norm + stability
        by_group.append((2.0**bits * group.share * (1 - 2.0**-40)) / divisor)
        shorter |= dict.fromkeys(group.names, by_group[-1])
    whole = {
        name: torch.nan_to_num(torch.trunc(each * shorter[name][:, None])).to(torch.int64)
        for name, each in flat.items()
    }
    length = torch.stack([each.square().sum(1) for each in whole.values()]).sum(0)
    fits = torch.isfinite(squares) & (length <= 4**bits)
    counted = fits & mask
    sums = {name: (each * counted[:, None]).sum(0).view(gradients[name].shape[1:]) for name, each in whole.items()}
    norms = torch.where(torch.isfinite(squares), torch.sqrt(squares), torch.inf)
    factors = [torch.where(counted, each * clip / 2.0**bits, 0.0).float() for each in by_group]
    kept = factors[0] if len(factors) == 1 else torch.stack(factors, dim=1)
    return Whole(sums, torch.where(mask, norms, 0.0).float(), kept)
