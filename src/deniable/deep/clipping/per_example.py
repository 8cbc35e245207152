"""The general way: the whole model under vmap, with its own copy of every parameter for each unit.

The copies are one tensor expanded without memory; their gradients are not. It costs what per-example gradients cost,
and needs nothing but that the model runs on one unit alone. No unit can meet another here: what the model sees is one.
What a step could leave behind for the next is refused (`Fresh`).

Some functions have no rule under vmap, or a wrong one: an embedding with a padding index would blank a row of another
unit's table. They are done in others (`Opened`). Nothing is run twice: activation checkpointing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from deniable.deep.clipping.asking import ASKING, asks
from deniable.deep.clipping.contributions import Stack
from deniable.deep.clipping.integers import cut
from deniable.deep.clipping.norms import settle
from deniable.deep.clipping.passes import called, inside, row_losses
from deniable.deep.clipping.rules import RECURRENT
from deniable.deep.clipping.rules.embedding import refuse_shared_tables
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
        with recipe.precision(question.mask.device), sdpa_kernel(SDPBackend.MATH), Opened():
            return inside(
                recipe.model,
                {**fixed, **copies},
                lambda: row_losses(recipe.loss, called(recipe.model, inputs, recompute=False), targets, size),
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


# functions under vmap


class Opened(TorchFunctionMode):
    """Functions that vmap has no rule for, or a wrong one, in others; and no gradients but the engine's."""

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if function in ASKING and asks(function, args, lambda _: None):
            return args[0]
        if function in RECURRENT:
            return RECURRENT[function](None, *args, **kwargs)
        return OTHERWISE.get(function, function)(*args, **kwargs)


def _embedding(
    index: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    refuse_shared_tables(renormalizes=max_norm is not None, counts=scale_grad_by_freq)
    looked_up = F.embedding(index, weight)
    if padding_idx is None:
        return looked_up
    blank = (index == padding_idx % weight.shape[0]).unsqueeze(-1)
    return torch.where(blank, looked_up.detach(), looked_up)


def _embedding_bag(index: Tensor, weight: Tensor, offsets: Tensor | None = None, *args: Any, **kwargs: Any) -> Tensor:
    names = (
        "max_norm", "norm_type", "scale_grad_by_freq", "mode", "sparse", "per_sample_weights", "include_last_offset",
        "padding_idx",
    )  # fmt: skip
    given = dict(zip(names, args, strict=False)) | kwargs
    refuse_shared_tables(
        renormalizes=given.get("max_norm") is not None, counts=bool(given.get("scale_grad_by_freq", False))
    )
    made: Tensor = F.embedding_bag(index, weight, offsets, **{**given, "sparse": False})
    return made


OTHERWISE: dict[Any, Callable[..., Any]] = {
    F.embedding: _embedding,
    F.embedding_bag: _embedding_bag,
    torch._nested_tensor_from_mask_left_aligned: lambda *_: False,
}
"""Functions, and what is done in their place. The last one asks whether an encoder may drop padding: it may not."""


def _zeros(recipe: Recipe, question: Question, name: str) -> Tensor:
    units = question.mask.shape[0] // recipe.rows_per_unit
    return torch.zeros(units, *question.tensors[name].shape, device=question.mask.device)
