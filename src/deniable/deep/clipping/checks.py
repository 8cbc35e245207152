"""The second line behind the proof: numbers, on made-up values, with every module as it is in training.

The reference is the definition itself: each unit alone, through the plain model and plain autograd. It is compared with
the engine in these ways, at the present weights and at shaken ones, so that a gate of zeros hides nothing:

- alone: the norm of every unit, and the clipped sum of every trainable parameter, are those of single units;
- replaced: with the same random state, a unit's inputs and targets replaced, the losses and norms of the others stay;
- turned: with the rows in another order, norms come in that order;
- buffers are what they were; every trainable parameter that has a gradient gets one.

Where two runs must not draw differently, `Still` makes every draw a constant; dropout then changes nothing, and no
module has to leave the mode it trains in. What is found is a fact about model, loss and form, never about a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from deniable.deep.clipping.forms import Form
from deniable.deep.clipping.passes import called, chosen, inside, row_losses
from deniable.deep.clipping.rules.packing import PossibleLengths
from deniable.deep.clipping.sharding import Sharding, local
from deniable.deep.clipping.steps import Clipped, Question, Recipe
from deniable.errors import NotSupported

UNITS = 4
# How far two correct computations may be apart, relative: the operands' rounding, some layers deep.
TOLERANCE = {None: 2e-3, torch.float16: 2e-2, torch.bfloat16: 8e-2}
# The same shapes run the same kernels: a change of one unit moves the others by nothing, or by a last bit.
NEAR = 1e-5
FAR = 30.0
"""The unit that is replaced holds larger numbers, so that what little of it reaches others is seen."""

Tensors = Mapping[str, Tensor]
Way = Callable[[Recipe, Question], Clipped]


@dataclass(frozen=True)
class SelfCheck:
    """What was checked, all of it passed: on which way, how many units, and the parameters that have no gradient."""

    mode: str
    units: int
    unused: tuple[str, ...]

    def __str__(self) -> str:
        unused = f"; without a gradient: {', '.join(self.unused)}" if self.unused else ""
        return f"self-check passed: {self.units} units, mode {self.mode}{unused}"


class Still(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Draws become constants: the mean of their law, an order turned round."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        with torch._C.DisableTorchFunction():  # what happens in here is no call of the model
            return self._draw(func, args, dict(kwargs or {}))

    @staticmethod
    def _draw(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        if name in ("native_dropout", "_fused_dropout"):
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        given = [each.name for each in func._schema.arguments]
        if "dropout_p" in given:
            at = given.index("dropout_p")
            if len(args) > at:
                args = (*args[:at], 0.0, *args[at + 1 :])
            kwargs.pop("dropout_p", None)
            return func(*args, **kwargs)
        made = func(*args, **kwargs)
        if name == "bernoulli" and len(args) == 1:
            return made.copy_(args[0])
        if name == "randperm":
            return made.copy_(torch.arange(made.numel() - 1, -1, -1))
        if not isinstance(made, Tensor) or made.is_complex():
            return made
        kept = name.startswith("bernoulli") and len(args) > 1 and isinstance(args[1], float)
        return made.fill_((args[1] if kept else 0.5) if made.is_floating_point() else 0)


def check(
    recipe: Recipe,
    way: Way,
    tensors: Tensors,
    question: Callable[[Any, Tensors], Question],
    form: Form,
    *,
    clip: float,
    shaken: bool,
) -> tuple[str, ...]:
    """Compare a way of clipping with one unit at a time, at the present weights or at shaken ones; there also with a
    unit replaced, and with rows in another order. Raises NotSupported with the reason when they differ. Returns the
    parameters that have no gradient."""
    tensors = _copies(recipe, tensors)
    batch = form.made_up(UNITS * recipe.rows_per_unit, seed=1)
    before = {name: tensors[name].clone() for name, _ in recipe.model.named_buffers()}

    def clipped(batch: Any, tensors: Tensors, *, still: bool) -> Clipped:
        _seed(tensors)
        asked = question(batch, tensors)
        if not still:
            return way(recipe, asked)
        with Still():
            return way(recipe, asked)

    with torch.random.fork_rng(_devices(tensors)), _without_tf32():
        if shaken:
            tensors = _shaken(tensors, recipe)
        found = clipped(batch, tensors, still=True)
        unused = _compare_alone(recipe, tensors, batch, found, clip)
        if shaken:
            other = form.made_up(UNITS * recipe.rows_per_unit, seed=2)
            _compare_replaced(recipe, lambda given: clipped(given, tensors, still=False), batch, other)
            _compare_turned(recipe, found, lambda given: clipped(given, tensors, still=True), batch)
        _refuse_changed_buffers(before, tensors)
    return unused


@contextmanager
def _without_tf32() -> Iterator[None]:
    """TF32 rounds by as much as the tolerance, and differently for a batch and for one unit. What is compared is the
    arithmetic of the model, so a check on a GPU works in full float32."""
    places: tuple[Any, ...] = (torch.backends.cuda.matmul, torch.backends.cudnn) if torch.cuda.is_available() else ()
    before = [place.allow_tf32 for place in places]
    for place in places:
        place.allow_tf32 = False
    try:
        yield
    finally:
        for place, allowed in zip(places, before, strict=True):
            place.allow_tf32 = allowed


def refuse_mixing_losses(recipe: Recipe, tensors: Tensors, form: Form) -> None:
    """Plain losses in a batch and alone: for ways that isolate examples by themselves, and would train another model
    than the one that was written if examples really met."""
    tensors = _shaken(_copies(recipe, tensors), recipe)
    size = recipe.rows_per_unit
    rows = UNITS * size
    batch, other = (form.made_up(rows, seed=seed) for seed in (1, 2))
    with torch.random.fork_rng(_devices(tensors)), torch.no_grad(), _without_tf32():
        with Still():
            whole = _losses(recipe, tensors, batch, rows)
            alone = torch.cat([_losses(recipe, tensors, _unit(batch, at, size), size) for at in range(UNITS)])
        _refuse_apart(whole, alone, TOLERANCE[recipe.autocast] / 4, whole.isfinite())
        seen = []
        for given in (batch, _replaced(batch, other, size)):
            _seed(tensors)
            seen.append(_losses(recipe, tensors, given, rows))
        others = torch.arange(rows, device=whole.device) < rows - size
        _refuse_apart(seen[0], seen[1], NEAR, others & seen[0].isfinite())


def compare_compiled(recipe: Recipe, one: Clipped, two: Clipped) -> None:
    """The compiled step against the eager one."""
    room = TOLERANCE[recipe.autocast] * (one.norms + 1e-6)
    if bool((torch.isfinite(one.norms) & ((one.norms - two.norms).abs() > room)).any()):
        raise NotSupported("the compiled step gives other norms than the eager one; use compile=False")


# comparisons


def _compare_alone(recipe: Recipe, tensors: Tensors, batch: Any, found: Clipped, clip: float) -> tuple[str, ...]:
    """Norms and sums against each unit alone. Returns the parameters that have no gradient at all."""
    tolerance, size = TOLERANCE[recipe.autocast], recipe.rows_per_unit
    unit_of_sums = 1.0 if recipe.bits is None else clip / 2.0**recipe.bits
    given = {name: each * (unit_of_sums / recipe.ranks) for name, each in found.sums.items()}
    sums = {name: torch.zeros_like(given[name]) for name in recipe.names}
    scale = torch.zeros((), device=found.norms.device)
    unused = set(recipe.names)
    for unit in range(UNITS):
        _seed(tensors)
        with Still():
            gradients = _alone(recipe, tensors, _unit(batch, unit, size), size)
        unused -= gradients.keys()
        flat = [each.flatten().to(found.norms.dtype) for each in gradients.values()]
        together = torch.cat(flat) if flat else found.norms.new_zeros(1)
        norm = recipe.length(together, order=1 if recipe.norm == "l1" else 2)
        if not bool(torch.isfinite(norm)):
            continue
        if bool((found.norms[unit] - norm).abs() > tolerance * (norm + 1e-4)):
            raise NotSupported("the per-example norms of this model do not agree with those of single examples" + _HINT)
        factors = found.factors[unit].reshape(-1)
        group_of = {name: at for at, group in enumerate(recipe.groups) for name in group.names}
        for name, each in gradients.items():
            sums[name] += factors[group_of[name]] * each.to(sums[name].dtype)
        scale += factors.max() * recipe.length(together, order=2)
    cut = 0.0 if recipe.bits is None else UNITS * unit_of_sums  # of every number towards zero
    wrong = [
        name
        for name in recipe.names
        if bool((given[name] - sums[name]).norm() > tolerance * scale + 1e-5 + cut * given[name].numel() ** 0.5)
    ]
    if wrong:
        raise NotSupported(f"the gradient of {', '.join(wrong)} is not what single examples give" + _HINT)
    return tuple(name for name in recipe.names if name in unused)


_HINT = (
    "; a parameter may be used inside an operation that the tape cannot see into, or in another order of rows "
    "than it assumes: use mode='vmap', or rewrite that operation with torch functions"
)


def _compare_replaced(recipe: Recipe, clipped: Callable[[Any], Clipped], batch: Any, other: Any) -> None:
    """The last unit replaced: the others' losses and norms stay."""
    size = recipe.rows_per_unit
    one, two = clipped(batch), clipped(_replaced(batch, other, size))
    _refuse_apart(one.losses[:-size], two.losses[:-size], NEAR, torch.isfinite(one.losses[:-size]))
    _refuse_apart(one.norms[:-1], two.norms[:-1], NEAR, torch.isfinite(one.norms[:-1]))


