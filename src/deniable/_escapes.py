r"""Text that came from elsewhere, made safe to show: on a terminal, on a page, in a message.

A purpose, a key, a column or a file's name may hold anything: an escape sequence that clears a terminal, a mark that
reverses the direction of text, half of a surrogate pair that no encoding takes, an HTML tag, a password. There is one
function for each of these, and everything that shows such text calls it.

>>> print(printable("cost\x1b[2J \u202edesrever"))
cost\x1b[2J \u202edesrever
>>> escape_html('<b title="x">')
'&lt;b title=&quot;x&quot;&gt;'
>>> redacted("postgresql://clerk:secret@db.example.org/hospital#visits")
'postgresql://clerk:...@db.example.org/hospital#visits'
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections.abc import Mapping

_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Categories of invisible characters: control, format (bidirectional marks), surrogates, line ends."""

_OTHERS = re.compile(r"[^\x20-\x7e]")
"""All but the printable characters of ASCII."""

_JOINERS = frozenset("\u200c\u200d")
"""Format characters that words of some languages are spelt with."""


def printable(text: object, *, lines: bool = False) -> str:
    """The text with every invisible character written as an escape; `lines` keeps line breaks."""
    allowed = _JOINERS | {"\n"} if lines else _JOINERS
    return _OTHERS.sub(
        lambda match: match[0] if match[0] in allowed or _is_visible(match[0]) else _escape(match[0]), str(text)
    )


def escape_html(text: object) -> str:
    """The text for an element or an attribute of HTML or SVG: no markup, no invisible characters."""
    from html import escape

    return escape(printable(text, lines=True))


def escape_markdown(text: object) -> str:
    """The text inside a line of Markdown: no HTML, no link, no code, no new line."""
    return re.sub(r"[\\`<]|(?<=\])\(", r"\\\g<0>", printable(text))


def fence(text: str, language: str = "") -> list[str]:
    """Lines of Markdown that show a text as code, whatever it holds."""
    ticks = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return [f"{ticks}{language}", printable(text, lines=True), ticks]


def dump_json(value: object, *, indent: int | None = None, ascii_only: bool = False) -> str:
    """JSON that every reader accepts and every terminal shows: no NaN or infinity, no invisible characters.

    Numbers that are not finite become texts (`"inf"`), and so do objects that JSON has no form for. An invisible
    character is written as its escape, which means the same text.
    """
    text = json.dumps(_finite(value), ensure_ascii=ascii_only, allow_nan=False, indent=indent, default=str)
    return _OTHERS.sub(
        lambda match: match[0] if match[0] == "\n" or _is_visible(match[0]) else _json_escape(match[0]), text
    )


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, Mapping):
        return {str(name): _finite(each) for name, each in value.items()}
    return [_finite(each) for each in value] if isinstance(value, list | tuple) else value


def _json_escape(character: str) -> str:
    """As JSON writes it: a character beyond 16 bits is two escapes."""
    return json.dumps(character)[1:-1]


def _is_visible(character: str) -> bool:
    return unicodedata.category(character) not in _UNSAFE


def _escape(character: str) -> str:
    """As Python writes it."""
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


_EXAMPLE = "postgresql://user:password@host"
"""How our own messages show what an address looks like."""

_HIDDEN = "..."
_SEPARATOR = re.compile(r"[:;%](?!//|\\\\)")  # not that of a scheme
_USER = re.compile(r"\w\w[:;]/{1,3}[^\s:;%@/]*[:;%](?!\d+(?![\w@])|\.\.\.@)")
_NO_PORT = re.compile(r"(\w\w:/{1,3}(?!\[)[^\s:/?#@]*:)(?!\d+(?!\w)|\.\.\.)\S+")
_FIELD = re.compile(
    r"((?:pass(?:word|wd|phrase)?|pwd|secret|token)\s*=\s*)(?!\.\.\.(?:[\s;,.)'\"]|$))"
    r"(?:'(?:[^'\\]|\\.)*'|\"[^\"]*\"|[^\s'\"]+)",
    re.IGNORECASE,
)


def redacted(address: object) -> str:
    """The text without the passwords of its addresses: `user:password@host`, `password=…`, mistyped ones included.

    The end of a password that was not escaped is ambiguous. The last `@` is taken as its end, so that too much is
    hidden rather than too little.
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
    return f"{before[: separator.end()]}{_HIDDEN}@{after}" if separator else match[0]


def passwords(address: str) -> list[str]:
    """The parts that `redacted` hides of an address, whole and in pieces, because messages may quote a piece."""
    from urllib.parse import unquote

    pieces: set[str] = set()
    for spelling in (address, unquote(address)):
        pattern = re.escape(redacted(spelling)).replace(re.escape(_HIDDEN), "(.*)")
        hidden = re.fullmatch(pattern, spelling, re.DOTALL)
        for text in hidden.groups() if hidden else ():
            pieces |= {text, *re.split(r"[\s:;/@?#&=%'\"]+", text)}
    return sorted((text for text in pieces if len(text) >= 3), key=len, reverse=True)
