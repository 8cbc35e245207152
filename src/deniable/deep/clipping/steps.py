"""What the three ways of clipping share: the question they answer, and the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from deniable.deep.clipping import indices
from deniable.deep.clipping.calls import Use
from deniable.deep.clipping.margins import GroupFactors, bounds, group_factors
from deniable.deep.clipping.norms import Settled
from deniable.deep.clipping.outside import Pass
from deniable.deep.clipping.passes import Loss, called, row_losses
from deniable.deep.clipping.sharding import Sharding
from deniable.deep.clipping.shelves import Shelf
from deniable.deep.clipping.tape import Mark, Script, Tape
from deniable.deep.clips import Group


class Clipped(NamedTuple):
    """Clipped sums and what was clipped. Only the sums, with noise, may leave; the rest is private.

    `sums` holds Σ_i factor_i · gradient_i by parameter name, in fp32. `norms` and `factors` have one entry per unit
    (factors: one per unit and group, where there are several groups), `losses` one per row. A unit whose gradient is
    not finite has norm inf and factor 0.
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
    groups: tuple[Group, ...] = ()
    """Parameters that are clipped together."""
    stability: float | None = None
    """Where gradients are divided by their norms plus this, not shortened."""
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

    def factors(self, measured: Sequence[Tensor | None], question: Question) -> GroupFactors:
        """The factors of units, from the `bounds` of each group; None where no parameter of it has a gradient."""
        units = question.mask.shape[0] // self.rows_per_unit
        return group_factors(
            [torch.zeros(3, units, device=question.mask.device) if each is None else each for each in measured],
            self.groups,
            clip=question.clip * self.loss_scale,
            mask=self.unit_mask(question.mask),
            norm=self.norm,
            stability=None if self.stability is None else self.stability * self.loss_scale,
        )

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
    # In one order, whatever came first.
    found = [[settled[name] for name in group.names if name in settled] for group in recipe.groups]
    factors = recipe.factors([bounds(each) if each else None for each in found], question)

    def total(name: str) -> Tensor | None:
        own = factors.of(name)
        return settled.pop(name).total(own.factors, own.alive) if name in settled else None

    return completed(recipe, question, total, factors.norms, factors.factors, losses)


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
