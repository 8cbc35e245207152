"""The general way: the whole model under vmap, with its own copy of every parameter for each unit.

The copies are one tensor expanded without memory; their gradients are not. It costs what per-example gradients cost,
and needs nothing but that the model runs on one unit alone. No unit can meet another here: what the model sees is one.
What one step leaves behind for the next is refused (`Fresh`).

Some functions have no rule under vmap, or a wrong one: an embedding with a padding index would blank a row of another
unit's table. They are done in others (`Opened`). Nothing is run twice: activation checkpointing is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from deniable.deep.clipping.asking import ASKING, asks
from deniable.deep.clipping.contributions import Stack
from deniable.deep.clipping.indices import InRange
from deniable.deep.clipping.integers import cut
from deniable.deep.clipping.labels import storage_of
from deniable.deep.clipping.norms import settle
from deniable.deep.clipping.passes import called, inside, row_losses
from deniable.deep.clipping.rules import RECURRENT
from deniable.deep.clipping.rules.embedding import refuse_shared_tables
from deniable.deep.clipping.rules.packing import instead
from deniable.deep.clipping.steps import Clipped, Question, Recipe, answer
from deniable.deep.clipping.tape import Strayed
from deniable.deep.clipping.user_code import location
from deniable.errors import NotSupported


def clip_per_example(recipe: Recipe, question: Question) -> Clipped:
    """Clipped sums from every unit's gradient; in integers if the recipe says so."""
    gradients, losses = unit_gradients(recipe, question)
    if recipe.bits is not None:
        full = {name: gradients[name] if name in gradients else _zeros(recipe, question, name) for name in recipe.names}
        whole = cut(
            full,
            clip=float(question.clip),
            bits=recipe.bits,
            mask=recipe.unit_mask(question.mask),
            groups=recipe.groups,
            stability=recipe.stability,
        )
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
        in_range = InRange() if recipe.in_range else nullcontext()
        with recipe.precision(question.mask.device), sdpa_kernel(SDPBackend.MATH), Opened(), in_range:
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
        with nullcontext() if question.outside is None else Fresh(question, question.outside):
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
        change = instead(function, args)
        if change is not None:
            return change(*args, **kwargs)
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


# what a step may see


class Fresh(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Lets a step use what it is given, what it makes, and the memory `outside` that an earlier look knew. Else an
    earlier batch left it behind, and would change the gradients of this one. Nothing but its own may be written to.

    A look (`learns`) takes all memory from outside for known.
    """

    def __init__(self, question: Question, outside: dict[int, Any], *, learns: bool = False) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._outside, self._learns = outside, learns
        self._given = {storage_of(each)[0] for each in question.tensors.values()}
        self._own = {storage_of(each)[0] for each in tree_leaves(question.batch) if isinstance(each, Tensor)}

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        with torch._C.DisableTorchFunction():
            if not func._schema.name.startswith("aten::lift"):  # where a Python number becomes a tensor
                for each in tree_leaves((args, kwargs)):
                    if isinstance(each, Tensor):
                        self._meet(each)
                for each in _written(func, args, kwargs):
                    if storage_of(each)[0] not in self._own:
                        raise NotSupported(
                            f"the forward pass changes a buffer, a parameter or another tensor that outlives the step"
                            f" ({func}{location()}), and no clip bounds what that keeps of the data"
                        )
            made = func(*args, **kwargs)
            for each in tree_leaves(made):
                if isinstance(each, Tensor):
                    key = storage_of(each)[0]
                    if key not in self._given and key not in self._outside:
                        self._own.add(key)
        return made

    def _meet(self, tensor: Tensor) -> None:
        key, storage = storage_of(tensor)
        if key in self._own or key in self._given or key in self._outside:
            return
        if not self._learns:
            raise Strayed
        self._outside[key] = storage


def _written(func: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> list[Tensor]:
    """The tensors that an operation writes to."""
    found = []
    for at, each in enumerate(func._schema.arguments):
        if each.alias_info is not None and each.alias_info.is_write:
            found += tree_leaves(args[at] if at < len(args) else kwargs.get(each.name))
    return [each for each in found if isinstance(each, Tensor)]


def learn_outside(recipe: Recipe, question: Question) -> dict[int, Any]:
    """The memory from outside that steps of a model use, by storage; it is kept, so that no address comes again.
    Raises NotSupported where a step uses what the one before it has made."""
    outside: dict[int, Any] = {}
    for learns in (True, False):
        try:
            with Fresh(question, outside, learns=learns):
                unit_gradients(recipe, question)
        except Strayed:
            raise NotSupported(
                "the model keeps a tensor of one step for the next, so what one batch leaves behind changes the"
                " gradients of other examples; keep no activations in attributes, and make constants in __init__"
            ) from None
    return outside


def _zeros(recipe: Recipe, question: Question, name: str) -> Tensor:
    units = question.mask.shape[0] // recipe.rows_per_unit
    return torch.zeros(units, *question.tensors[name].shape, device=question.mask.device)
