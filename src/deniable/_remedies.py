"""Remedies that name arguments: each front end writes an argument its own way.

Rooms say what helps in terms of an `Option`: the name of an argument, or of an action, and an example value. As text an
option is Python. The command line and the TOML of publications word the same options as flags and as lines.

>>> bounds = Option("bounds", {"cost": (ExampleWord("low"), ExampleWord("high"))})
>>> print(Remedy(f"Give {bounds} from what you know.", bounds))
Give bounds={'cost': (low, high)} from what you know.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


class ExampleWord(str):
    """A placeholder in an example: shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass(frozen=True)
class ExampleCall:
    """A value that is made by a call, in an example."""

    function: str
    arguments: dict[str, Any]

    def __repr__(self) -> str:
        return f"{self.function}({', '.join(f'{name}={value!r}' for name, value in self.arguments.items())})"


LOW, HIGH, MORE = ExampleWord("low"), ExampleWord("high"), ExampleWord("...")


@dataclass(frozen=True)
class Option:
    """An argument with an example of its value; or a function, such as "Ledger.create", with what it acts on."""

    name: str
    value: Any = None

    def __str__(self) -> str:
        if "." in self.name:
            rest = "" if isinstance(self.value, ExampleWord) else ", ..."
            return self.name if self.value is None else f"{self.name}({self.value!r}{rest})"
        return self.name if self.value is None else f"{self.name}={self.value!r}"


CREATE, OPEN, HEAD = Option("Ledger.create"), Option("Ledger.open"), Option("Ledger.head")
"""Actions without an object."""


class Remedy(str):
    """A sentence in Python's words, with the options that stand in it, for other front ends."""

    options: tuple[Option, ...]

    def __new__(cls, sentence: str, *options: Option) -> Remedy:
        remedy = super().__new__(cls, sentence)
        remedy.options = options
        return remedy

    def __reduce__(self) -> tuple[Any, ...]:
        return Remedy, (str(self), *self.options)


def example(name: str, value: object) -> Remedy:
    """ "For example epsilon=0.5." """
    option = Option(name, value)
    return Remedy(f"For example {option}.", option)
