"""A hook of mkdocs: words after the language of a block, as in `console random`, are for the tests, not the site."""

from __future__ import annotations

import re
from typing import Any

WORDS = re.compile(r"^( *```[a-z]+) [a-z ]+$", re.MULTILINE)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with fences that the site understands."""
    return WORDS.sub(r"\1", markdown).replace("\n```output\n", "\n```text\n")
