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

from typing import NamedTuple

import torch
from torch import Tensor


class Whole(NamedTuple):
    """Sums by parameter name (int64, in steps of clip/2^bits); norms and factors by unit."""

    sums: dict[str, Tensor]
    norms: Tensor
    factors: Tensor


def cut(gradients: dict[str, Tensor], *, clip: float, bits: int, mask: Tensor) -> Whole:
    """Integer sums of gradients [units, …], of the units that the mask lets in."""
    flat = {name: each.detach().double().reshape(len(each), -1) for name, each in gradients.items()}
    squares = torch.stack([each.square().sum(1) for each in flat.values()]).sum(0)
    # 2⁻⁴⁰ covers the rounding of the norm; the check in integers below needs no such allowance.
    shorter = (2.0**bits * (1 - 2.0**-40)) / torch.sqrt(squares).clamp_min(clip)
    whole = {
        name: torch.nan_to_num(torch.trunc(each * shorter[:, None])).to(torch.int64) for name, each in flat.items()
    }
    length = torch.stack([each.square().sum(1) for each in whole.values()]).sum(0)
    fits = torch.isfinite(squares) & (length <= 4**bits)
    counted = fits & mask
    sums = {name: (each * counted[:, None]).sum(0).view(gradients[name].shape[1:]) for name, each in whole.items()}
    norms = torch.where(torch.isfinite(squares), torch.sqrt(squares), torch.inf)
    factors = torch.where(counted, shorter * clip / 2.0**bits, 0.0)
    return Whole(sums, torch.where(mask, norms, 0.0).float(), factors.float())
