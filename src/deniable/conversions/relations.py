"""Between relations: add/remove to replace, and why there is no way back.

Replacing a unit is removing it and adding another: a path of two steps through the data without it. So a promise about
one unit added or removed becomes the promise for a group of two, under REPLACE. The same path through the blanked-out
unit leads from ZERO_OUT to REPLACE. A direct analysis under REPLACE is often better.

| added or removed | replaced |
|---|---|
| ε | 2ε |
| (ε, δ) | (2ε, (1 + e^ε)δ) |
| ρ-zCDP | 4ρ |
| (ρ, ω)-tCDP | (4ρ, ω/2) |
| (α, ε)-RDP, α ≥ 4 | (α/2, 3ε) |
| μ-GDP | 2μ |
| f-DP | 1 − (1 − f)∘(1 − f) |

>>> from deniable.guarantees import PureDP
>>> add_remove_to_replace(PureDP(1))
PureDP(epsilon=2, relation=REPLACE)
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn, TypeVar

from deniable.conversions.group import for_group
from deniable.errors import NoConversion, UnitMismatch
from deniable.guarantees import Guarantee
from deniable.units import Relation

Kind = TypeVar("Kind", bound=Guarantee)


def add_remove_to_replace(guarantee: Kind) -> Kind:
    """Two steps: one unit leaves, another enters. Upper bound."""
    _stated(guarantee, Relation.ADD_REMOVE)
    return replace(for_group(guarantee, 2), relation=Relation.REPLACE, unit=guarantee.unit)


def zero_out_to_replace(guarantee: Kind) -> Kind:
    """Two steps: one unit is blanked out, another takes its place. Upper bound."""
    _stated(guarantee, Relation.ZERO_OUT)
    return replace(for_group(guarantee, 2), relation=Relation.REPLACE, unit=guarantee.unit)


def replace_to_add_remove(guarantee: Guarantee) -> NoReturn:
    """Does not exist: publishing the exact number of units is free under one relation and fatal under the other."""
    raise NoConversion(
        f"{guarantee!r} says nothing about adding or removing: publishing the exact number of units is free under"
        " REPLACE, where it is public, and reveals everything under ADD_REMOVE. State the sensitivity under ADD_REMOVE."
    )


def _stated(guarantee: Guarantee, relation: Relation) -> None:
    if guarantee.relation is not relation:
        raise UnitMismatch(f"expected a promise under {relation.name}; this one is under {guarantee.relation.name}.")
