"""The general way: the whole model under vmap, with its own copy of every parameter for each unit.

The copies are one tensor expanded without memory; their gradients are not. It costs what per-example gradients cost,
and needs nothing but that the model runs on one unit alone.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_map

from deniable.deep.clipping.asking import Unasked
from deniable.deep.clipping.contributions import Stack
from deniable.deep.clipping.norms import settle
from deniable.deep.clipping.passes import output, row_losses
from deniable.deep.clipping.steps import Clipped, Question, Recipe, answer


def clip_per_example(recipe: Recipe, question: Question) -> Clipped:
    """Clipped sums from every unit's gradient."""
    rows, size = question.mask.shape[0], recipe.rows_per_unit
    units = rows // size
    # A tied parameter has several names: its copies are given under the first, and stand for all of them.
    trained = {name for name, each in recipe.model.named_parameters(remove_duplicate=False) if each.requires_grad}
    fixed = {name: each for name, each in question.tensors.items() if name not in trained}

    def one(copies: dict[str, Tensor], batch: tuple[Any, Any]) -> Tensor:
        # The fused attention kernels have no rule under vmap, or a slow one.
        with recipe.precision(question.mask.device), sdpa_kernel(SDPBackend.MATH), Unasked():
            made = output(recipe.model, {**fixed, **copies}, batch[0])
            return row_losses(recipe.loss, made, batch[1], size)

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
        gradients = torch.autograd.grad(
            losses, list(copies.values()), recipe.seeds(losses, question.mask), allow_unused=True
        )
    settled = {
        name: settle([Stack(each)], norm=recipe.norm)
        for name, each in zip(copies, gradients, strict=True)
        if each is not None
    }
    return answer(recipe, question, settled, losses)
