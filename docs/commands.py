"""The generated parts of docs/cli.md: what each command does, and a table of its arguments and options.

    python docs/commands.py

writes them again, between the two comments under the heading of each command. What stands outside is written by hand:
remarks, and examples that the tests run. A test compares the page with the commands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any

import typer.main

from deniable.cli.app import app

PAGE = Path(__file__).with_name("cli.md")
START, END = "<!-- made by docs/commands.py -->", "<!-- end -->"


def leaves(command: Any, name: str = "deniable") -> Iterator[tuple[str, Any]]:
    """The commands that do something, each by its full name."""
    children = getattr(command, "commands", None)
    if not children:
        yield name, command
        return
    for word, child in children.items():
        yield from leaves(child, f"{name} {word}")


COMMANDS = dict(leaves(typer.main.get_command(app)))


def described(command: Any) -> str:
    """What a command does, and its table."""
    told = _quoted(command.help.partition("Example:")[0].strip())
    rows = [f"| {_name(each)} | {_meaning(each)} |" for each in command.params if each.name != "help"]
    return "\n".join([told, "", "| argument or option | meaning |", "|---|---|", *rows])


def _name(parameter: Any) -> str:
    given = [name if name.startswith("-") else name.upper() for name in parameter.opts]
    return ", ".join(f"`{name}`" for name in given)


def _meaning(parameter: Any) -> str:
    """The help text, with what it leaves out: choices, whether it is needed, whether it repeats, the default."""
    default = parameter.default
    notes = []
    if isinstance(default, Enum):
        notes.append("one of " + ", ".join(f"`{choice.value}`" for choice in type(default)))
        default = default.value
    if parameter.required:
        notes.append("required")
    if parameter.multiple:
        notes.append("may be repeated")
    if parameter.show_default and not (default is None or default is False or parameter.multiple):
        notes.append(f"default `{default:g}`" if isinstance(default, float) else f"default `{default}`")
    return _quoted(parameter.help.replace("|", "\\|")) + (f" *{'; '.join(notes)}*" if notes else "")


def _quoted(text: str) -> str:
    """Options in the type of code."""
    return re.sub(r"(--[a-z-]+)", r"`\1`", text)


def written(page: str) -> str:
    """The page with the part of every command made anew."""

    def part(found: re.Match[str]) -> str:
        return f"{found['heading']}{START}\n{described(COMMANDS[found['name']])}\n\n{END}"

    pattern = rf"(?P<heading>^## `(?P<name>deniable [a-z ]+)`\n+){re.escape(START)}.*?{re.escape(END)}"
    return re.sub(pattern, part, page, flags=re.MULTILINE | re.DOTALL)


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
