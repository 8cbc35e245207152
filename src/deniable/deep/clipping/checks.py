"""The start-up self-check: on the real model and a real batch, is what the engine computes what it should be?

The reference is the definition itself: each unit alone, through the plain model and plain autograd. Four questions
are asked:

- does the loss of one example change when another example does (then no clipping bounds its influence);
- does the forward pass change a buffer by what it sees;
- are the norms, and for every trainable parameter the clipped sums, those of the reference;
- does every trainable parameter that has a gradient get one.

A model that fails is refused. The answers depend on private data only as far as a wrong engine would, and no message
shows a value of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from deniable.deep.clipping.passes import called, chosen, output, row_losses
from deniable.deep.clipping.sharding import Sharding, local
from deniable.deep.clipping.steps import Clipped, Recipe
from deniable.errors import NotSupported

if TYPE_CHECKING:
    from deniable.deep.clipping.engine import ClippingEngine

UNITS = 4
# How far two correct computations may be apart, relative: the operands' rounding, some layers deep.
TOLERANCE = {None: 2e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}


@dataclass(frozen=True)
class SelfCheck:
    """What was checked, all of it passed: how many units, on which way, and the parameters that have no gradient."""

    mode: str
    units: int
    deterministic: bool
    unused: tuple[str, ...]

    def __str__(self) -> str:
        unused = f"; without a gradient: {', '.join(self.unused)}" if self.unused else ""
        return f"self-check passed: {self.units} units, mode {self.mode}{unused}"


def check(engine: ClippingEngine, batch: tuple[Any, Any], *, clip: float, mask: Tensor | None) -> SelfCheck:
    """Compare the engine with one unit at a time. Raises NotSupported with the reason when they differ."""
    recipe = engine.recipe
    tensors, copies = engine.tensors(), dict[int, Tensor]()
    if recipe.sharding is None:
        # Tied parameters are one tensor under several names, and stay one.
        tensors = {name: copies.setdefault(id(each), each.detach().clone()) for name, each in tensors.items()}
    few = _few_units(batch, recipe, mask)
    rows = UNITS * recipe.rows_per_unit
    before = {name: tensors[name].clone() for name, _ in recipe.model.named_buffers()}
    with torch.random.fork_rng(_devices(tensors)):
        first, second = _losses(recipe, tensors, few, rows), _losses(recipe, tensors, few, rows)
        _refuse_changed_buffers(before, tensors)
        steady = torch.equal(first, second)
        with _quiet(recipe.model, steady):
            _refuse_leaks(recipe, tensors, few, rows)
            twin = engine.eager()
            found = twin(few, clip=clip)
            unused = _compare(recipe, tensors, few, found)
            if steady and engine.compile:
                _compare_norms(recipe, twin(batch, clip=clip, mask=mask), engine(batch, clip=clip, mask=mask))
    return SelfCheck(twin.way(few), UNITS, steady, unused)


def _few_units(batch: tuple[Any, Any], recipe: Recipe, mask: Tensor | None) -> tuple[Any, Any]:
    """A few whole units of real rows; a small batch is repeated."""
    size = recipe.rows_per_unit
    rows = next(each.shape[0] for each in _leaves(batch))
    whole = torch.arange(rows // size)
    if mask is not None:
        real = whole[mask.cpu().view(-1, size).all(1)]
        whole = real if len(real) else whole
    units = whole[torch.arange(UNITS) % len(whole)]
    index = (units.unsqueeze(1) * size + torch.arange(size)).flatten()
    some: tuple[Any, Any] = chosen(batch, index)
    return some


def _losses(recipe: Recipe, tensors: dict[str, Tensor], batch: tuple[Any, Any], rows: int) -> Tensor:
    device = next(iter(tensors.values())).device
    with torch.no_grad(), recipe.precision(device):
        return row_losses(recipe.loss, output(recipe.model, tensors, batch[0]), batch[1], rows)


def _refuse_changed_buffers(before: dict[str, Tensor], after: dict[str, Tensor]) -> None:
    for name, each in before.items():
        if not torch.equal(each, after[name]):
            raise NotSupported(
                f"the forward pass changes the buffer {name} by what it sees, and no clip bounds that; "
                "freeze it (module.eval()) or use a layer without running statistics"
            )


def _refuse_leaks(recipe: Recipe, tensors: dict[str, Tensor], batch: tuple[Any, Any], rows: int) -> None:
    """Change the last unit; the losses of the others must stay. Take the first unit alone; its losses must stay."""
    size = recipe.rows_per_unit
    whole = _losses(recipe, tensors, batch, rows)
    # The same shapes run the same kernels: a change of one unit moves the others by nothing, or by a last bit.
    near, far = 1e-5 * (1 + whole.abs()), TOLERANCE[recipe.autocast] / 4 * (1 + whole.abs())
    turned = torch.cat([torch.arange(rows - size), torch.arange(size)])
    for other in (chosen(batch, turned), (_shaken(batch[0], rows - size), batch[1])):
        moved = (_losses(recipe, tensors, other, rows) - whole).abs() > near
        if bool(moved[: rows - size].any()):
            raise _mixes()
    alone = _losses(recipe, tensors, chosen(batch, torch.arange(size)), size)
    if bool(((alone - whole[:size]).abs() > far[:size]).any()):
        raise _mixes()


def _mixes() -> NotSupported:
    return NotSupported(
        "the loss of one example changes with the other examples of the batch, so clipping cannot bound what one "
        "example does; look for normalization, centering, contrast or sorting over the batch, and do it within each "
        "example (nn.GroupNorm, nn.LayerNorm)"
    )


def _shaken(inputs: Any, start: int) -> Any:
    """Floating-point inputs of the last rows replaced by others."""

    def shake(each: Any) -> Any:
        if not isinstance(each, Tensor) or not each.is_floating_point():
            return each
        return torch.cat([each[:start], each[start:] * -1.5 + 0.25])

    return tree_map(shake, inputs)


def _compare(recipe: Recipe, tensors: dict[str, Tensor], batch: tuple[Any, Any], found: Clipped) -> tuple[str, ...]:
    """Norms and sums against each unit alone. Returns the parameters that have no gradient at all."""
    tolerance = TOLERANCE[recipe.autocast]
    size = recipe.rows_per_unit
    given = {name: each / recipe.ranks for name, each in found.sums.items()}
    sums = {name: torch.zeros_like(given[name]) for name in recipe.names}
    scale = torch.zeros((), device=found.norms.device)
    unused = set(recipe.names)
    for unit in range(UNITS):
        rows = torch.arange(unit * size, (unit + 1) * size)
        gradients = _alone(recipe, tensors, chosen(batch, rows), size)
        unused -= gradients.keys()
        flat = [each.flatten().to(found.norms.dtype) for each in gradients.values()]
        together = torch.cat(flat) if flat else found.norms.new_zeros(1)
        norm = recipe.length(together, order=1 if recipe.norm == "l1" else 2)
        if not bool(torch.isfinite(norm)):
            continue
        if bool((found.norms[unit] - norm).abs() > tolerance * (norm + 1e-6)):
            raise NotSupported("the per-example norms of this model do not agree with those of single examples" + _HINT)
        for name, each in gradients.items():
            sums[name] += found.factors[unit] * each.to(sums[name].dtype)
        scale += found.factors[unit] * recipe.length(together, order=2)
    wrong = [name for name in recipe.names if bool((given[name] - sums[name]).norm() > tolerance * scale + 1e-6)]
    if wrong:
        raise NotSupported(f"the gradient of {', '.join(wrong)} is not what single examples give" + _HINT)
    return tuple(name for name in recipe.names if name in unused)


_HINT = (
    "; a parameter may be used inside an operation that the tape cannot see into, or in another order of rows "
    "than it assumes: use mode='vmap', or rewrite that operation with torch functions"
)


def _compare_norms(recipe: Recipe, one: Clipped, two: Clipped) -> None:
    room = TOLERANCE[recipe.autocast] * (one.norms + 1e-6)
    if bool((torch.isfinite(one.norms) & ((one.norms - two.norms).abs() > room)).any()):
        raise NotSupported("the compiled step gives other norms than the eager one; use compile=False")


def _alone(recipe: Recipe, tensors: dict[str, Tensor], batch: tuple[Any, Any], rows: int) -> dict[str, Tensor]:
    """One unit's gradient by plain autograd; parameters without one are left out."""
    if recipe.sharding is not None:
        return _alone_on_all(recipe, recipe.sharding, batch, rows)
    device = next(iter(tensors.values())).device
    tied: dict[int, Tensor] = {}
    with torch.enable_grad():
        leaves = {
            name: tied.setdefault(id(each), each.detach().requires_grad_(name in recipe.names))
            for name, each in tensors.items()
        }
        with recipe.precision(device):
            losses = row_losses(recipe.loss, output(recipe.model, leaves, batch[0]), batch[1], rows)
        wanted = [leaves[name] for name in recipe.names]
        gradients = torch.autograd.grad((losses * recipe.loss_scale).sum(), wanted, allow_unused=True)
    return {
        name: each.float() / recipe.loss_scale
        for name, each in zip(recipe.names, gradients, strict=True)
        if each is not None
    }


