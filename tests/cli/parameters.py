"""What tests ask about a command's parameters, under every version of Typer that is allowed."""

from __future__ import annotations

from typing import Any


def kind(parameter: Any) -> str:
    """The type of a parameter: a text that contains "path", "float" or "int" if that is what it takes."""
    described = getattr(parameter, "type_descriptor", None)  # since Typer 0.29
    return (str(described.annotation) if described is not None else type(parameter.type).__name__).lower()
