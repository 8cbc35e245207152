"""An extension of griffe: examples in docstrings (`>>> ...`) become code blocks of the API reference."""

from __future__ import annotations

import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)
DIRECTIVE = re.compile(r"  # doctest: .*$", re.MULTILINE)


class Doctests(griffe.Extension):  # type: ignore[misc]
    """Puts a fence around every example, and leaves out what only the test runner needs."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of an object after it was read."""
        if obj.docstring is not None:
            text = DIRECTIVE.sub("", obj.docstring.value)
            obj.docstring.value = EXAMPLE.sub(lambda found: f"\n```pycon\n{found[0]}\n```\n", text)