def _alone_on_all(recipe: Recipe, sharding: Sharding, batch: tuple[Any, Any], rows: int) -> dict[str, Tensor]:
    """The same where parameters are spread: every rank takes the same unit, and FSDP2 averages equal gradients.

    What is returned is this rank's part of each gradient.
    """
    with torch.enable_grad(), sharding.plainly() as parameters:
        with recipe.precision(next(iter(parameters.values())).device):
            losses = row_losses(recipe.loss, called(recipe.model, batch[0]), batch[1], rows)
        (losses * recipe.loss_scale).sum().backward()  # type: ignore[no-untyped-call]
        gradients = {name: parameters[name].grad for name in recipe.names}
    return {name: local(each).float() / recipe.loss_scale for name, each in gradients.items() if each is not None}


@contextmanager
def _quiet(model: nn.Module, steady: bool) -> Iterator[None]:
    """Without dropout, where the model draws at random: two runs could not be compared."""
    modes = {name: module.training for name, module in model.named_modules()}
    if not steady:
        model.eval()
    try:
        yield
    finally:
        for name, module in model.named_modules():
            module.training = modes[name]


def _devices(tensors: dict[str, Tensor]) -> list[int]:
    return sorted({each.device.index for each in tensors.values() if each.is_cuda})


def _leaves(batch: Any) -> list[Tensor]:
    from torch.utils._pytree import tree_leaves

    return [each for each in tree_leaves(batch) if isinstance(each, Tensor)]
