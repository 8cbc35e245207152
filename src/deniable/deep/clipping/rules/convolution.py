"""Convolutions in one, two and three dimensions: strided, dilated, padded, grouped.

A convolution is a matrix product with patches of its input. Patches are made when they are needed, for the norm or
for the per-unit gradient, and the sum over units goes through the convolution's own weight gradient, which needs
none. Padding modes other than zeros happen before the call and need no rule.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
import torch.nn.functional as F
from torch import Tensor

from deniable.deep.clipping.calls import Call, Sketch, as_multiplied
from deniable.deep.clipping.contributions import Contribution, Rows, Stack, silenced
from deniable.deep.clipping.origins import Origin
from deniable.deep.clipping.precision import finished, product, scaled, widened
from deniable.deep.clipping.rules.anything import anything
from deniable.deep.clipping.shelves import Place

PATCHES = 2**26
"""Numbers in patches at one time."""

FEWER = 4
"""The two-pass mode, which is there to save memory, holds so many times fewer."""


@dataclass(frozen=True)
class ConvolutionGeometry:
    """How a convolution walks: one entry per spatial dimension; padding as (before, after)."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]
    groups: int

    def patches(self, inputs: Tensor) -> Tensor:
        """[n, places, groups, channels per group · kernel]: what each output place saw."""
        values = self.padded(inputs)
        for axis, (kernel, stride, dilation) in enumerate(
            zip(self.kernel, self.stride, self.dilation, strict=True), start=2
        ):
            values = values.unfold(axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
        # Channels, kernel and only then places: rows of places are copied whole.
        dims = len(self.kernel)
        values = values.permute(0, 1, *range(2 + dims, 2 + 2 * dims), *range(2, 2 + dims))
        width = inputs.shape[1] // self.groups * prod(self.kernel)
        return values.reshape(inputs.shape[0], self.groups, width, -1).permute(0, 3, 1, 2)

    def padded(self, inputs: Tensor) -> Tensor:
        if not any(any(pair) for pair in self.padding):
            return inputs
        return F.pad(inputs, [each for pair in reversed(self.padding) for each in pair])

    def weight_gradient(self, inputs: Tensor, outs: Tensor, shape: tuple[int, ...]) -> Tensor:
        """The convolution's own sum over everything."""
        weight = inputs.new_empty(shape)
        zeros = [0] * len(self.kernel)
        even = all(before == after for before, after in self.padding)
        padding, seen = ([before for before, _ in self.padding], inputs) if even else (zeros, self.padded(inputs))
        made: tuple[Tensor, Tensor, Tensor] = torch.ops.aten.convolution_backward(
            outs, seen, weight, None, self.stride, padding, self.dilation, False, zeros, self.groups,
            [False, True, False],
        )  # fmt: skip
        return made[1]


@dataclass(frozen=True)
class Patches:
    """Inputs [units, n, channels, …] and output gradients [units, n, channels out, …] of an ungrouped convolution."""

    inputs: Tensor
    outs: Tensor
    geometry: ConvolutionGeometry
    shape: tuple[int, ...]

    @property
    def sizes(self) -> tuple[int, int, int]:
        return self.outs.shape[1] * prod(self.outs.shape[3:]), self.shape[0], prod(self.shape[1:])

    def sides(self) -> tuple[Rows, Tensor]:
        return self._sides()

    def _sides(self) -> tuple[Tensor, Tensor]:
        units = self.inputs.shape[0]
        left = self.outs.flatten(3).transpose(2, 3).flatten(1, 2)
        return left, self.geometry.patches(self.inputs.flatten(0, 1)).reshape(units, left.shape[1], -1)

    def pieces(self) -> list[Patches]:
        return self._cut(PATCHES // FEWER)

    def _cut(self, most: int) -> list[Patches]:
        """So many units at a time that the patches stay small beside the activations of a network.

        Each piece is smaller than the one before: a compiler would join pieces of one size in one kernel, and hold all
        of their patches.
        """
        rows, _, width = self.sizes
        sizes, left = [max(1, most // (rows * width))], self.inputs.shape[0]
        while sum(sizes) < left:
            sizes.append(max(sizes[-1] - 1, (sizes[0] + 1) // 2))
        sizes[-1] -= sum(sizes) - left
        pairs = zip(torch.split(self.inputs, sizes), torch.split(self.outs, sizes), strict=True)
        return [Patches(inputs, outs, self.geometry, self.shape) for inputs, outs in pairs]

    def stack(self, place: Place | None = None) -> Tensor:
        pieces = self._cut(PATCHES)
        parts = [finished(*piece._sides(), place if len(pieces) == 1 else None) for piece in pieces]
        values = parts[0] if len(parts) == 1 else torch.cat(parts)
        return values.view(values.shape[0], *self.shape)

    def total(self, factors: Tensor, alive: Tensor) -> Tensor:
        outs = silenced(scaled(self.outs, factors), alive)
        inputs = silenced(self.inputs, alive)
        if inputs.dtype in (torch.float32, torch.float64):
            return self.geometry.weight_gradient(inputs.flatten(0, 1), outs.flatten(0, 1), self.shape)
        # The convolution's own weight gradient would come back in the narrow type.
        total = torch.zeros((), device=inputs.device)
        for piece in Patches(inputs, outs, self.geometry, self.shape)._cut(PATCHES):
            left, right = piece._sides()
            total = total + product(left.flatten(0, 1).t(), right.flatten(0, 1))
        return total.view(self.shape)


def convolution(call: Call) -> Sketch:
    """torch.conv1d, torch.conv2d, torch.conv3d(x, weight, bias, stride, padding, dilation, groups)."""
    inputs, weight, bias = call.argument(0, "input"), call.argument(1, "weight"), call.argument(2, "bias")
    if call.origin(inputs) is not None or inputs.dim() != weight.dim():
        return anything(call)
    weight_origin, bias_origin, shape = call.origin(weight), call.origin(bias), tuple(weight.shape)
    geometry = _geometry(call, shape)

    def contribute(saved: Sequence[Tensor], gradient: Tensor) -> list[tuple[Origin, Contribution]]:
        outs = gradient
        parts: list[tuple[Origin, Contribution]] = []
        if weight_origin is not None:
            images = saved[0]
            parts.append((weight_origin, _weight(images, outs, geometry, shape)))
        if bias_origin is not None:
            parts.append((bias_origin, Stack(widened(outs).flatten(3).sum((1, 3)))))
        return parts

    kept = () if weight_origin is None else (inputs,)
    return Sketch(kept, tuple(as_multiplied(each) for each in kept), contribute)


def _weight(images: Tensor, outs: Tensor, geometry: ConvolutionGeometry, shape: tuple[int, ...]) -> Contribution:
    if geometry.groups == 1:
        return Patches(images, outs, geometry, shape)
    seen = torch.unflatten(geometry.patches(images.flatten(0, 1)), 0, images.shape[:2])
    pulled = torch.unflatten(outs.flatten(3), 2, (geometry.groups, -1))
    return Stack(torch.einsum("unrgk,ungor->ugok", seen, pulled).reshape(images.shape[0], *shape))


def _geometry(call: Call, shape: tuple[int, ...]) -> ConvolutionGeometry:
    dims = len(shape) - 2
    kernel = shape[2:]
    stride = _each(call.argument(3, "stride", 1), dims)
    dilation = _each(call.argument(5, "dilation", 1), dims)
    padding = call.argument(4, "padding", 0)
    if padding == "same":
        gaps = [step * (size - 1) for step, size in zip(dilation, kernel, strict=True)]
        around = tuple((gap // 2, gap - gap // 2) for gap in gaps)
    else:
        around = tuple((each, each) for each in _each(0 if padding == "valid" else padding, dims))
    return ConvolutionGeometry(kernel, stride, around, dilation, call.argument(6, "groups", 1))


def _each(value: int | Sequence[int], dims: int) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,) * dims
    return tuple(value) if len(value) == dims else tuple(value) * dims
