"""Labels and tokens that are out of range, where a kernel could not refuse them one by one.

On a CPU a kernel that finds an index out of range raises, and the engine then works unit by unit. On a CUDA device it
ends the process, and on a rank of FSDP2 it leaves the others waiting. So there indices are brought into range first,
and what was made of one that was not is multiplied by NaN: the gradient of its unit is not finite, and the unit
contributes nothing, as any other without a finite gradient.

>>> changed = within_range(F.embedding, (torch.tensor([1, 7]), torch.zeros(3, 2)), {})
>>> changed.args[0].tolist(), changed.factor.flatten().tolist()
([1, 0], [1.0, nan])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode


class Change(NamedTuple):
    """Arguments with indices in range, and what the result is multiplied by: 1, or NaN where an index was not."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    factor: Tensor
    given: tuple[Tensor, ...]
    """The indices among the arguments, as they were."""
    new: tuple[Tensor, ...]
    """The indices in range."""

    def marked(self, made: Any) -> Any:
        """A result with NaN where it was made of an index out of range. Whole numbers have no NaN, and stay."""
        if not isinstance(made, Tensor) or not made.is_floating_point():
            return made
        shape = self.factor.shape
        if made.shape[: len(shape)] != shape:
            return made
        return made * self.factor.to(made.dtype).reshape(*shape, *[1] * (made.dim() - len(shape)))


def within_range(function: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Change | None:
    """How a call is changed so that it cannot fail; None for calls that look nothing up."""
    change = _CHANGES.get(function)
    return None if change is None else change(tuple(args), dict(kwargs))


def is_needed(device: torch.device, *, sharded: bool) -> bool:
    """Whether a kernel that refuses an index could not be asked again."""
    return sharded or device.type != "cpu"


class InRange(TorchFunctionMode):
    """Changes every call that looks something up."""

    def __torch_function__(
        self, function: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        change = within_range(function, args, kwargs or {})
        if change is None:
            return function(*args, **(kwargs or {}))
        return change.marked(function(*change.args, **change.kwargs))


def _bounded(index: Tensor, low: int, high: int, *, also: int | None = None) -> tuple[Tensor, Tensor]:
    """An index with 0 in the place of what is not in [low, high) nor equal to `also`; and the factor."""
    fits = (index >= low) & (index < high)
    if also is not None:
        fits = fits | (index == also)
    return torch.where(fits, index, torch.zeros_like(index)), torch.where(fits, 1.0, torch.nan)


def _is_index(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def _argument(at: int, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], default: Any = None) -> Any:
    return args[at] if len(args) > at else kwargs.get(name, default)


def _replaced(
    at: int, name: str, value: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if len(args) > at:
        return (*args[:at], value, *args[at + 1 :]), kwargs
    return args, {**kwargs, name: value}


def _table(index_at: int, index_name: str, table_at: int) -> Callable[[tuple[Any, ...], dict[str, Any]], Change | None]:
    """A look into the rows of a table."""

    def change(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Change | None:
        index, table = _argument(index_at, index_name, args, kwargs), _argument(table_at, "weight", args, kwargs)
        if not _is_index(index) or not isinstance(table, Tensor):
            return None
        new, factor = _bounded(index, 0, table.shape[0])
        return Change(*_replaced(index_at, index_name, new, args, kwargs), factor, (index,), (new,))

    return change


def _labels(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Change | None:
    """The class of each example."""
    output, target = _argument(0, "input", args, kwargs), _argument(1, "target", args, kwargs)
    if not _is_index(target) or not isinstance(output, Tensor) or output.dim() < 1:
        return None
    ignored = _argument(4, "ignore_index", args, kwargs, -100)
    new, factor = _bounded(target, 0, output.shape[1 if output.dim() > 1 else 0], also=ignored)
    return Change(*_replaced(1, "target", new, args, kwargs), factor, (target,), (new,))


def _gathered(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Change | None:
    """Numbers along an axis."""
    values = _argument(0, "input", args, kwargs)
    axis, index = _argument(1, "dim", args, kwargs), _argument(2, "index", args, kwargs)
    if not _is_index(index) or not isinstance(values, Tensor) or not isinstance(axis, int) or not values.dim():
        return None
    new, factor = _bounded(index, 0, values.shape[axis])
    return Change(*_replaced(2, "index", new, args, kwargs), factor, (index,), (new,))


def _chosen(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Change | None:
    """values[index, …] with indices on the first axes."""
    values, places = args
    several = places if isinstance(places, tuple) else (places,)
    leading = 0
    while leading < len(several) and _is_index(several[leading]) and several[leading].dtype != torch.uint8:
        leading += 1
    if not leading or any(isinstance(each, Tensor | list) for each in several[leading:]):
        return None
    changed, factors = zip(
        *(_bounded(index, -size, size) for index, size in zip(several[:leading], values.shape, strict=False)),
        strict=True,
    )
    factor = factors[0]
    for each in factors[1:]:
        factor = factor * each
    places = (*changed, *several[leading:]) if isinstance(places, tuple) else changed[0]
    return Change((values, places), kwargs, factor, tuple(several[:leading]), changed)


_CHANGES: dict[Any, Callable[[tuple[Any, ...], dict[str, Any]], Change | None]] = {
    F.embedding: _table(0, "input", 1),
    torch.embedding: _table(1, "indices", 0),
    F.cross_entropy: _labels,
    F.nll_loss: _labels,
    torch.gather: _gathered,
    Tensor.gather: _gathered,
    Tensor.__getitem__: _chosen,
}
