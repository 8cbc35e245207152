"""The norm of every unit's gradient: from the factors, or from the gradient itself, whichever is smaller.

From factors the squared norm is a sum over pairs of rows (Goodfellow, "Efficient per-example gradient computations",
2015, for one row; Li et al., "Large language models can be strong differentially private learners", ICLR 2022,
section 4, for sequences):

    ‖Σ_t left_t ⊗ right_t‖² = Σ_{s,t} ⟨left_s, left_t⟩ ⟨right_s, right_t⟩.

Several uses of one parameter are one longer list of rows; the pairs between uses are the cross terms. With r rows of
widths p and d this costs r²(p + d) multiplications and keeps r(p + d) numbers; the gradient costs r·p·d and keeps
p·d. One inequality, p·d ≤ r(p + d), therefore says which is cheaper in time and in memory. Where finished gradients are
kept for the sum, the product that finishes them is no extra work, and is worth twice the memory (`room`).

>>> import torch
>>> from deniable.deep.clipping.contributions import Factors
>>> settle([Factors(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 4.0]]]), (2, 2))]).square.item()
125.0
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from deniable.deep.clipping.contributions import Contribution, Factored, Factors, OneHot, Rows, Stack, is_factored
from deniable.deep.clipping.precision import product, roundoff, wide_type, widened
from deniable.deep.clipping.shelves import Place

BLOCK = 256
# Roundings that a product may go through while BLOCK² of them are added up: reductions work in blocks, not in a chain.
CHAIN = 2**8
# Squares added up in one run; then the runs are added. No sum of fewer than 2²⁴ squares is a longer chain than this.
RUN = 2**12
# Rows that a GPU multiplies at once: a table of inner products whose lines have another length takes slow kernels.
ALIGNED = 8
# So many uses of one parameter, of so few rows each, are joined to one.
MANY, FEW = 4, 16
# A product of two fp32 numbers below 2⁻¹²⁶ may be rounded to zero. Four times that, so that its root is twice the norm
# that is lost, and covers what rounding the operands adds to it.
UNDERFLOW = 2.0**-124


@dataclass(frozen=True)
class Settled:
    """One parameter's part: its squared (or absolute) norm per unit, and what is kept for the sum.

    `spread` is Σ_t ‖left_t‖‖right_t‖, the norm without cancellation: rounding errors are relative to it. It is None
    where norm and sum are taken from the same finished gradients, which cannot disagree.
    """

    square: Tensor
    kept: tuple[Contribution, ...]
    spread: Tensor | None = None
    depth: int = 0
    roundoff: float = 0.0

    def total(self, factors: Tensor, alive: Tensor) -> Tensor:
        first, *rest = [part.total(factors, alive) for part in self.kept]
        return sum(rest, start=first)


def settle(parts: Sequence[Contribution], *, norm: str = "l2", room: int = 1, place: Place | None = None) -> Settled:
    """Take the norm of one parameter's gradient, from all its uses, and decide what to keep.

    Finished gradients may take `room` times the memory of the pair, and lie at `place`, if that is given.
    """
    parts = joined(parts)
    if norm == "l2" and is_factored(parts) and not finished_fits(parts, room):
        return _from_factors(parts)
    finished = [part.stack(place if at == 0 else None) for at, part in enumerate(parts)]
    values = finished[0] if len(finished) == 1 else sum(map(widened, finished[1:]), start=widened(finished[0]))
    wide = widened(values).reshape(values.shape[0], -1)
    return Settled(absolutes(wide) if norm == "l1" else squares(wide), (Stack(values),))


def joined(parts: Sequence[Contribution]) -> Sequence[Contribution]:
    """Many short lists of rows as one long list: a cell that is used once per token has as many uses as tokens."""
    dense = [part for part in parts if isinstance(part, Factors) and isinstance(part.left, Tensor)]
    if len(parts) < MANY or len(dense) < len(parts) or sum(part.sizes[0] for part in dense) > FEW * len(parts):
        return parts
    left = torch.cat([part.left for part in dense if isinstance(part.left, Tensor)], dim=1)
    return [Factors(left, torch.cat([part.right for part in dense], dim=1), dense[0].shape)]


def finished_fits(parts: Sequence[Factored], room: int) -> bool:
    """Whether p·d ≤ room · r(p + d), r the rows of all uses together."""
    if any(isinstance(part, Factors) and isinstance(part.left, OneHot) for part in parts):
        room = 1  # unit vectors take no memory, and their products no time
    _, left, right = parts[0].sizes
    return left * right <= room * sum(part.sizes[0] for part in parts) * (left + right)


def squares(values: Tensor) -> Tensor:
    """[units]: sums of squares of [units, n], in runs."""
    # On a CPU a norm is one pass where squares and their sum are two; the root and its square round by one unit each.
    return _in_runs(values, lambda run: torch.linalg.vector_norm(run, dim=-1).square())


def absolutes(values: Tensor) -> Tensor:
    """[units]: sums of absolute values of [units, n], in runs."""
    return _in_runs(values, lambda run: run.abs().sum(-1))


def _in_runs(values: Tensor, summed: Callable[[Tensor], Tensor]) -> Tensor:
    whole = values.shape[1] // RUN * RUN
    if not whole:
        return summed(values)
    total = summed(torch.unflatten(values[:, :whole], 1, (-1, RUN))).sum(1)
    return total if whole == values.shape[1] else total + summed(values[:, whole:])


def _from_factors(parts: Sequence[Factored]) -> Settled:
    sides = [part.sides() for part in parts]
    square: Tensor | None = None
    spread: Tensor | None = None
    lengths: tuple[Tensor, Tensor] | None = None
    for at, (left, right) in enumerate(sides):
        own, row_norms, long, wide = _self_pairs(left, right)
        square = own if square is None else square + own
        spread = row_norms if spread is None else spread + row_norms
        lengths = (long, wide) if lengths is None else (lengths[0] + long, lengths[1] + wide)
        for other_left, other_right in sides[:at]:
            square = square + 2 * (_gram(left, other_left) * _gram(right, other_right)).sum((1, 2))
    if square is None or lengths is None:
        raise AssertionError("a parameter without a use has nothing to settle")
    _, left_width, right_width = parts[0].sizes
    error = max(roundoff(right) for _, right in sides)
    depth = left_width + right_width + CHAIN
    # An inner product of p tiny numbers is lost up to p · UNDERFLOW, and may have met one that is huge: over all pairs
    # of rows that is p · UNDERFLOW · (Σ_t ‖right_t‖)², and likewise for the other side.
    long, wide = lengths
    lost = left_width * (wide * UNDERFLOW**0.5).square() + right_width * (long * UNDERFLOW**0.5).square()
    return Settled(square.clamp(min=0) + lost, tuple(parts), spread, depth=depth, roundoff=error)


def _self_pairs(left: Rows, right: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Σ_{s,t} ⟨left_s, left_t⟩⟨right_s, right_t⟩, Σ_t ‖left_t‖‖right_t‖, Σ_t ‖left_t‖ and Σ_t ‖right_t‖; each pair of
    blocks once."""
    rows = right.shape[1]
    if rows == 1 and not isinstance(left, OneHot):
        one, two = squares(widened(left).flatten(1)), squares(widened(right).flatten(1))
        return one * two, (one * two).sqrt(), one.sqrt(), two.sqrt()
    if right.is_cuda and not isinstance(left, OneHot) and rows >= 4 * ALIGNED:
        left, right = filled(left), filled(right)
        rows = right.shape[1]
    square = right.new_zeros((), dtype=wide_type(right.dtype))
    spread = long = wide = square
    for start in range(0, rows, BLOCK):
        end = min(start + BLOCK, rows)
        here = _cut(left, start, end), right[:, start:end]
        one, two = _gram(here[0], here[0]), _gram(here[1], here[1])
        square = square + (one * two).sum((1, 2))
        row_norms = [each.diagonal(dim1=1, dim2=2).clamp(min=0).sqrt() for each in (one, two)]
        spread = spread + (row_norms[0] * row_norms[1]).sum(1)
        long, wide = long + row_norms[0].sum(1), wide + row_norms[1].sum(1)
        if start:
            before = _cut(left, 0, start), right[:, :start]
            square = square + 2 * (_gram(here[0], before[0]) * _gram(here[1], before[1])).sum((1, 2))
    return square, spread, long, wide


def filled(rows: Tensor) -> Tensor:
    """The rows, with rows of zeros up to a multiple of ALIGNED: they add nothing to any inner product."""
    missing = -rows.shape[1] % ALIGNED
    return F.pad(rows, (0, 0, 0, missing)) if missing else rows


def _cut(rows: Rows, start: int, end: int) -> Rows:
    return OneHot(rows.index[:, start:end], rows.width) if isinstance(rows, OneHot) else rows[:, start:end]


def _gram(one: Rows, two: Rows) -> Tensor:
    """[units, rows of one, rows of two]: the inner products."""
    if isinstance(one, OneHot) and isinstance(two, OneHot):
        return (one.index.unsqueeze(2) == two.index.unsqueeze(1)).to(torch.float32)
    if isinstance(two, OneHot):
        index = two.index.unsqueeze(1)
        return widened(one.gather(2, index.expand(-1, one.shape[1], -1)))  # type: ignore[union-attr]
    if isinstance(one, OneHot):
        return _gram(two, one).transpose(1, 2)
    return product(one, two.transpose(1, 2))
