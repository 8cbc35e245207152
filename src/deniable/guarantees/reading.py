"""Reads what `to_dict()` described: guarantees, and, with a larger table of kinds, the events of the room above.

Every object names its class by "kind". A string is an exact number, and so is a float, which means its shortest
decimal. Unknown kinds and fields are refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from fractions import Fraction
from typing import Any

from deniable._checks import read_fraction
from deniable.errors import InvalidArgument
from deniable.units import Relation, Unit


def parse(text: str, *, what: str) -> Any:
    """JSON with exact numbers; `what` says in a refusal what the text should be."""
    try:
        return json.loads(text, parse_float=read_fraction)
    except (TypeError, ValueError):
        raise InvalidArgument("text", "…", what) from None


def read_form(form: object, known: Mapping[str, type]) -> Any:
    """The value that plain data describe; `known` holds the classes that may occur, by name."""
    if isinstance(form, list):
        return tuple(read_form(each, known) for each in form)
    if isinstance(form, str):
        return _number(form)
    if not isinstance(form, dict):
        return form
    kind = form.get("kind")
    if not isinstance(kind, str) or kind not in known:
        raise InvalidArgument("kind", kind, "a known kind", f"This version knows {', '.join(sorted(known))}.")
    make: Any = known[kind]
    field_names: dict[str, str] = {name: field for field, name in getattr(make, "_written", {}).items()}
    names = {field.name for field in fields(make)}
    values: dict[str, Any] = {field_names.get(str(name), str(name)): v for name, v in form.items() if name != "kind"}
    if unknown := sorted(values.keys() - names):
        raise InvalidArgument(unknown[0], values[unknown[0]], f"left out: {kind} has no such field")
    relation, unit = values.pop("relation", None), values.pop("unit", None)
    arguments = {name: read_form(value, known) for name, value in values.items()}
    if relation is not None:
        arguments["relation"] = Relation.of(relation)
    try:
        if unit:
            arguments["unit"] = Unit.from_plain(unit)
        return make(**arguments)
    except TypeError:
        raise InvalidArgument("text", form, f"all fields of {kind}: {', '.join(sorted(names))}") from None


def _number(text: str) -> Fraction:
    """An exact number from its string."""
    try:
        return read_fraction(text)
    except ValueError:
        raise InvalidArgument("text", text, "an exact decimal or fraction, as a string") from None
