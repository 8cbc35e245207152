"""Every command of the command line is documented in docs/cli.md, with an example that the documentation tests run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from deniable.cli.app import app

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The commands that do something, each by its full name."""
    children = getattr(command, "commands", None)
    if not children:
        yield name, command
        return
    for word, child in children.items():
        yield from leaves(child, f"{name} {word}")


COMMANDS = dict(leaves(typer.main.get_command(app), "deniable"))


def section(name: str) -> str:
    """The part of the page under the heading of a command."""
    page = PAGE.read_text(encoding="utf-8")
    found = re.search(rf"^(#+) `{re.escape(name)}`\n(.*?)(?=^#{{1,6}} |\Z)", page, re.MULTILINE | re.DOTALL)
    return found[2] if found else ""


def test_there_are_commands() -> None:
    assert {"deniable query", "deniable ledger create", "deniable demo"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_has_a_section(name: str) -> None:
    assert section(name), f"docs/cli.md lacks a heading: ## `{name}`"


@pytest.mark.parametrize("name", COMMANDS)
def test_command_has_an_example_that_runs(name: str) -> None:
    examples = re.findall(r"^```console[a-z ]*\n(.*?)^```", section(name), re.MULTILINE | re.DOTALL)
    assert any(f"$ {name}" in example for example in examples), f"docs/cli.md has no ```console example of `{name}`"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_documented(name: str) -> None:
    text = section(name)
    for parameter in COMMANDS[name].params:
        for option in parameter.opts:
            if option.startswith("--") and option != "--help":
                assert option in text, f"docs/cli.md says nothing about {name} {option}"


@pytest.mark.parametrize("name", COMMANDS)
def test_command_says_what_it_does(name: str) -> None:
    assert COMMANDS[name].help
