"""A forward pass that asks for gradients by itself.

Autograd asks for one gradient here, that of the parameters, and the engine says where. `x.requires_grad_()` on data
inside the model would open a second way through the graph, which nobody watches. What it asks for is the gradient of
the data, on which the parameters' gradients do not depend: so the question is dropped, and the model goes on (libraries
put it there for activation checkpointing). A model that *takes* a gradient is refused: there the second derivative
counts, and only `torch.func.grad` under vmap computes it per example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._C._functorch import is_gradtrackingtensor
from torch.utils._pytree import tree_leaves

from deniable.errors import NotSupported

_TAKING = frozenset({torch.autograd.grad, torch.autograd.backward, Tensor.backward})
ASKING = frozenset({Tensor.requires_grad_, Tensor.requires_grad.__set__, *_TAKING})  # type: ignore[attr-defined]
"""The calls that `asks` is to be told of."""


def asks(function: Any, args: Sequence[Any], origin: Callable[[object], Any]) -> bool:
    """Whether a call of these asks for the gradient of data and nothing else; such a call is left out. `origin` says
    which parameters a tensor comes from, or None."""
    if any(isinstance(each, Tensor) and is_gradtrackingtensor(each) for each in tree_leaves(args)):
        return False  # torch.func's own work
    if function in _TAKING:
        raise NotSupported(
            "the forward pass takes a gradient itself; write it with torch.func.grad in place of torch.autograd.grad, "
            "and use mode='vmap'"
        )
    if origin(args[0]) is not None:
        raise NotSupported(
            "the forward pass changes whether a parameter requires a gradient; do that before the trainer is made"
        )
    return True


def refuse_leaves(tensors: Sequence[Tensor]) -> None:
    """Asked while no gradient is recorded: then only what was made to require one does."""
    if any(each.requires_grad for each in tensors):
        raise _foreign()


def refuse_foreign(given: Sequence[Tensor], outside: Sequence[Tensor], results: Sequence[Tensor]) -> None:
    """Asked of a call while gradients are recorded: they come from uses of parameters and from nowhere else. `outside`
    are the arguments that the pass did not make."""
    carried = False
    for each in given:
        if each.requires_grad:
            carried = True
            if each.is_leaf:
                raise _foreign()
    if carried and any(each.requires_grad for each in outside):
        raise _foreign()
    for each in results:
        if each.requires_grad and (not carried or each.is_leaf):
            raise _foreign()


def _foreign() -> NotSupported:
    return NotSupported(
        "the forward pass uses a tensor that requires a gradient and is no parameter of the model; make it an "
        "nn.Parameter in __init__ if it is to be trained, else leave requires_grad=True out, or use mode='vmap'"
    )
