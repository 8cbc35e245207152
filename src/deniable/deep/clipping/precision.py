"""Wide products: what is added up over rows or units is added up, and handed on, in fp32 at least.

A product of bf16 matrices would round its *result* to bf16. For a sum of clipped gradients that is no matter of
taste: the rounding error grows with the sum, not with one unit's share of it, and would reach the size of the clip
for a batch of a hundred. So operands may be narrow; results never are.

>>> product(torch.ones(1, 300, dtype=torch.bfloat16), torch.ones(300, 1, dtype=torch.bfloat16)).dtype
torch.float32
"""

from __future__ import annotations

import torch
from torch import Tensor

from deniable.deep.clipping.shelves import Place

# Unit roundoff: half a unit in the last place, relative (IEEE 754 binary32/64/16; bfloat16 has 8 significant bits).
ROUNDOFF = {torch.float64: 2.0**-53, torch.float32: 2.0**-24, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}

# TensorFloat-32 operands carry 11 significant bits and may be truncated: 2⁻¹⁰ each for c·x and for x, compared.
TF32_ROUNDOFF = 2.0**-9


def wide_type(kind: torch.dtype) -> torch.dtype:
    """fp32, or fp64 if that is what it is."""
    return torch.float64 if kind == torch.float64 else torch.float32


def widened(values: Tensor) -> Tensor:
    """The same values in fp32, or in fp64 if that is what they are."""
    return values.to(wide_type(values.dtype))


def product(left: Tensor, right: Tensor) -> Tensor:
    """left @ right for two matrices or two stacks of matrices, with an fp32 (or fp64) result."""
    if left.dtype == torch.bfloat16 and left.is_cuda:
        multiply = torch.mm if left.dim() == 2 else torch.bmm
        return multiply(left, right, out_dtype=torch.float32)
    return widened(left) @ widened(right)


def scaled(values: Tensor, factors: Tensor) -> Tensor:
    """Each unit's values times its factor, as an operand of `product`.

    bf16 stays bf16, one rounding more. fp16 becomes fp32: its range is so narrow that a small factor would flush to
    zero.
    """
    times = values * factors.view(-1, *[1] * (values.dim() - 1))
    return times.to(torch.bfloat16) if values.dtype == torch.bfloat16 else times


def roundoff(operand: Tensor) -> float:
    """How far `scaled` and `product` may take an operand from the exact multiple, relative."""
    if operand.dtype == torch.bfloat16:
        return ROUNDOFF[torch.bfloat16]
    if operand.dtype != torch.float64 and operand.is_cuda and torch.backends.cuda.matmul.allow_tf32:
        return TF32_ROUNDOFF
    return ROUNDOFF[wide_type(operand.dtype)]


def finished(left: Tensor, right: Tensor, place: Place | None = None) -> Tensor:
    """leftᵀ right per unit, kept as narrow as its operands where their range allows."""
    if right.dtype == torch.float16:
        return product(left.transpose(1, 2), right)
    out = None if place is None else place((left.shape[0], left.shape[2], right.shape[2]), right)
    return torch.bmm(left.transpose(1, 2), right) if out is None else torch.bmm(left.transpose(1, 2), right, out=out)


def stored(values: Tensor) -> Tensor:
    """The same values, for certain in memory: a compiler makes them once, and not again wherever they are used.

    For results of their own, not for views: the place of a view in its memory would be lost.
    """
    return values.as_strided(values.shape, values.stride())
