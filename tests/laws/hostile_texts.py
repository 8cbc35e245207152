"""Texts that act where they should only be seen, and what a terminal and a page may hold of them."""

from __future__ import annotations

import json
import unicodedata
from html.parser import HTMLParser
from typing import Any

FORGED = "budget     ε ≤ 999.00, forged"
"""A line that somebody would like to see printed."""

TEXTS = {
    "markup of Rich": "[red]x[/red]",
    "closing markup": "[/]",
    "a link of Rich": "[link=file:///etc/passwd]y[/link]",
    "clear the screen": "\x1b[2J\x1b[H",
    "a title of the window": "\x1b]0;x\x07",
    "an escape of eight bits": "\x9b31m",
    "writing turned round": "\u202egnp.exe\u202c",
    "isolated writing": "\u2066x\u2069",
    "a script": "<script>alert(1)</script>",
    "an attribute": "' onload='x' \" onload=\"x\"",
    "an entity": "&lt;b&gt;&amp;#x202e;",
    "a comment": "--><!-- ]]> </style></title></svg>",
    "NUL": "a\0b",
    "half a pair": "a\ud800b",
    "a byte of a name": "a\udcffb",
    "backspaces": "good\b\b\b\bevil",
    "a forged line": f"x\n{FORGED}",
    "carriage return": f"x\r{FORGED}",
    "line separators": f"x\u2028{FORGED}\u0085{FORGED}\x0b{FORGED}",
    "invisible": "a\u200b\ufeff\u00adb\U000e0041",
    "a formula": "$\\frac{$ and $x_$",
    "a format": "{0} {x!r} %s %(x)s",
    "Markdown": "![x](http://example.org/x.png) `` ` <b> [y](javascript:x) | x",
    "not a character": "\uffff\ufdd0\U0001ffff",
}

SEEN = frozenset({"\u200c", "\u200d", "\n"})


def assert_plain(text: str) -> None:
    """Nothing in a text acts: it can be sent to a terminal."""
    acting = sorted({repr(each) for each in text if each not in SEEN and unicodedata.category(each)[0] == "C"})
    assert not acting, acting
    assert "\u2028" not in text
    assert "\u2029" not in text
    assert FORGED not in text.splitlines()
    text.encode("utf-8")


def strictly(text: str) -> Any:
    """The value of a JSON text, by the standard: no NaN, no infinity."""

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


class Structure(HTMLParser):
    """The tags of a page and the names of their attributes, in order: what markup there is."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[Any] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, [name for name, _ in attrs]))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(f"/{tag}")

    def handle_comment(self, data: str) -> None:
        self.found.append("comment")

    def handle_decl(self, decl: str) -> None:
        self.found.append(decl)

    def unknown_decl(self, data: str) -> None:
        self.found.append("declaration")

    def handle_pi(self, data: str) -> None:
        self.found.append("instruction")
