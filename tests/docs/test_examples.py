"""The examples of README, SECURITY and docs/ run as tests, in order, one temporary folder and one namespace per page.

    ```python     runs; what it prints is compared with an ```output block that follows it
    ```console    every line after `$ ` runs in bash with `deniable` on the PATH; the lines below it are its output.
                  What bash would only hand over to `deniable` runs in this process, which saves a start each
    ```output     what the block above prints, exactly; `...` stands for anything

Words after the language: `random` compares the shape only (any number matches any number, and columns and rules may
have any width); `fails` says that the commands of a console block exit with a status other than 0. A console command
without expected lines must only succeed. Other languages (```sh, ```text, ```json) are prose. Set-up that a reader
need not see stands in an HTML comment.
"""

from __future__ import annotations

import contextlib
import doctest
import gc
import io
import os
import re
import shlex
import subprocess
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from deniable.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [
    page for page in (ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))) if page.exists()
]
FENCE = re.compile(r"^```(?P<language>[a-z]+)(?P<words>[a-z ]*)\n(?P<body>.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"[-+−]?\d+([,_]\d{3})*(\.\d+)?(e[-+]?\d+)?")
PLAIN = {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}
PLAIN_WORDS = re.compile(
    r"""(?P<words>deniable (?!audit |demo )([^|&;<>$`'"*?~#\\]|\\\n|"[^"$`\\]*")*)(\| head -n (?P<lines>\d+))?"""
)
"""A call of `deniable` in which a shell has nothing to do but to take quotes away and to show the first lines. `audit`
imports a page's modules; `demo` takes long, and stops when nobody reads on."""
RULE = re.compile(r"([─━═╌-])\1+")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    language: str
    words: frozenset[str]
    body: str
    line: int

    def expect(self, printed: str, expected: str) -> str | None:
        """What is wrong with what was printed; None when it is what the page says."""
        want, got = (_shape(text) if "random" in self.words else _trim(text) for text in (expected, printed))
        if doctest.OutputChecker().check_output(want, got, doctest.ELLIPSIS):
            return None
        return f"line {self.line}: the page says\n{want}\nbut it printed\n{got}"


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    return [
        Block(
            found["language"], frozenset(found["words"].split()), found["body"], text.count("\n", 0, found.start()) + 1
        )
        for found in FENCE.finditer(text)
    ]


def _trim(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"


def _shape(text: str) -> str:
    """The text with every number as #, and with runs of spaces and of rules as one."""
    lines = RULE.sub(r"\1", NUMBER.sub("#", text)).splitlines()
    return _trim("\n".join(" ".join(line.split()) for line in lines))


def run_python(block: Block, page: Path, namespace: dict[str, object]) -> str:
    """Run a block with the line numbers of its page; give what it prints."""
    code = compile("\n" * block.line + block.body, str(page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(code, namespace)
    return printed.getvalue()


def run_console(block: Block, folder: Path) -> str | None:
    """Run the commands of a console block one after the other; what is wrong with the first that is not as printed."""
    for chunk in re.split(r"^\$ ", block.body, flags=re.MULTILINE)[1:]:
        command, _, expected = chunk.partition("\n")
        while command.endswith("\\"):
            more, _, expected = expected.partition("\n")
            command += "\n" + more
        with mock.patch.dict(os.environ, PLAIN):
            code, printed = run_here(plain) if (plain := PLAIN_WORDS.fullmatch(command)) else run_bash(command, folder)
        if (code != 0) != ("fails" in block.words):
            return f"line {block.line}: `{command}` exited with {code}:\n{printed}"
        complaint = block.expect(printed, expected) if expected.strip() else None
        if complaint:
            return complaint
    return None


def run_bash(command: str, folder: Path) -> tuple[int, str]:
    """The exit code of a command, and what it prints."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=os.environ | {"PATH": path},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def run_here(command: re.Match[str]) -> tuple[int, str]:
    """The same for `deniable` with plain words, in this process. What it says on standard error is not cut."""
    lines, code = command["lines"], 0
    printed = io.StringIO()
    said = io.StringIO() if lines else printed
    with (
        contextlib.redirect_stdout(printed), contextlib.redirect_stderr(said), warnings.catch_warnings(),
        mock.patch.object(sys, "argv", shlex.split(command["words"].replace("\\\n", " "))),
    ):  # fmt: skip
        warnings.resetwarnings()
        try:
            main()
        except SystemExit as leaving:
            code = int(leaving.code or 0)
    gc.collect(1)  # a process would close its ledgers now; the next command may be another process
    if not lines:
        return code, printed.getvalue()
    first = printed.getvalue().splitlines(keepends=True)[: int(lines)]
    return 0, said.getvalue() + "".join(first)  # a pipe ends as `head` does


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_page(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = None
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "python":
            printed = run_python(block, page, namespace)
        elif block.language == "console":
            printed = None
            complaint = run_console(block, tmp_path)
            assert complaint is None, complaint
        elif block.language == "output":
            assert printed is not None, f"line {block.line}: an output block follows the python block that prints it"
            complaint = block.expect(printed, block.body)
            assert complaint is None, complaint