def _compare_turned(recipe: Recipe, one: Clipped, clipped: Callable[[Any], Clipped], batch: Any) -> None:
    """The units in another order: norms and losses come in that order."""
    order = torch.arange(UNITS).roll(1)
    rows = (order.unsqueeze(1) * recipe.rows_per_unit + torch.arange(recipe.rows_per_unit)).flatten()
    two = clipped(chosen(batch, rows))
    room = TOLERANCE[recipe.autocast]
    _refuse_apart(one.losses[rows.to(one.losses.device)], two.losses, room, torch.isfinite(two.losses))
    _refuse_apart(one.norms[order.to(one.norms.device)], two.norms, room, torch.isfinite(two.norms))


def _refuse_apart(one: Tensor, two: Tensor, room: float, counts: Tensor) -> None:
    apart = ~((one - two).abs() <= room * (1e-2 + one.abs())) & counts
    if bool(apart.any()):
        raise NotSupported(
            "the loss or the gradient of one example changes with the other examples of the batch, so clipping cannot"
            " bound what one example does; look for normalization, centering, contrast or sorting over the batch, and"
            " work within each example (nn.GroupNorm, nn.LayerNorm)"
        )


def _refuse_changed_buffers(before: Tensors, after: Tensors) -> None:
    for name, each in before.items():
        if not torch.equal(each, after[name]):
            raise NotSupported(
                f"the forward pass changes the buffer {name} by what it sees, and no clip bounds that; "
                "freeze it (module.eval()) or use a layer without running statistics"
            )


