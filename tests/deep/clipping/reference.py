"""The reference of these tests: torch.func's per-example gradients, nothing of ours."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deniable.deep.clipping import Clipped, ClippingEngine

torch.set_num_threads(1)


def cross_entropy(made: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(made, y, reduction="none")


def gradients(model: nn.Module, loss: Any, batch: tuple[Any, Any]) -> dict[str, Tensor]:
    """[rows, *shape] for every trainable parameter, by vmap over grad."""
    trainable = {name: each.detach() for name, each in model.named_parameters() if each.requires_grad}
    fixed = {name: each.detach() for name, each in model.named_parameters() if not each.requires_grad}

    def one(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        made = torch.func.functional_call(model, {**fixed, **parameters}, (x.unsqueeze(0),))
        return loss(made, y.unsqueeze(0)).sum()

    return torch.func.vmap(torch.func.grad(one), (None, 0, 0))(trainable, *batch)


def by_unit(stacks: dict[str, Tensor], size: int) -> dict[str, Tensor]:
    """[units, *shape]: `size` rows to a unit."""
    return {name: each.double().unflatten(0, (-1, size)).sum(1) for name, each in stacks.items()}


def unit_norms(stacks: dict[str, Tensor], *, order: int = 2, size: int = 1) -> Tensor:
    """The norm of every unit's gradient, over all parameters."""
    flat = [each.reshape(len(each), -1) for each in by_unit(stacks, size).values()]
    return torch.cat(flat, dim=1).norm(order, dim=1)


def distance(one: dict[str, Tensor], two: dict[str, Tensor]) -> float:
    """‖one − two‖ over all parameters."""
    assert list(one) == list(two)
    return float(torch.cat([(one[name].double() - two[name].double()).flatten() for name in one]).norm())


def assert_agrees(
    found: Clipped, stacks: dict[str, Tensor], clip: float, *, order: int = 2, size: int = 1, rounding: float = 1e-5
) -> None:
    """Norms and sums are those of the gradients; factors bring each unit to the clip, never above, hardly below."""
    norms = unit_norms(stacks, order=order, size=size)
    torch.testing.assert_close(found.norms.double(), norms, rtol=rounding, atol=1e-6)
    factors = found.factors.double()
    ideal = (clip / norms).clamp(max=1)
    assert bool((factors * norms <= clip * (1 + 1e-9)).all())
    assert bool((factors >= ideal * (0.99 - 10 * rounding)).all())
    units = by_unit(stacks, size)
    sums = {name: torch.tensordot(factors, each, dims=1) for name, each in units.items()}
    assert distance(found.sums, sums) <= rounding * float((factors * norms).sum()) + 1e-6


def check_against_vmap(
    model: nn.Module,
    batch: tuple[Any, Any],
    *,
    loss: Any = cross_entropy,
    modes: tuple[str, ...] = ("fast", "two_pass"),
) -> None:
    """Every mode, with about half of the examples clipped."""
    stacks = gradients(model, loss, batch)
    clip = float(unit_norms(stacks).median())
    for mode in modes:
        engine = ClippingEngine(model, loss, mode=mode)
        assert_agrees(engine(batch, clip=clip), stacks, clip)
        assert engine.way(batch) == mode


def one_by_one(model: nn.Module, loss: Any, batch: tuple[Any, Any]) -> dict[str, Tensor]:
    """[rows, *shape] for every trainable parameter, by plain autograd on one example at a time: nothing is batched."""
    x, y = batch
    trained = {name: each for name, each in model.named_parameters() if each.requires_grad}
    rows = []
    for at in range(len(y)):
        given = tuple(each[at : at + 1] for each in x) if isinstance(x, tuple) else (x[at : at + 1],)
        losses = loss(model(*given), y[at : at + 1]).sum()
        found = torch.autograd.grad(losses, list(trained.values()), allow_unused=True)
        rows.append([each if each is None or not each.is_sparse else each.to_dense() for each in found])
    return {
        name: torch.stack([torch.zeros_like(each) if row[at] is None else row[at] for row in rows])
        for at, (name, each) in enumerate(trained.items())
    }


def check_one_by_one(
    model: nn.Module,
    batch: tuple[Any, Any],
    *,
    loss: Any = cross_entropy,
    modes: tuple[str, ...] = ("fast", "two_pass", "vmap"),
    way: str | None = None,
) -> None:
    """Every mode against single examples, with about half of them clipped."""
    stacks = one_by_one(model, loss, batch)
    clip = float(unit_norms(stacks).median())
    for mode in modes:
        engine = ClippingEngine(model, loss, mode=mode)
        assert_agrees(engine(batch, clip=clip), stacks, clip)
        assert engine.way(batch) == (way or mode)
