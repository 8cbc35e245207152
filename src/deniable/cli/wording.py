"""Remedies as flags of the command line, or as lines of a publication's TOML. Other rooms word them as Python.

>>> from deniable._remedies import HIGH, LOW, Option
>>> as_flag(Option("bounds", {"cost": (LOW, HIGH)})), as_flag(Option("epsilon", 0.5))
('--bounds cost=LOW:HIGH', '--epsilon 0.5')
>>> as_toml(Option("bounds", {"cost": (LOW, HIGH)})), as_toml(Option("bounds", "private"))
('bounds.cost = [low, high]', 'bounds = "private"')
"""

from __future__ import annotations

from typing import Any

from deniable._remedies import ExampleCall, ExampleWord, Option

_COMMANDS = {
    "Ledger.open": "deniable ledger show",
    "Ledger.head": "deniable ledger verify",
    "pandas.read_csv": "a Parquet file of it",
}
"""Functions without an object, as commands."""


def as_flag(option: Option) -> str:
    """An option of the command line."""
    name, value = option.name, option.value
    if name == "Ledger.create":
        return "deniable ledger create" + ("" if value is None else f" {value} --epsilon 3 --unit COLUMN")
    if name in _COMMANDS:
        return _COMMANDS[name]
    if name == "overwrite":
        return "--force"
    if name == "data":
        return "NAME=FILES"
    if isinstance(value, ExampleCall):  # limits
        return " ".join(f"--{each}-per-unit {number}" for each, number in value.arguments.items())
    flag = f"--{name.replace('_', '-')}"
    if isinstance(value, dict):
        return " ".join(f"{flag} {key}={_join_values(name, each)}" for key, each in value.items())
    return flag if value is None else f"{flag} {value}"


def _join_values(name: str, value: Any) -> str:
    """The value of one column: LOW:HIGH for bounds, A,B,... for keys, FILE for a public table."""
    if name == "public":
        return "FILE"
    ends = [each.upper() if isinstance(each, ExampleWord) else str(each) for each in value]
    if name == "bounds":
        return ":".join(ends)
    return "A,B,..." if ends == ["..."] else ",".join(ends)


def as_toml(option: Option) -> str:
    """A line of a publication's TOML."""
    name, value = option.name, option.value
    if "." in name or value is None:
        return as_flag(option)
    if name == "overwrite":
        return "--force"
    if isinstance(value, ExampleCall):
        return f"{name} = {{{', '.join(f'{each} = {number}' for each, number in value.arguments.items())}}}"
    if isinstance(value, dict):
        return ", ".join(f"{name}.{key} = {_toml(each)}" for key, each in value.items())
    return f"{name} = {_toml(value)}"


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) and not isinstance(value, ExampleWord) else str(value)
