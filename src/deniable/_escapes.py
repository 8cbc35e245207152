r"""Text that came from elsewhere, made safe to show: on a terminal, on a page, in a message.

A purpose, a key, a column or a file's name may hold anything: an escape sequence that clears a terminal, a sign that
turns the direction of writing round, half of a surrogate pair that no encoding takes, an HTML tag, a password. One
function answers each of these, and everything that shows such text goes through it.

>>> print(printable("cost\x1b[2J \u202edesrever"))
cost\x1b[2J \u202edesrever
>>> escape_html('<b title="x">')
'&lt;b title=&quot;x&quot;&gt;'
>>> redacted("postgresql://clerk:secret@db.example.org/hospital#visits")
'postgresql://clerk:...@db.example.org/hospital#visits'
"""

from __future__ import annotations

import html
import re
import unicodedata

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of characters that act and are not seen: control, format (bidirectional signs), surrogates, line ends."""

_JOINERS = frozenset("\u200c\u200d")
"""Format characters that words of some languages are spelt with."""


def printable(text: object, *, lines: bool = False) -> str:
    """The text with every character that would act and not be seen written as an escape; `lines` keeps line breaks."""
    found = str(text)
    if found.isascii() and found.isprintable():
        return found
    kept = _JOINERS | {"\n"} if lines else _JOINERS
    return "".join(each if each in kept or _seen(each) else _escape(each) for each in found)


def escape_html(text: object) -> str:
    """The text for an element or an attribute of HTML or SVG: no markup, and nothing that acts and is not seen."""
    return html.escape(printable(text, lines=True))


def _seen(character: str) -> bool:
    return unicodedata.category(character) not in _UNSAFE


def _escape(character: str) -> str:
    """As Python writes it."""
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


_EXAMPLE = "postgresql://user:password@host"
"""How our own messages show what an address looks like."""

_HIDDEN = "..."
_SEPARATOR = re.compile(r"[:;%](?!//|\\\\)")  # not that of a scheme
_USER = re.compile(r"://[^\s:;%@/]*[:;%](?!\d+(?![\w@])|\.\.\.@)")
_NO_PORT = re.compile(r"(://(?!\[)[^\s:/?#@]*:)(?!\d+(?!\w)|\.\.\.)\S+")
_FIELD = re.compile(
    r"((?:pass(?:word|wd|phrase)?|pwd|secret|token)\s*=\s*)(?!\.\.\.(?:[\s;,.)'\"]|$))"
    r"(?:'(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s'\"]+)",
    re.IGNORECASE,
)


def redacted(address: object) -> str:
    """The text without the passwords of its addresses: `user:password@host`, `password=…`, mistyped ones included.

    Nobody knows where a password ends that was not escaped, so the last `@` is taken for its end: rather too much is
    hidden than too little.
    """
    return _EXAMPLE.join(_redact(part) for part in str(address).split(_EXAMPLE))


def _redact(text: str) -> str:
    user = _USER.search(text)
    if user and (at := text.rfind("@")) > user.end():  # blanks in the password
        text = text[: user.end()] + _HIDDEN + text[at:]
    text = re.sub(r"\S+", _redact_word, text)  # a mistyped scheme, or none
    text = _NO_PORT.sub(rf"\1{_HIDDEN}", text)  # the @ was forgotten, and what follows the colon is no port
    return _FIELD.sub(rf"\1{_HIDDEN}", text)


def _redact_word(match: re.Match[str]) -> str:
    before, _, after = match[0].rpartition("@")
    separator = _SEPARATOR.search(before)
    return f"{before[: separator.start()]}:{_HIDDEN}@{after}" if separator else match[0]