# batches and passes


def _unit(batch: Any, unit: int, size: int) -> Any:
    return chosen(batch, torch.arange(unit * size, (unit + 1) * size))


def _replaced(batch: Any, other: Any, size: int) -> Any:
    """A batch whose last unit is another's last, its fractions far away."""

    def replaced(one: Any, two: Any) -> Any:
        if not isinstance(one, Tensor):
            return one
        return torch.cat([one[:-size], two[-size:] * FAR if one.is_floating_point() else two[-size:]])

    return tree_map(replaced, batch, other)


def _copies(recipe: Recipe, tensors: Tensors) -> dict[str, Tensor]:
    """The model's tensors, to be changed at will; tied ones stay one."""
    copies: dict[int, Tensor] = {}
    if recipe.sharding is not None:
        return dict(tensors)
    return {name: copies.setdefault(id(each), each.detach().clone()) for name, each in tensors.items()}


def _shaken(tensors: Tensors, recipe: Recipe) -> dict[str, Tensor]:
    """Trainable parameters moved by half of their spread at least, so that none of them is zero."""
    if recipe.sharding is not None:
        return dict(tensors)
    generator = torch.Generator().manual_seed(5)
    moved: dict[int, Tensor] = {}
    trained = {id(tensors[name]) for name in recipe.names}
    for each in tensors.values():
        if id(each) in trained and id(each) not in moved and each.is_floating_point():
            spread = float(each.std()) / 2 if each.numel() > 1 else 0.0
            noise = torch.randn(each.shape, generator=generator).to(each.device, each.dtype)
            moved[id(each)] = each + noise * max(0.05, spread)
    return {name: moved.get(id(each), each) for name, each in tensors.items()}


