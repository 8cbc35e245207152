"""Which optimizers a trainer can drive: those that take gradients as they are given, of this model and of all of it.

The trainer writes noisy gradients and calls `step()` once. An optimizer that evaluates the loss by itself would see the
data past the clipping; one that holds other parameters, or not all, would train something else than what was paid for.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from deniable.errors import InvalidArgument, NotSupported


def check(optimizer: torch.optim.Optimizer, model: nn.Module) -> None:
    """Refuse an optimizer that the guarantee does not cover."""
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise InvalidArgument(
            "optimizer", type(optimizer).__name__, "a torch optimizer",
            "For example torch.optim.SGD(model.parameters(), lr=0.1).",
        )  # fmt: skip
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise NotSupported(f"{type(optimizer).__name__} evaluates the loss several times a step; use SGD, Adam, ...")
    if isinstance(optimizer, torch.optim.SparseAdam):
        raise NotSupported("noise is added to every number of a gradient, so none is sparse; use Adam for SparseAdam")
    held = {id(each) for group in optimizer.param_groups for each in group["params"]}
    left = [name for name, each in model.named_parameters() if each.requires_grad and id(each) not in held]
    if left:
        raise InvalidArgument(
            "optimizer", type(optimizer).__name__, f"given every trainable parameter; {left[0]} is missing",
            "Freeze what should not change: parameter.requires_grad_(False).",
        )  # fmt: skip
    if held - {id(each) for each in model.parameters()}:
        raise InvalidArgument("optimizer", type(optimizer).__name__, "given parameters of this model only")


def check_state(optimizer: torch.optim.Optimizer, state: Mapping[str, Any]) -> None:
    """Refuse the state of another kind of optimizer, which torch would load and stumble over in the first step.

    Another version of torch may know more options, or fewer; another kind has options of its own and lacks others.
    """
    for own, stored in zip(optimizer.param_groups, state["param_groups"], strict=True):
        missing, foreign = sorted(own.keys() - stored.keys()), sorted(stored.keys() - own.keys() - {"initial_lr"})
        if missing and foreign:
            raise ValueError(f"its optimizer has {foreign[0]}, and this {type(optimizer).__name__} has {missing[0]}")


def identities(optimizer: torch.optim.Optimizer, model: nn.Module) -> tuple[list[Any], ...]:
    """The modules of a model, their parameters and those of the optimizer, by identity."""
    modules = list(model.modules())
    held = [each for module in modules for each in module._parameters.values() if each is not None]
    return (
        [id(each) for each in modules],
        [(id(each), each.requires_grad) for each in held],
        [id(each) for group in optimizer.param_groups for each in group["params"]],
    )
