"""Text from elsewhere: what acts and is not seen is escaped, and passwords are hidden."""

from __future__ import annotations

import sys
import unicodedata

import pytest

from deniable._checks import redacted
from deniable._escapes import escape_html, passwords, printable
from deniable.errors import DeniableError, InvalidArgument

SECRET = "s3cret"
ADDRESSES = [
    "postgresql://u:s3cret@h/db",
    "postgresql://u:s3cret@h1,h2:5432/db#visits",
    "postgresql://u:a/s3cret@h/db",
    "postgresql://u:a@s3cret@h/db",
    "postgresql://u:a:s3cret@h/db",
    "postgresql://u:a?s3cret@h/db",
    "postgresql://u:a#s3cret@h/db",
    "postgresql://u:a s3cret@h/db",
    "postgresql://u:a\ns3cret@h/db",
    "postgresql://:s3cret@h",
    "postgresql://u;s3cret@h",
    "postgresql://u%3As3cret@h/db",
    "postgresql://u:s3cret%40h/db",
    "postgresql://u:s3cret#h/db",
    "postgresql://u:s3cret/h/db",
    "postgres:/u:s3cret@h/db",
    "postgresql:/u:a s3cret@h/db",
    "postgresql:/u:s3cret#h/db",
    "postgresql//u:s3cret@h/db",
    "postgresql;//u:s3cret@h/db",
    "postgresql:u:s3cret@h",
    "POSTGRESQL://u:s3cret@h/db",
    "u:s3cret@h/db",
    "u:a/s3cret@h/db",
    "visits=postgresql://u:s3cret@h/db",
    "visits=postgres:/u:s3cret@h/db",
    "jdbc:postgresql://u:s3cret@h",
    "postgresql://h/db?user=u&password=s3cret",
    "postgresql://h/db?password=a&s3cret",
    "host=h password=s3cret user=u",
    "host=h password = 'a s3cret' user=u",
    'PASSWORD="a s3cret"',
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_no_password_is_shown(address: str) -> None:
    for text in (address, f"there is no file {address}; create it", f"got path={address!r}.", f"({address})"):
        assert SECRET not in redacted(text), text
        assert redacted(redacted(text)) == redacted(text)
    assert SECRET not in str(InvalidArgument("path", address, "a file"))
    assert SECRET not in str(InvalidArgument("paths", (address, 1), "files"))


@pytest.mark.parametrize("address", ADDRESSES)
def test_what_is_hidden_is_known_in_pieces(address: str) -> None:
    assert any(SECRET in each for each in passwords(address))
    quoted = f'invalid integer value "{SECRET}" for connection option "port"'
    for each in passwords(address):
        quoted = quoted.replace(each, "...")
    assert SECRET not in quoted


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://user:password@host/database#ledger",
        "postgresql://clerk@db.example.org:5432/hospital#visits is gone",
        "postgresql://[::1]:5432/db",
        "http://localhost:8000, or http://localhost:80.",
        "write to ann@example.org: she knows",
        "city=@keys.txt",
        "bounds={'cost': (0, 5000)}",
        "visits.csv has 3 columns; give --bounds cost=0:5000",
    ],
)
def test_what_holds_no_password_stays_as_it_is(text: str) -> None:
    assert redacted(text) == text
    assert passwords(text) == []


def kinds(kind: type[DeniableError] = DeniableError) -> list[type[DeniableError]]:
    return [kind, *(each for child in kind.__subclasses__() for each in kinds(child))]


@pytest.mark.parametrize("kind", kinds(), ids=lambda kind: kind.__name__)
def test_no_error_acts_on_a_terminal_or_shows_a_password(kind: type[DeniableError]) -> None:
    error = kind.__new__(kind)
    Exception.__init__(error, "\x1b[2J \u202e\ud800 postgresql://u:s3cret@h/db")
    assert str(error) == "\\x1b[2J \\u202e\\ud800 postgresql://u:...@h/db"


def test_long_texts_are_redacted_at_once() -> None:
    for piece in ("a:", "://a", "x/", "('", "password=", "@", ":@", "'"):
        redacted(piece * 50_000)


def test_every_character_that_acts_is_escaped_and_every_letter_stays() -> None:
    for code in range(sys.maxunicode + 1):
        character = chr(code)
        shown = printable(character)
        category = unicodedata.category(character)
        if category[0] in "LMNPS" or category == "Zs" or character in "\u200c\u200d":
            assert shown == character
        else:
            assert shown.isascii()
            assert shown.isprintable()


def test_lines_are_kept_where_they_are_meant() -> None:
    assert printable("a\nb\r\n\x1b[2J", lines=True) == "a\nb\\r\n\\x1b[2J"
    assert printable("a\nb") == "a\\nb"


def test_a_page_gets_neither_markup_nor_what_acts() -> None:
    assert escape_html("<script>&\"'\x00\u202e\ud800") == "&lt;script&gt;&amp;&quot;&#x27;\\x00\\u202e\\ud800"
