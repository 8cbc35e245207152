"""What constants and numbers are for another number of units, from what they were for FEW and for MANY.

A proof compares two sizes. A number such as max(1, rows − 4), or an index such as arange(rows).clamp(max=4), looks
harmless at both and is not at a third. So the script says what every number and every constant that meets the data has
to be at any size, and the tape compares: within a unit it may be anything, from unit to unit and with the number of
units it grows evenly. What grows in another way has no value here, and was not proved for other sizes.

>>> growth_of(torch.arange(3), torch.arange(5)).at(7)
tensor([0, 1, 2, 3, 4, 5, 6])
>>> growth_of(torch.arange(3).clamp(max=4), torch.arange(5).clamp(max=4)).at(6)  # whoever clamps has 4 in the end
tensor([0, 1, 2, 3, 4, 5])
>>> number_at(12, 20, 7), number_at(0.5, 0.5, 7), number_at(3, 4, 7)
(28, 0.5, 5)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from deniable.deep.clipping.labels import grown_axis
from deniable.deep.clipping.typing_records import FEW, MANY


def number_at(few: Any, many: Any, units: int) -> Any:
    """A number, or a list of them, for a number of units; None where nothing can be said."""
    if type(few) is not type(many):
        return None
    if few == many:
        return few
    if isinstance(few, list | tuple):
        if len(few) == len(many):
            values = [number_at(one, two, units) for one, two in zip(few, many, strict=True)]
            return values if isinstance(few, list) else tuple(values)
        if not all(isinstance(each, int) for each in (*few, *many)):
            return None
        growth = growth_of(torch.tensor(few), torch.tensor(many))
        at = None if growth is None else growth.at(units)
        if at is None:
            return None
        return at.tolist() if isinstance(few, list) else tuple(at.tolist())
    if isinstance(few, slice):
        return slice(*(number_at(getattr(few, each), getattr(many, each), units) for each in ("start", "stop", "step")))
    if not isinstance(few, int | float) or isinstance(few, bool):
        return None
    value = few + (many - few) * (units - FEW) / (MANY - FEW)
    return int(value) if isinstance(few, int) and value == int(value) else value


@dataclass(frozen=True)
class Growth:
    """A constant as a + b · unit + c · units, each a tensor [outer, 1, inner] with the units on the axis between;
    without an axis it is a + c · units."""

    axis: int | None
    start: Tensor
    by_unit: Tensor | None
    by_units: Tensor
    dtype: torch.dtype

    def at(self, units: int) -> Tensor:
        """The constant for a number of units."""
        values = self.start + self.by_units * (units - FEW)
        if self.axis is None or self.by_unit is None:
            return values.to(self.dtype)
        shape = [1] * values.dim()
        shape[self.axis + 1] = units
        line = torch.arange(units, device=values.device).view(shape)
        return (values + self.by_unit * line).flatten(self.axis, self.axis + 2).to(self.dtype)


def growth_of(few: Tensor, many: Tensor) -> Growth | None:
    """How a constant grows; None where it does so in another way."""
    dtype = few.dtype
    if few.is_complex() or many.dtype != dtype:
        return None
    wide = torch.float64 if few.is_floating_point() else torch.int64
    few, many = few.to(wide), many.to(wide)
    try:
        axis = grown_axis(tuple(many.shape), tuple(few.shape), few=FEW, many=MANY)
    except ValueError:
        return None
    if axis is None:
        return _fitting(Growth(None, few, None, _halved(many - few), dtype), few, many)
    size = few.shape[axis] // FEW
    for inner in dict.fromkeys((size, 1)):
        one, two = (
            torch.unflatten(each, axis, (size // inner, units, inner)) for each, units in ((few, FEW), (many, MANY))
        )
        first = one.narrow(axis + 1, 0, 1)
        by_unit = one.narrow(axis + 1, 1, 1) - first
        growth = Growth(axis, first, by_unit, _halved(two.narrow(axis + 1, 0, 1) - first), dtype)
        if _fitting(growth, few, many) is not None:
            return growth
    return None


def _halved(difference: Tensor) -> Tensor:
    return difference / (MANY - FEW) if difference.is_floating_point() else difference // (MANY - FEW)


def _fitting(growth: Growth, few: Tensor, many: Tensor) -> Growth | None:
    """The growth, if it is what was seen."""
    for values, units in ((few, FEW), (many, MANY)):
        if not torch.equal(growth.at(units).to(values.dtype), values.to(growth.dtype).to(values.dtype)):
            return None
    return growth
