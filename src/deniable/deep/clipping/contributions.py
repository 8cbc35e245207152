"""What one use of a parameter adds to every unit's gradient, in the form that is cheapest to keep.

A unit is what is clipped once: an example, or a person with several rows. A matrix that multiplies rows has, per
unit, the gradient Σ_t left_t ⊗ right_t, where one side holds the layer's inputs and the other the output gradients.
`Factors` keeps the two sides; `Stack` keeps one finished gradient per unit. Both give what clipping needs: the
gradient of each unit, and the sum over units with one factor each.

>>> import torch
>>> pair = Factors(torch.tensor([[[1.0, 2.0]]]), torch.tensor([[[3.0, 4.0]]]), shape=(2, 2))
>>> pair.stack().tolist()
[[[3.0, 4.0], [6.0, 8.0]]]
>>> pair.total(torch.tensor([0.5]), torch.tensor([True])).tolist()
[[1.5, 2.0], [3.0, 4.0]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeGuard

import torch
from torch import Tensor

from deniable.deep.clipping import kernels
from deniable.deep.clipping.precision import finished, product, scaled, widened
from deniable.deep.clipping.shelves import Place


@dataclass(frozen=True)
class OneHot:
    """Rows that are unit vectors: `index` is [units, rows], each entry below `width`."""

    index: Tensor
    width: int


Rows: TypeAlias = Tensor | OneHot


class Contribution(Protocol):
    """One gradient per unit, kept somehow."""

    def stack(self, place: Place | None = None) -> Tensor:
        """[units, *shape]: the gradients themselves, in the memory of a place where that spares an allocation."""

    def total(self, factors: Tensor, alive: Tensor) -> Tensor:
        """Σ_i factor_i · gradient_i over the units that are alive, accumulated in fp32."""

    def pieces(self) -> Sequence[Contribution]:
        """The same units in one or several runs, in order, each of which is finished in little memory."""


class Factored(Contribution, Protocol):
    """A contribution that is a product of rows, with a norm that needs no gradient."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Rows per unit, left width, right width."""

    def sides(self) -> tuple[Rows, Tensor]:
        """[units, rows, width] each."""


@dataclass(frozen=True)
class Stack:
    """One finished gradient per unit: [units, *shape]."""

    values: Tensor

    def stack(self, place: Place | None = None) -> Tensor:
        return self.values

    def pieces(self) -> Sequence[Contribution]:
        return (self,)

    def total(self, factors: Tensor, alive: Tensor) -> Tensor:
        if kernels.suits(self.values):
            return kernels.weighted_sum(self.values, factors, alive)
        values = widened(silenced(self.values, alive))
        if values.is_cuda:
            # A product of matrices might use a narrower type; a fused sum does not.
            return (values * factors.view(-1, *[1] * (values.dim() - 1))).sum(0)
        flat = values.reshape(values.shape[0], -1).t()
        return torch.mv(flat, factors.to(values.dtype)).view(values.shape[1:])


@dataclass(frozen=True)
class Factors:
    """Two lists of rows per unit, [units, rows, width] each; left width × right width is the parameter's size."""

    left: Rows
    right: Tensor
    shape: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, int, int]:
        left = self.left.width if isinstance(self.left, OneHot) else self.left.shape[2]
        return self.right.shape[1], left, self.right.shape[2]

    def sides(self) -> tuple[Rows, Tensor]:
        return self.left, self.right

    def pieces(self) -> Sequence[Contribution]:
        return (self,)

    def stack(self, place: Place | None = None) -> Tensor:
        if not isinstance(self.left, OneHot):
            return finished(self.left, self.right, place).view(self.right.shape[0], *self.shape)
        units = self.right.shape[0]
        first = torch.arange(units, device=self.right.device).unsqueeze(1) * self.left.width
        rows = widened(self.right).flatten(0, 1)
        table = rows.new_zeros(units * self.left.width, rows.shape[1])
        return table.index_add_(0, (self.left.index + first).flatten(), rows).view(units, *self.shape)

    def total(self, factors: Tensor, alive: Tensor) -> Tensor:
        if not isinstance(self.left, OneHot):
            # A dead unit may hold inf: both sides are silenced, for 0 · inf is nan.
            left = silenced(scaled(self.left, factors), alive).flatten(0, 1)
            return product(left.t(), silenced(self.right, alive).flatten(0, 1)).view(self.shape)
        rows = silenced(widened(self.right) * factors.view(-1, 1, 1), alive).flatten(0, 1)
        table = rows.new_zeros(self.left.width, rows.shape[1])
        return table.index_add_(0, self.left.index.flatten(), rows).view(self.shape)


def is_factored(parts: Sequence[Contribution]) -> TypeGuard[Sequence[Factored]]:
    """Whether none is finished yet."""
    return not any(isinstance(part, Stack) for part in parts)


def silenced(values: Tensor, alive: Tensor) -> Tensor:
    """Zeros in the place of dead units; no work if nobody is dead and no device has to be waited for."""
    if type(alive) is Tensor and alive.device.type == "cpu" and bool(alive.all()):
        return values
    return torch.where(alive.view(-1, *[1] * (values.dim() - 1)), values, 0)
