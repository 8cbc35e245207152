"""The weighted sum over units on a GPU, in one pass at the speed of its memory.

Σ_i factor_i · gradient_i over finished gradients reads every number once and does next to nothing with it. In tensor
operations that takes wide copies of everything; compiled by torch it reads 0.9 TB/s of bf16 on an H200, by hand
3.8 TB/s (bench/results). The kernel is in Triton, which comes with torch where that is built for GPUs; elsewhere
`suits` says no, and the sum stays in tensor operations.

*Order.* A program has some neighbouring numbers, an fp32 accumulator for each, and goes through the units from first
to last: accumulator + factor · value, in one or two roundings. The order is fixed, eagerly and compiled. A sum over n
units errs by at most γ_{n+1} Σ_i |factor_i · value_i|, γ_k = k·u/(1 − k·u), u = 2⁻²⁴ (Higham, "Accuracy and stability
of numerical algorithms", 2002, section 3.1). Margins hold whatever this order is: what they count are the roundings in
the squares of *one* unit (`norms`) and one for the factor.

*Dead units* are not read. What they hold may be inf or nan, and 0 times that is nan.

>>> suits(torch.ones(4, SMALLEST))  # not on a GPU
False
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.utils._triton import has_triton

TYPES = (torch.bfloat16, torch.float16, torch.float32)

SMALLEST = 2**18
"""Numbers per unit from which the kernel is the faster one. Fewer, under many units, would leave most of a device
idle, for a program goes through all units; a compiler splits such sums."""

BLOCK, WARPS = 256, 2
"""Numbers per program, and groups of 32 threads: four numbers for each thread."""

AHEAD = 8
"""Units whose numbers are on their way at one time."""


def suits(values: Tensor) -> bool:
    """Whether `weighted_sum` takes gradients like these, [units, …], and is worth it."""
    large = values.shape[0] > 0 and prod(values.shape[1:]) >= SMALLEST
    return large and values.is_cuda and values.dtype in TYPES and has_triton()


def weighted_sum(values: Tensor, factors: Tensor, alive: Tensor) -> Tensor:
    """Σ_i factor_i · values_i in fp32 over the units that are alive; values are [units, …] in any layout."""
    # In the order of their memory: of gradients that lie transposed only the sum is copied.
    order = sorted(range(1, values.dim()), key=values.stride, reverse=True)
    lying = values.permute(0, *order)
    flat: Tensor = _weighted_sum(lying.reshape(values.shape[0], -1), factors, alive)
    return flat.view(lying.shape[1:]).permute([order.index(axis) for axis in range(1, values.dim())]).contiguous()


# An operation of its own: a graph that is traced holds one node, and the compiler leaves it alone.
@torch.library.custom_op(
    "deniable::weighted_sum",
    mutates_args=(),
    device_types="cuda",
    schema="(Tensor values, Tensor factors, Tensor alive) -> Tensor",
)
def _weighted_sum(values: Tensor, factors: Tensor, alive: Tensor) -> Tensor:
    """[units, n] → [n]."""
    if values.stride(1) != 1:
        values = values.contiguous()
    units, size = values.shape
    made = torch.empty(size, dtype=torch.float32, device=values.device)
    with torch.cuda.device(values.device):
        _kernel()[(-(-size // BLOCK),)](
            values, values.stride(0), factors.float().contiguous(), alive.contiguous(), made, units, size,
            BLOCK=BLOCK, AHEAD=AHEAD, num_warps=WARPS,
        )  # fmt: skip
    return made


@_weighted_sum.register_fake
def _made(values: Tensor, factors: Tensor, alive: Tensor) -> Tensor:
    return values.new_empty(values.shape[1], dtype=torch.float32)


@cache
def _kernel() -> Any:
    import triton
    import triton.language as tl

    def weighted_sum_over_units(
        values: tl.tensor, stride: tl.tensor, factors: tl.tensor, alive: tl.tensor, made: tl.tensor,
        units: tl.tensor, size: tl.tensor, BLOCK: tl.constexpr, AHEAD: tl.constexpr,
    ) -> None:  # fmt: skip
        # In 64 bits: all units together may well hold more than 2³¹ numbers.
        at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        total = tl.zeros([BLOCK], tl.float32)
        for first in range(0, units, AHEAD):
            for ahead in tl.static_range(AHEAD):
                unit = first + ahead
                lives = tl.load(alive + unit, mask=unit < units, other=0) != 0
                factor = tl.load(factors + unit, mask=lives, other=0.0)
                row = tl.load(values + unit.to(tl.int64) * stride + at, mask=lives & (at < size), other=0.0)
                total += factor * row.to(tl.float32)
        tl.store(made + at, total, mask=at < size)

    return triton.jit(weighted_sum_over_units)
