"""From squared norms to clip factors, so that rounding never lets a unit's share exceed the clip.

A computed norm may lie below the true one, and the share that enters the sum is computed from rounded numbers. Both
errors are bounded here, and the bounds are added to the norm before the factor is taken (docs/deep-clipping.md
derives them):

- a norm taken from factors, over rows of widths p and d, errs in its square by at most (p + d + CHAIN)·u·S², u the unit
  roundoff of the accumulator and S = Σ_t ‖left_t‖‖right_t‖ the norm without cancellation (Higham, "Accuracy and
  stability of numerical algorithms", 2002, section 3.1, once for each Gram matrix);
- scaling a side by the factor and rounding it to the operand's type moves the share by at most v·S, v the operand's
  roundoff;
- everything else is sums of squares in fp32, whose relative error ETA covers.

>>> import torch
>>> from deniable.deep.clipping.norms import Settled
>>> clip_factors(bounds([Settled(torch.tensor([0.25, 4.0]), ())]), clip=torch.tensor(1.0)).factors
tensor([1.0000, 0.4999])
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from deniable.deep.clipping.norms import Settled
from deniable.deep.clipping.precision import ROUNDOFF, stored
from deniable.deep.clips import Group

# A sum of fp32 squares, each through at most 2¹² roundings of 2⁻²⁴ (reductions work in blocks); half of that for its
# root; the roundings of the root, the division and the product with the factor.
ETA = 2.0**-12


# The largest factor. One side of a gradient is multiplied by it before the other side, which may be zero; a unit that
# is alive has sides whose squares are finite, below 2⁶⁴, so the product is finite too, and never inf · 0.
_LARGEST = 2.0**63


class Factor(NamedTuple):
    """Per unit: the norm, the factor it is multiplied by, and whether it is finite, so that 0 times it is 0."""

    norms: Tensor
    factors: Tensor
    alive: Tensor


def bounds(parts: Iterable[Settled]) -> Tensor:
    """[3, units]: what one or several parameters add to the squared norm and to its two error terms."""
    rows = []
    for part in parts:
        zero = torch.zeros_like(part.square)
        if part.spread is None:
            rows.append(torch.stack((part.square, zero, zero)))
            continue
        wide = part.spread.square()
        hidden = part.depth * ROUNDOFF[part.square.dtype]
        rows.append(torch.stack((part.square, hidden * wide, part.roundoff**2 * wide)))
    return torch.stack(rows).sum(0)


class GroupFactors(NamedTuple):
    """Per unit: the norm over all groups of parameters, whether it is finite, and a factor for each group."""

    norms: Tensor
    alive: Tensor
    by_group: tuple[Tensor, ...]
    group_of: Mapping[str, int]

    def of(self, name: str) -> Factor:
        """The factor of a parameter."""
        return Factor(self.norms, self.by_group[self.group_of[name]], self.alive)

    @property
    def factors(self) -> Tensor:
        """[units], or [units, groups] where there are several."""
        return self.by_group[0] if len(self.by_group) == 1 else torch.stack(self.by_group, dim=1)


def group_factors(
    measured: Sequence[Tensor],
    groups: Sequence[Group],
    *,
    clip: Tensor,
    mask: Tensor,
    norm: str,
    stability: float | None,
) -> GroupFactors:
    """The factors of groups, each with its share of the clip. A unit that is not finite in one group contributes
    nothing to any."""
    group_of = {name: at for at, group in enumerate(groups) for name in group.names}
    found = [
        clip_factors(each, clip=clip * group.share, mask=mask, norm=norm, stability=stability)
        for each, group in zip(measured, groups, strict=True)
    ]
    if len(found) == 1:
        return GroupFactors(found[0].norms, found[0].alive, (found[0].factors,), group_of)
    alive = torch.stack([each.alive for each in found]).all(0)
    each_norm = torch.stack([each.norms for each in found])
    norms = each_norm.sum(0) if norm == "l1" else torch.linalg.vector_norm(each_norm, dim=0)
    norms = torch.where(alive | ~mask, norms, torch.inf)
    return GroupFactors(
        norms, stored(alive), tuple(stored(torch.where(alive, each.factors, 0)) for each in found), group_of
    )


def clip_factors(
    measured: Tensor,
    *,
    clip: Tensor,
    mask: Tensor | None = None,
    norm: str = "l2",
    stability: float | None = None,
) -> Factor:
    """The factor of each unit: 1, or what brings its share to the clip; 0 for a unit that is masked or not finite. With
    a `stability` it is the clip divided by the norm plus that, whatever the norm.

    A unit whose norm is not finite, because of what it holds or because squares overflowed, contributes nothing. Which
    units those are depends on each unit alone, so leaving one out is a clip to zero and costs no privacy.
    """
    square, hidden, moved = measured
    if norm == "l1":
        norms = upper = square
    else:
        norms = square.sqrt()
        upper = (square + hidden).sqrt() + moved.sqrt()
    alive = torch.isfinite(upper)
    bound = clip * (1 - ETA)
    if stability is None:
        factors = torch.where(upper > bound, bound / upper, torch.ones_like(upper))
    else:
        factors = (bound / (upper + stability)).clamp(max=_LARGEST)
    norms = torch.where(alive, norms, torch.inf)
    taken = alive
    if mask is not None:
        norms, taken = torch.where(mask, norms, 0), alive & mask
    # Else a compiler would work them out anew for every element that they multiply.
    return Factor(norms, stored(torch.where(taken, factors, 0)), stored(alive))
