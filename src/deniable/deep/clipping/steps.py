"""What the three ways of clipping share: the question they answer, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from deniable.deep.clipping import indices
from deniable.deep.clipping.calls import Use
from deniable.deep.clipping.margins import bounds, clip_factors
from deniable.deep.clipping.norms import Settled
from deniable.deep.clipping.outside import Pass
from deniable.deep.clipping.passes import Loss, called, row_losses
from deniable.deep.clipping.sharding import Sharding
from deniable.deep.clipping.shelves import Shelf
from deniable.deep.clipping.tape import Mark, Script, Tape


class Clipped(NamedTuple):
    """Clipped sums and what was clipped. Only the sums, with noise, may leave; the rest is private.

    `sums` holds Σ_i factor_i · gradient_i by parameter name, in fp32. `norms` and `factors` have one entry per unit,
    `losses` one per row. A unit whose gradient is not finite has norm inf and factor 0.
    """

    sums: dict[str, Tensor]
    norms: Tensor
    losses: Tensor
    factors: Tensor


@dataclass(frozen=True, eq=False)
class Recipe:
    """How to clip: the model, the loss, and everything that is fixed before the data comes."""

    model: nn.Module
    loss: Loss
    names: tuple[str, ...]
    rows_per_unit: int = 1
    norm: str = "l2"
    autocast: torch.dtype | None = None
    loss_scale: float = 1.0
    bits: int | None = None
    """Where gradients are cut to integers: the clip is 2^bits of their steps."""
    sharding: Sharding | None = None
    """Where parameters are spread over ranks: then sums are over all ranks, and each holds its part of them."""
    shelf: Shelf = field(default_factory=Shelf)
    """Memory that one step leaves to the next."""

    def precision(self, device: torch.device) -> AbstractContextManager[Any]:
        """Autocast, if asked for."""
        return nullcontext() if self.autocast is None else torch.autocast(device.type, self.autocast)

    def seeds(self, losses: Tensor, mask: Tensor) -> Tensor:
        """The gradient that each row's loss is given: the loss scale, or zero for a masked row."""
        return mask.to(losses.dtype) * self.loss_scale

    def present(self, use: Use) -> AbstractContextManager[None]:
        """While a use becomes contributions: its parameters' values are there, if it needs them."""
        return self.sharding.present(use.parameters) if self.sharding and use.needs_values else nullcontext()

    @property
    def ranks(self) -> int:
        """Over how many ranks a sum is taken."""
        return 1 if self.sharding is None else self.sharding.ranks

    @property
    def in_range(self) -> bool:
        """Whether indices are brought into range before a kernel sees them."""
        return indices.is_needed(next(self.model.parameters()).device, sharded=self.sharding is not None)

    def length(self, values: Tensor, *, order: int) -> Tensor:
        """The norm of a gradient, of which `values` are all numbers, or this rank's."""
        return values.norm(order) if self.sharding is None else self.sharding.length(values, order=order)

    def unit_mask(self, mask: Tensor) -> Tensor:
        """A unit takes part if one of its rows does."""
        return mask.view(-1, self.rows_per_unit).any(1)


@dataclass(frozen=True, eq=False)
class Question:
    """One batch, and the tensors to run on: all of the model's, by name."""

    tensors: Mapping[str, Tensor]
    batch: tuple[Any, Any]
    mask: Tensor
    clip: Tensor
    script: Script = field(default_factory=Script)
    real: bool = True
    """Whether the batch holds rows of the data, not made-up ones."""
    outside: dict[int, Any] | None = None
    """Under vmap: the memory from outside that a step may use; None where nobody looks."""


def watched(
    anchor: Tensor, announce: Callable[[Use, tuple[Tensor, ...]], None], receive: Callable[[Use, Tensor], None]
) -> Mark:
    """A mark that hands over every use in the forward pass, and the gradient of its output in the backward pass.

    Where nothing before it requires a gradient, a use hangs on the anchor: so a backward pass to the anchor alone
    comes by all of them.
    """

    def mark(use: Use, made: Tensor, saved: tuple[Tensor, ...]) -> Tensor:
        if not torch.is_grad_enabled():
            return made
        announce(use, saved)
        if not made.requires_grad:
            made = made + anchor.to(made.dtype)
        made.register_hook(lambda gradient: receive(use, gradient))  # type: ignore[no-untyped-call]
        return made

    return mark


def recorded(recipe: Recipe, question: Question, mark: Mark) -> Tensor:
    """The losses of a forward pass in which `mark` is told of every use of a parameter."""
    inputs, targets = question.batch
    rows = question.mask.shape[0]
    tensors = {name: question.tensors[name] for name in recipe.names}
    # FSDP2 puts other tensors in the place of parameters, so there nothing is known of where a tensor comes from.
    marks = None if recipe.sharding is not None else Pass(question.tensors, question.batch, real=question.real)
    tape = Tape(
        tensors, question.script, units=rows // recipe.rows_per_unit, mark=mark, marks=marks, in_range=recipe.in_range
    )
    with recipe.precision(question.mask.device), tape:
        losses = row_losses(recipe.loss, called(recipe.model, inputs), targets, rows)
    tape.finish()
    return losses


def answer(recipe: Recipe, question: Question, settled: dict[str, Settled], losses: Tensor) -> Clipped:
    """Factors from the norms of all parameters together, then one weighted sum per parameter."""
    scaled = question.clip * recipe.loss_scale
    found = [settled[name] for name in recipe.names if name in settled]  # in one order, whatever came first
    measured = bounds(found) if found else unmeasured(recipe, question)
    factor = clip_factors(measured, clip=scaled, mask=recipe.unit_mask(question.mask), norm=recipe.norm)

    def total(name: str) -> Tensor | None:
        return settled.pop(name).total(factor.factors, factor.alive) if name in settled else None

    return completed(recipe, question, total, factor.norms, factor.factors, losses)


def unmeasured(recipe: Recipe, question: Question) -> Tensor:
    """The `bounds` of units where no parameter has a gradient."""
    return torch.zeros(3, question.mask.shape[0] // recipe.rows_per_unit, device=question.mask.device)


def completed(
    recipe: Recipe,
    question: Question,
    total: Callable[[str], Tensor | None],
    norms: Tensor,
    factors: Tensor,
    losses: Tensor,
) -> Clipped:
    """The answer: the loss scale divided out, zeros for parameters without a gradient, masked losses at zero.

    Sums are taken one by one, so that over ranks each is spread before the next is made.
    """
    scale = recipe.loss_scale
    full = {}
    for name in recipe.names:
        shape = question.tensors[name].shape
        found = total(name)
        if found is None:
            found = torch.zeros(shape, dtype=norms.dtype, device=norms.device)
        found = found.reshape(shape) if scale == 1 else found.reshape(shape) / scale
        full[name] = found if recipe.sharding is None else recipe.sharding.spread(name, found)
    norms = norms if scale == 1 else norms / scale
    return Clipped(full, norms, torch.where(question.mask, losses.detach(), 0), factors)
