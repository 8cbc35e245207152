"""One forward pass of the model on given tensors, with one loss per row."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge
from torch.utils import checkpoint as checkpointing
from torch.utils._pytree import tree_leaves, tree_map

from deniable.deep.clipping.sharding import is_sharded, one_pass
from deniable.errors import InvalidArgument, NotSupported

Loss = Callable[[Any, Any], Tensor]
Made = TypeVar("Made")


def called(model: nn.Module, inputs: Any, *, recompute: bool = True) -> Any:
    """model(inputs): a tuple is positional, a mapping is keywords. Without `recompute` activations are kept, whatever
    the model says."""
    with one_course(), kept_activations(always=not recompute):
        if isinstance(inputs, Mapping):
            return model(**inputs)
        return model(*inputs) if isinstance(inputs, list | tuple) else model(inputs)


@contextmanager
def one_course() -> Iterator[None]:
    """Models of `transformers` choose a kernel by whether anybody's mask has a gap, unless they are being traced. In
    here they are told so. What users compiled themselves runs as it was written."""
    helpers = sys.modules.get("transformers.utils.import_utils")
    traced = getattr(helpers, "is_jit_tracing", None)
    with torch.compiler.set_stance("force_eager"):
        if helpers is None or traced is None:
            yield
            return
        helpers.is_jit_tracing = lambda: True  # type: ignore[attr-defined]
        try:
            yield
        finally:
            helpers.is_jit_tracing = traced  # type: ignore[attr-defined]


@contextmanager
def kept_activations(*, always: bool) -> Iterator[None]:
    """Activation checkpointing runs a part of the model again in the backward pass. In here that is left out: always,
    or only where it could not work, because the part is reentrant (autograd then asks for gradients of parameters) or
    because nothing that enters it carries a gradient. Results are the same, and take more memory."""
    names = "CheckpointFunction", "_checkpoint_without_reentrant_generator"
    before = {name: getattr(checkpointing, name) for name in names if hasattr(checkpointing, name)}
    usual = before.get(names[1])

    def around(*args: Any, **kwargs: Any) -> Iterator[None]:
        enters = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        if usual is not None and not always and any(each.requires_grad for each in enters):
            yield from usual(*args, **kwargs)
        else:
            yield

    instead = dict(zip(names, (_Once, around), strict=True))
    for name in before:
        setattr(checkpointing, name, instead[name])
    try:
        yield
    finally:
        for name, each in before.items():
            setattr(checkpointing, name, each)


class _Once:
    """Stands for torch.utils.checkpoint.CheckpointFunction."""

    @staticmethod
    def apply(function: Callable[..., Made], preserve: bool, *args: Any) -> Made:
        """The part of the model, once."""
        return function(*args)


def inside(model: nn.Module, tensors: Mapping[str, Tensor], body: Callable[[], Made]) -> Made:
    """What `body` returns, run while the model has other parameters and buffers.

    A backward pass belongs inside as well: under activation checkpointing it runs parts of the model again. FSDP2 puts
    parameters in place by itself, module by module.
    """
    if is_sharded(model):
        with one_pass(model):
            return body()
    made: Made = torch.func.functional_call(
        _Holder(model), {f"model.{k}": each for k, each in tensors.items()}, (body,)
    )
    return made


class _Holder(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, body: Callable[[], Made]) -> Made:
        return body()


def output(model: nn.Module, tensors: Mapping[str, Tensor], inputs: Any) -> Any:
    """model(inputs) with other parameters and buffers. What a model asks of its inputs does not reach the caller's."""
    own = tree_map(lambda each: each.detach() if isinstance(each, Tensor) else each, inputs)
    return inside(model, tensors, lambda: called(model, own))


def row_losses(loss: Loss, made: Any, targets: Any, rows: int) -> Tensor:
    """One loss per row. Losses per token, [rows, tokens] or [rows · tokens], are added up per row."""
    losses = loss(made, targets)
    if not isinstance(losses, Tensor) or losses.dim() == 0 or losses.shape[0] % rows:
        shape = tuple(losses.shape) if isinstance(losses, Tensor) else type(losses).__name__
        raise InvalidArgument(
            "loss", shape, "a function that returns one loss per example", "Use reduction='none', and average nothing."
        )
    wide = losses.to(torch.promote_types(losses.dtype, torch.float32))
    return wide.reshape(rows, -1).sum(1)


def row_count(batch: Any) -> int:
    """The rows of a batch: every tensor in it has them first."""
    tensors = [each for each in tree_leaves(batch) if isinstance(each, Tensor)]
    sizes = {each.shape[0] if each.dim() else None for each in tensors}
    if len(sizes) != 1 or None in sizes:
        shapes = [tuple(each.shape) for each in tensors]
        raise InvalidArgument(
            "batch", shapes, "tensors with one entry per example first", "Keep what examples share in the model."
        )
    return int(sizes.pop() or 0)


def chosen(batch: Any, index: Tensor) -> Any:
    """Some rows of a batch."""
    return tree_map(lambda each: each[index.to(each.device)] if isinstance(each, Tensor) else each, batch)


def backward(
    losses: Tensor, inputs: Sequence[Tensor] | Sequence[GradientEdge], seeds: Tensor, *, retain_graph: bool = False
) -> tuple[Tensor | None, ...]:
    """The gradients of Σ seed · loss; None where there is none."""
    try:
        return torch.autograd.grad(losses, inputs, seeds, retain_graph=retain_graph, allow_unused=True)
    except RuntimeError as error:
        if "checkpoint" not in str(error).lower():
            raise
        raise NotSupported(
            "a part of the model under activation checkpointing could not be run again in the same way: leave recurrent"
            " layers, and layers whose input carries no gradient, outside, or switch checkpointing off"
        ) from error
