"""What two runs of a proof write down for each other: operations, their numbers, and the constants they use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch._ops import OpOverload

from deniable.deep.clipping.labels import LOOSE, Fault, Geometry, Place, compact, uniform
from deniable.deep.clipping.typing_layouts import NAMES, Key
from deniable.deep.clipping.typing_rules import RULES, SIZES, VIEWS, Rule, base_name, pointwise
from deniable.deep.clipping.user_code import location
from deniable.errors import NotSupported

FEW, MANY = 3, 5
"""Units of the typed run, and of the run that it is compared with."""


class Snapshot(NamedTuple):
    """A constant as it was when an operation used it."""

    shape: tuple[int, ...]
    values: Tensor


@dataclass(slots=True)
class Record:
    """One operation of the first run, for the second to compare with."""

    operation: OpOverload
    numbers: dict[str, Any]
    """Its arguments that are no tensors, and where in lists the tensors are."""
    geometries: list[Geometry]
    key: Key | None = None
    """What is known of the operation when it comes again."""
    constants: dict[int, Snapshot] = field(default_factory=dict)
    memory: Tensor | None = None
    """All of the constant storage that an operation writes into a part of."""
    value: object = None
    """A Python value that was taken from a tensor which is not private."""


class Course(NotSupported):
    """Two runs made different operations."""

    def __init__(self) -> None:
        super().__init__(
            "the forward pass takes another course with another number of rows, or from one run to the"
            f" next{location()};"
            " its course must not depend on the batch, nor on what is kept from earlier steps"
        )


@dataclass(frozen=True, slots=True)
class Facts:
    """What is fixed about an operation."""

    name: str
    title: str
    """As messages print it."""
    arguments: tuple[str, ...]
    defaults: dict[str, Any]
    tensors: tuple[str, ...]
    """Arguments that hold a tensor, several, a number in the place of one, or nothing."""
    numbers: tuple[str, ...]
    """The others."""
    writes: tuple[str, ...]
    looks: bool
    """Returns a Python value, or a shape, that depends on the numbers in tensors."""
    draws: bool
    rule: Rule | None
    sizes: frozenset[str]
    decomposition: Callable[..., Any] | None
    composite: bool
    views: bool
    repeats: bool
    """Results have a layout that follows from the arguments (typing_layouts.py)."""


@cache
def facts_of(operation: OpOverload) -> Facts:
    """The facts of an operation, from its schema, its tags and the table of rules."""
    schema, tags = operation._schema, set(operation.tags)
    types = {each.name: str(each.type) for each in schema.arguments}
    name = schema.name.removeprefix("aten::")
    base = base_name(name)
    rule = RULES.get(base)
    if rule is None and torch.Tag.pointwise in tags:
        rule = pointwise
    writes = tuple(each.name for each in schema.arguments if each.alias_info is not None and each.alias_info.is_write)
    views = bool(operation.is_view) or name in VIEWS
    by_arguments = operation.namespace == "aten" and (torch.Tag.pointwise in tags or name in NAMES)
    return Facts(
        name=name,
        title=str(operation),
        arguments=tuple(types),
        defaults={each.name: each.default_value if each.has_default_value() else None for each in schema.arguments},
        tensors=tuple(name for name, type_ in types.items() if "Tensor" in type_),
        numbers=tuple(name for name, type_ in types.items() if "Tensor" not in type_),
        writes=writes,
        looks=rule is None and bool({torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & tags),
        draws=torch.Tag.nondeterministic_seeded in tags,
        rule=rule,
        sizes=SIZES.get(base, frozenset()),
        decomposition=decomposition_table.get(operation) if rule is None else None,
        composite=rule is None and operation._can_decompose(),
        views=views,
        repeats=by_arguments and not (writes or views) and rule is not None,
    )


def draws_nothing(facts: Facts, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Whether an operation is asked for dropout of nothing."""
    if "dropout_p" not in facts.arguments:
        return False
    at = facts.arguments.index("dropout_p")
    return bool((args[at] if len(args) > at else kwargs.get("dropout_p", facts.defaults["dropout_p"])) == 0)


def numbers_of(facts: Facts, bound: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call that are no tensors, and where in lists the tensors are."""
    numbers = {name: bound[name] for name in facts.numbers}
    for name in facts.tensors:
        value = bound[name]
        if isinstance(value, list | tuple):
            numbers[name] = [... if isinstance(each, Tensor) else each for each in value]
        elif not isinstance(value, Tensor):
            numbers[name] = value
    return numbers


def snapshot_of(tensor: Tensor) -> Snapshot:
    """A constant as it is now."""
    return Snapshot(tuple(tensor.shape), compact(tensor.detach()).clone())


def same_for_all(now: Tensor, before: Tensor, axis: int, inner: int, units: int) -> bool:
    """Whether a constant that grows along an axis is the same for all units of both runs, laid out with `inner`."""
    if inner == LOOSE:
        first = now.narrow(axis, 0, 1)
        return bool((now == first).all()) and bool((before == first).all())
    one, two = uniform(now, Place(axis, inner), units), uniform(before, Place(axis, inner), MANY)
    return one is not None and two is not None and torch.equal(one, two)


def tensors_in(values: Iterable[Any]) -> list[Tensor]:
    """The tensors among some values, and in lists and tuples among them. Asked several times for every operation."""
    tensors: list[Tensor] = []
    for each in values:
        if isinstance(each, Tensor):
            tensors.append(each)
        elif isinstance(each, list | tuple):
            tensors += tensors_in(each)
    return tensors


def fault_here(reason: str, name: str) -> Fault:
    """A fault of the operation that is running."""
    return Fault(reason, name, location())


def looking(name: str) -> NotSupported:
    """The refusal of a model in which Python looks at the data."""
    return NotSupported(
        f"the course of the forward pass depends on the data: {name}{location()} takes a Python value or a shape"
        " from them,"
        " so one example may change what happens to the others; use torch.where, a mask, or mode='vmap'"
    )


def mixing(fault: Fault) -> NotSupported:
    """The refusal of a model for a fault."""
    return NotSupported(
        f"one example changes the gradients of the others, so clipping cannot bound what one example does: {fault};"
        " work"
        " within each example (nn.GroupNorm, nn.LayerNorm), or use mode='vmap' if no example really meets another"
    )
