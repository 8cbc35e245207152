"""Clipped gradients as exact integers, for `GridNoise`.

Every unit's gradient is computed on its own (`torch.func.vmap`), scaled so that the clipping norm is 2^bits, shortened
in double precision, and cut towards 0 to integers. The length of those integers is then checked in integers: a unit
that is still too long, or not finite, counts as 0. So the sums are exact, whatever the order of addition, and one unit
moves them by at most 2^bits, with no rounding left out of the sensitivity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad_and_value, vmap

Loss = Callable[[Any, Any], Tensor]


class IntegerSums:
    """Integer sums of one model's clipped gradients, with the norms and losses of the units."""

    def __init__(self, model: nn.Module, loss: Loss, *, bits: int, rows_per_unit: int = 1) -> None:
        self._model, self._loss, self._bits, self._rows = model, loss, bits, rows_per_unit
        self._each = vmap(grad_and_value(self._one), in_dims=(None, None, 0, 0), randomness="different")

    def _one(self, trained: dict[str, Tensor], rest: dict[str, Tensor], x: Any, y: Any) -> Tensor:
        alone, target = _each(lambda t: t[None], x), _each(lambda t: t[None], y)
        arguments, named = (
            (alone, {}) if isinstance(alone, tuple) else ((), alone) if isinstance(alone, dict) else ((alone,), {})
        )
        output = functional_call(self._model, {**trained, **rest}, arguments, named)
        return self._loss(output, target).sum()

    def __call__(
        self, batch: tuple[Any, Any], *, clip: float, mask: Tensor
    ) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        """Sums by parameter name (int64, in steps of clip/2^bits), norms by unit, losses by row."""
        trained = {n: p.detach() for n, p in self._model.named_parameters() if p.requires_grad}
        rest = {n: p.detach() for n, p in self._model.named_parameters() if not p.requires_grad}
        rest |= dict(self._model.named_buffers())
        gradients, losses = self._each(trained, rest, *batch)
        units = [self._by_unit(each, mask) for each in gradients.values()]
        squares = torch.stack([each.square().sum(1) for each in units]).sum(0)
        # 2⁻⁴⁰ covers the rounding of the norm; the check in integers below needs no such allowance.
        shorter = (2.0**self._bits * (1 - 2.0**-40)) / torch.sqrt(squares).clamp_min(clip)
        whole = [torch.nan_to_num(torch.trunc(each * shorter[:, None])).to(torch.int64) for each in units]
        length = torch.stack([each.square().sum(1) for each in whole]).sum(0)
        fits = torch.isfinite(squares) & (length <= 4**self._bits)
        sums = {
            name: (each * fits[:, None]).sum(0).view(gradients[name].shape[1:])
            for name, each in zip(gradients, whole, strict=True)
        }
        norms = torch.where(torch.isfinite(squares), torch.sqrt(squares), torch.inf)
        return sums, norms.float(), torch.where(mask, losses.detach(), 0.0).float()

    def _by_unit(self, gradient: Tensor, mask: Tensor) -> Tensor:
        """One flat gradient per unit, in double precision: the sum over its rows that are there."""
        rows = gradient.detach().double().reshape(len(gradient), -1)
        rows = torch.where(mask[:, None], rows, 0.0)
        return rows.view(-1, self._rows, rows.shape[1]).sum(1)


def _each(change: Callable[[Tensor], Tensor], value: Any) -> Any:
    """A change of every tensor in tuples, lists and mappings."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {name: _each(change, each) for name, each in value.items()}
    if isinstance(value, tuple | list):
        return tuple(_each(change, each) for each in value)
    return value
