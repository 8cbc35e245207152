"""The general way: the whole model under vmap, with its own copy of every parameter for each unit.

The copies are one tensor expanded without memory; their gradients are not. It costs what per-example gradients cost,
and needs nothing but that the model runs on one unit alone. No unit can meet another here: what the model sees is one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map

from deniable.deep.clipping.asking import Unasked
from deniable.deep.clipping.contributions import Stack
from deniable.deep.clipping.integers import cut
from deniable.deep.clipping.norms import settle
from deniable.deep.clipping.passes import called, inside, row_losses
from deniable.deep.clipping.steps import Clipped, Question, Recipe, answer


def clip_per_example(recipe: Recipe, question: Question) -> Clipped:
    """Clipped sums from every unit's gradient; in integers if the recipe says so."""
    gradients, losses = unit_gradients(recipe, question)
    if recipe.bits is not None:
        full = {name: gradients[name] if name in gradients else _zeros(recipe, question, name) for name in recipe.names}
        whole = cut(full, clip=float(question.clip), bits=recipe.bits, mask=recipe.unit_mask(question.mask))
        return Clipped(whole.sums, whole.norms, torch.where(question.mask, losses.detach(), 0), whole.factors)
    settled = {name: settle([Stack(each)], norm=recipe.norm) for name, each in gradients.items()}
    return answer(recipe, question, settled, losses)


def unit_gradients(recipe: Recipe, question: Question) -> tuple[dict[str, Tensor], Tensor]:
    """[units, …] for every parameter that has a gradient, and the losses of the rows."""
    rows, size = question.mask.shape[0], recipe.rows_per_unit
    units = rows // size
    # A tied parameter has several names: its copies are given under the first, and stand for all of them.
    trained = {name for name, each in recipe.model.named_parameters(remove_duplicate=False) if each.requires_grad}
    fixed = {name: each for name, each in question.tensors.items() if name not in trained}

    def one(copies: dict[str, Tensor], batch: tuple[Any, Any]) -> Tensor:
        inputs, targets = batch
        # The fused attention kernels have no rule under vmap, or a slow one.
        with recipe.precision(question.mask.device), sdpa_kernel(SDPBackend.MATH), Unasked():
            return inside(
                recipe.model,
                {**fixed, **copies},
                lambda: row_losses(recipe.loss, called(recipe.model, inputs), targets, size),
            )

    with torch.enable_grad():
        copies = {
            name: question.tensors[name].detach().expand(units, *question.tensors[name].shape).requires_grad_()
            for name in recipe.names
        }
        split = tree_map(
            lambda each: torch.unflatten(each, 0, (units, size)) if isinstance(each, Tensor) else each, question.batch
        )
        flags = tree_map(lambda each: 0 if isinstance(each, Tensor) else None, question.batch)
        losses = torch.vmap(one, in_dims=(0, flags), randomness="different")(copies, split).flatten()
        if not losses.requires_grad:
            return {}, losses
        gradients = torch.autograd.grad(
            losses, list(copies.values()), recipe.seeds(losses, question.mask), allow_unused=True
        )
    return {name: each for name, each in zip(copies, gradients, strict=True) if each is not None}, losses


def _zeros(recipe: Recipe, question: Question, name: str) -> Tensor:
    units = question.mask.shape[0] // recipe.rows_per_unit
    return torch.zeros(units, *question.tensors[name].shape, device=question.mask.device)