def _losses(recipe: Recipe, tensors: Tensors, batch: Any, rows: int) -> Tensor:
    device = next(iter(tensors.values())).device
    inputs, targets = batch

    def body() -> Tensor:
        with recipe.precision(device), PossibleLengths():
            return row_losses(recipe.loss, called(recipe.model, inputs, recompute=False), targets, rows)

    return inside(recipe.model, tensors, body)


def _alone(recipe: Recipe, tensors: Tensors, batch: Any, rows: int) -> dict[str, Tensor]:
    """One unit's gradient by plain autograd; parameters without one are left out."""
    if recipe.sharding is not None:
        return _alone_on_all(recipe, recipe.sharding, batch, rows)
    tied: dict[int, Tensor] = {}
    with torch.enable_grad():
        leaves = {
            name: tied.setdefault(id(each), each.detach().requires_grad_(name in recipe.names))
            for name, each in tensors.items()
        }
        wanted = [leaves[name] for name in recipe.names]

        def body() -> tuple[Tensor | None, ...]:
            losses = _losses(recipe, leaves, batch, rows)
            if not losses.requires_grad:
                return (None,) * len(wanted)
            return torch.autograd.grad((losses * recipe.loss_scale).sum(), wanted, allow_unused=True)

        # Under activation checkpointing the backward pass runs parts of the model again, with the same parameters.
        gradients = inside(recipe.model, leaves, body)
    return {
        name: (each.to_dense() if each.is_sparse else each).float() / recipe.loss_scale
        for name, each in zip(recipe.names, gradients, strict=True)
        if each is not None
    }


def _alone_on_all(recipe: Recipe, sharding: Sharding, batch: Any, rows: int) -> dict[str, Tensor]:
    """The same where parameters are spread: every rank takes the same unit, and FSDP2 averages equal gradients.

    What is returned is this rank's part of each gradient.
    """
    with torch.enable_grad(), sharding.plainly() as parameters:
        with recipe.precision(next(iter(parameters.values())).device), PossibleLengths():
            losses = row_losses(recipe.loss, called(recipe.model, batch[0]), batch[1], rows)
        (losses * recipe.loss_scale).sum().backward()  # type: ignore[no-untyped-call]
        gradients = {name: parameters[name].grad for name in recipe.names}
    return {name: local(each).float() / recipe.loss_scale for name, each in gradients.items() if each is not None}


def _seed(tensors: Tensors) -> None:
    """The generators of the processor and of the model's devices, from the start."""
    torch.default_generator.manual_seed(0)
    for device in _devices(tensors):
        torch.cuda.default_generators[device].manual_seed(0)


def _devices(tensors: Tensors) -> list[int]:
    return sorted({each.device.index for each in tensors.values() if each.is_cuda})
