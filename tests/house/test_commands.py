"""Every command is documented in docs/cli.md: its table as docs/commands.py makes it, and an example that runs."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

spec = importlib.util.spec_from_file_location("commands", DOCS / "commands.py")
assert spec is not None
assert spec.loader is not None
commands = importlib.util.module_from_spec(spec)
spec.loader.exec_module(commands)
COMMANDS = commands.COMMANDS
PAGE = commands.PAGE.read_text(encoding="utf-8")


def section(name: str) -> str:
    """The part of the page under the heading of a command."""
    found = re.search(rf"^(#+) `{re.escape(name)}`\n(.*?)(?=^#{{1,6}} |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    return found[2] if found else ""


def test_there_are_commands() -> None:
    assert {"deniable query", "deniable ledger create", "deniable demo"} <= set(COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_command_has_a_section_with_its_table(name: str) -> None:
    assert f"{commands.START}\n{commands.described(COMMANDS[name])}\n\n{commands.END}" in section(name), (
        f"docs/cli.md needs the heading ## `{name}`, the two comments under it, and: python docs/commands.py"
    )


def test_the_page_is_as_it_would_be_made() -> None:
    assert commands.written(PAGE) == PAGE, "run: python docs/commands.py"
    assert PAGE.count(commands.START) == PAGE.count(commands.END) == len(COMMANDS)


def test_a_changed_option_would_be_noticed() -> None:
    assert commands.written(PAGE.replace("`--dry-run`", "`--try`")) == PAGE


@pytest.mark.parametrize("name", COMMANDS)
def test_command_has_an_example_that_runs(name: str) -> None:
    examples = re.findall(r"^```console[a-z ]*\n(.*?)^```", section(name), re.MULTILINE | re.DOTALL)
    assert any(f"$ {name}" in example for example in examples), f"docs/cli.md has no ```console example of `{name}`"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_parameter_is_explained(name: str) -> None:
    for parameter in COMMANDS[name].params:
        assert parameter.help, f"{name} {parameter.name} has no help"
        for option in parameter.opts:
            if option.startswith("--") and option != "--help":
                assert f"`{option}`" in section(name), f"docs/cli.md says nothing about {name} {option}"


@pytest.mark.parametrize("name", COMMANDS)
def test_command_says_what_it_does_with_an_example(name: str) -> None:
    told, _, example = COMMANDS[name].help.partition("Example: ")
    assert told.strip()
    assert example.startswith(name)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_speaks_json(name: str) -> None:
    assert any("--json" in parameter.opts for parameter in COMMANDS[name].params)
