"""A call in which parameters take part, and what a rule says about it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from deniable.deep.clipping.contributions import Contribution
from deniable.deep.clipping.labels import Place
from deniable.deep.clipping.origins import Origin, pulled_back
from deniable.errors import NotSupported


@dataclass(frozen=True)
class Axes:
    """Where the units lie in each saved tensor and in the output; None for a saved tensor that all units share."""

    saved: tuple[Place | None, ...]
    output: Place


Contribute: TypeAlias = Callable[[Sequence[Tensor], Tensor], list[tuple[Origin, Contribution]]]
"""(saved tensors, output gradient), all [units, what the call saw of the unit] → one contribution per parameter.

It must hold on to no activation: what it needs of one is saved.
"""


@dataclass(frozen=True)
class Sketch:
    """What a rule says about a call: the tensors to save, the same before any cast (their places are known), and how
    they make contributions."""

    sources: tuple[Tensor, ...]
    saved: tuple[Tensor, ...]
    contribute: Contribute
    needs_values: bool = False
    """Whether contributions are computed from values of the parameters too."""


@dataclass(frozen=True, eq=False)
class Call:
    """One call with a parameter among its arguments; `origin` says which arguments come from parameters alone."""

    function: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    origin: Callable[[object], Origin | None]

    @property
    def name(self) -> str:
        return str(getattr(self.function, "__name__", self.function))

    def run(self) -> Any:
        """The call as it stands."""
        return self.function(*self.args, **self.kwargs)

    def argument(self, at: int, name: str, default: Any = None) -> Any:
        """An argument by position or by name."""
        return self.args[at] if len(self.args) > at else self.kwargs.get(name, default)

    def others(self) -> tuple[Tensor, ...]:
        """The tensors among the arguments that do not come from parameters."""
        return tuple(each for each in self._leaves() if isinstance(each, Tensor) and self.origin(each) is None)

    def origins(self) -> list[Origin]:
        """Of every argument that comes from parameters alone."""
        return [found for each in self._leaves() if (found := self.origin(each)) is not None]

    def _leaves(self) -> Iterator[Any]:
        """Every argument, and what is in those that are nests."""
        for each in (*self.args, *self.kwargs.values()):
            if isinstance(each, list | tuple | dict):
                yield from tree_leaves(each)
            else:
                yield each

    def described(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with origins in the place of the tensors that they describe."""
        args, kwargs = tree_map(lambda each: self.origin(each) or each, (self.args, dict(self.kwargs)))
        return args, kwargs


@dataclass(frozen=True, eq=False)
class Use:
    """One call in which a parameter met the data."""

    name: str
    parameters: frozenset[str]
    axes: Axes
    units: int
    dtype: torch.dtype
    contribute: Contribute
    versions: tuple[int, ...]
    needs_values: bool = False

    def contributions(self, saved: Sequence[Tensor], gradient: Tensor) -> list[tuple[str, Contribution]]:
        """One contribution per parameter of the call, from the saved tensors and the output's gradient."""
        if self.versions != tuple(each._version for each in saved):
            raise NotSupported(
                f"an input of {self.name} was changed in place after the call, so its gradient would be wrong; "
                "write x = x + y in place of x += y there"
            )
        with torch.no_grad():
            split = [by_unit(each, place, self.units) for each, place in zip(saved, self.axes.saved, strict=True)]
            out = by_unit(gradient.to(self.dtype), self.axes.output, self.units)
            parts = self.contribute(split, out)
        return [each for origin, part in parts for each in pulled_back(origin, part)]


def by_unit(values: Tensor, place: Place | None, units: int) -> Tensor:
    """[units, …]: the part of a tensor that belongs to each unit, its rows on the axis where they were."""
    if place is None:
        return values.expand(units, *values.shape)
    axis, inner = place
    outer = values.shape[axis] // (units * inner)
    if axis == 0 and outer == 1:
        return values.reshape(units, inner, *values.shape[1:])
    split = torch.unflatten(values, axis, (outer, units, inner)).movedim(axis + 1, 0)
    return split.flatten(axis + 1, axis + 2)


def as_multiplied(values: Tensor) -> Tensor:
    """A tensor as autocast hands it to a matrix product: in the narrow type, where autocast is on."""
    kind = values.device.type
    if torch.is_autocast_enabled(kind) and values.is_floating_point() and values.dtype != torch.float64:
        return values.to(torch.get_autocast_dtype(kind))
    return values
