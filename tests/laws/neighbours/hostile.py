"""Hostile values by kind: what one person's record may hold. Each kind is a mapping from a label to a value.

`values(...)` joins kinds and puts every value into the form that an entry point understands:

    hostile = {"removed": REMOVED, **values(NUMBERS, MISSING, form=lambda x: {"id": 7, "age": x})}

`mixed` picks several at random, for the soak.
"""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Callable, Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd

MANY = 10_000
"""Rows of one unit."""


def _refuse(*_: Any, **__: Any) -> Any:
    raise RuntimeError("a record's own code ran, and raised: secret 4711")


def raising(*methods: str) -> Any:
    """An object that raises when one of these methods is called."""
    return type("Raising", (), dict.fromkeys(methods, _refuse))()


class RaisingZone(datetime.tzinfo):
    """A time zone whose every answer raises."""

    utcoffset = tzname = dst = fromutc = _refuse


class RaisingType(type):
    """A type that raises when it is asked about itself."""

    __module__ = property(_refuse)  # type: ignore[assignment]


def derived(base: type, value: Any) -> Any:
    """A value of a type derived from a plain one, all of whose own methods raise."""
    methods = [name for name in dir(base) if callable(getattr(base, name)) and name not in _NEEDED]
    return type("Derived", (base,), dict.fromkeys(methods, _refuse))(value)


_NEEDED = (
    "__new__",
    "__init__",
    "__class__",
    "__getattribute__",
    "__init_subclass__",
    "__subclasshook__",
    "__setattr__",
)
"""Methods without which no value can be made, or put into an array."""

NUMBERS: Mapping[str, Any] = {
    "NaN": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "-0.0": -0.0,
    "smallest float": 5e-324,
    "1e308": 1e308,
    "-1e308": -1e308,
    "2^63": 2**63,
    "2^64-1": 2**64 - 1,
    "-2^63": -(2**63),
    "10^400": 10**400,
    "-10^400": -(10**400),
    "Decimal": Decimal("1.5"),
    "Decimal, huge": Decimal("1e999"),
    "Decimal, NaN": Decimal("NaN"),
    "Decimal, signalling NaN": Decimal("sNaN"),
    "Decimal, infinite": Decimal("-Infinity"),
    "Fraction": Fraction(1, 3),
    "Fraction, huge": Fraction(10**400, 3),
    "complex": 3 + 4j,
    "True": True,
    "float16": np.float16(1.5),
    "float16 inf": np.float16("inf"),
    "float32": np.float32(0.1),
    "float32 NaN": np.float32("nan"),
    "longdouble, huge": np.longdouble("1e4000"),
    "int8": np.int8(-128),
    "uint64": np.uint64(2**64 - 1),
    "numpy bool": np.True_,
    "numpy complex": np.complex64(1j),
}

FLOATS: Mapping[str, float] = {
    label: value for label, value in NUMBERS.items() if isinstance(value, float) and not isinstance(value, np.generic)
}
"""Those of NUMBERS that fit a column of float64."""

TEXTS: Mapping[str, str] = {
    "empty": "",
    "blank": " \t ",
    "a new word": "Zürich-Ωβ-𝔸",
    "digits": "7",
    "text NaN": "nan",
    "text NULL": "NULL",
    "double quote": '"',
    "single quote": "'",
    "quotes": "a\"b'c`d\"\"e''f",
    "open quote": '"never closed',
    "comma": "a,b;c|d\te",
    "line break": "a\nb",
    "many line breaks": "a\n" * 500,
    "CRLF": "a\r\nb",
    "CR": "a\rb",
    "NUL": "a\x00b",
    "control characters": "".join(map(chr, [*range(1, 32), *range(127, 160)])),
    "ESC": "\x1b[31mred\x1b[0m\x1b]8;;http://example.org\x07",
    "line separators": "a\u2028b\u2029c\u0085d",
    "bidi override": "\u202eevil\u202c\u2066x\u2069",
    "byte order mark": "\ufeffa",
    "zero width": "a\u200bb",
    "combining": "e\u0301",
    "not a character": "\uffff\ufdd0",
    "lone surrogate": "a\ud800b",
    "placeholder": "$key_1",
    "another placeholder": "$1 ? :name @x",
    "format": "{} {0} {x!r} %s %d %(x)s $x ${x}",
    "markup": "[bold red]x[/] [link=file:///etc/passwd]y",
    "HTML": "<script>alert(1)</script>&amp;",
    "SQL": "'; DROP TABLE visits; --",
    "backslashes": "\\ \\n \\x00 \\u0000 C:\\",
    "very long": "x" * 100_000,
}

UTF8: Mapping[str, str] = {label: text for label, text in TEXTS.items() if label != "lone surrogate"}
"""Those of TEXTS that can be written as UTF-8."""

BYTES: Mapping[str, bytes] = {
    "no bytes": b"",
    "not UTF-8": b"Z\xfcrich",
    "broken UTF-8": b"\xed\xa0\x80 \xf0\x9f \xc0\xaf",
    "every byte": bytes(range(256)),
}

MISSING: Mapping[str, Any] = {"None": None, "NaT": pd.NaT, "pd.NA": pd.NA, "NaN": math.nan}

WRONG_TYPES: Mapping[str, Any] = {
    "text": "seven",
    "bytes": b"\xff7",
    "dict": {"a": 1},
    "list": [1, 2],
    "nested list": [[1], [2, [3]]],
    "empty list": [],
    "tuple": (1, 2),
    "empty tuple": (),
    "set": {1, 2},
    "array": np.array([1.0, 2.0]),
    "array of no dimension": np.array(3.0),
    "empty array": np.array([]),
    "frame": pd.DataFrame({"a": [1]}),
    "object": object(),
    "function": len,
    "class": int,
    "date": datetime.date(2020, 2, 29),
    "timedelta": datetime.timedelta(days=-1),
    "datetime64": np.datetime64("NaT"),
    "raising ==": raising("__eq__", "__ne__", "__hash__"),
    "raising number": raising("__float__", "__int__", "__index__", "__bool__", "__lt__", "__gt__", "__abs__"),
    "raising repr": raising("__repr__", "__str__", "__format__"),
    "raising hash": raising("__hash__"),
    "raising sequence": raising("__len__", "__iter__", "__getitem__", "__contains__"),
    "raising array": raising("__array__"),
    "raising everything": raising(
        "__eq__", "__ne__", "__hash__", "__float__", "__int__", "__index__", "__bool__", "__repr__", "__str__",
        "__len__", "__iter__", "__getitem__", "__array__", "__lt__", "__le__", "__gt__", "__ge__", "__getattr__",
    ),
    "raising zone": datetime.datetime(2020, 2, 29, tzinfo=RaisingZone()),
    "raising type": RaisingType("Raising", (), {})(),
    "derived text": derived(str, "Bern"),
    "derived text, not ASCII": derived(str, "Zürich"),
    "derived whole number": derived(int, 3),
    "derived float": derived(float, 1.5),
    "derived bytes": derived(bytes, b"7"),
    "derived list": derived(list, [1, 2]),
    "derived Decimal": derived(Decimal, "1.5"),
}  # fmt: skip

DATES: Mapping[str, Any] = {
    "year 1": datetime.datetime(1, 1, 1),
    "year 9999": datetime.datetime(9999, 12, 31, 23, 59, 59, 999999),
    "date, year 1": datetime.date(1, 1, 1),
    "date, year 9999": datetime.date(9999, 12, 31),
    "with a zone": datetime.datetime(1, 1, 1, tzinfo=datetime.timezone(datetime.timedelta(hours=14))),
    "leap day": datetime.date(2000, 2, 29),
    "year 290000": np.datetime64("290000-01-01", "s"),
    "year -290000": np.datetime64("-290000-01-01", "s"),
    "NaT of NumPy": np.datetime64("NaT"),
    "nanoseconds": np.datetime64(2**63 - 1, "ns"),
    "earliest Timestamp": pd.Timestamp.min,
}

DATE_TEXTS: Mapping[str, str] = {
    "date, year 0": "0000-01-01",
    "date, year 1": "0001-01-01",
    "date, year 9999": "9999-12-31",
    "date, year 290000": "290000-01-01",
    "date, before Christ": "290000-01-01 (BC)",
    "date, none": "2021-02-30",
    "date, infinite": "infinity",
    "instant": "2021-03-04T05:06:07.123456789+14:00",
}

NUMBER_TEXTS: Mapping[str, str] = {
    "nan": "nan",
    "inf": "inf",
    "-Infinity": "-Infinity",
    "minus zero": "-0.0",
    "1e308": "1e308",
    "1e999": "1e999",
    "5e-324": "5e-324",
    "2^63": str(2**63),
    "2^64-1": str(2**64 - 1),
    "10^400": "1" + "0" * 400,
    "hexadecimal": "0x1F",
    "underscores": "1_000",
    "thousands": "1.000,5",
    "no number": "seven",
}

ANY: Mapping[str, Any] = {**NUMBERS, **TEXTS, **BYTES, **MISSING, **WRONG_TYPES, **DATES}
"""Everything that a Python list can hold."""


def values(*kinds: Mapping[str, Any], form: Callable[[Any], Any] = lambda value: value) -> dict[str, Any]:
    """The hostile values of several kinds, each in the form that an entry point understands."""
    return {label: form(value) for kind in kinds for label, value in kind.items()}


def mixed(rng: random.Random, *kinds: Mapping[str, Any], most: int = 20) -> list[Any]:
    """Up to `most` hostile values at random, some of them more than once."""
    pool = [value for kind in kinds for value in kind.values()]
    return [rng.choice(pool) for _ in range(rng.randint(1, most))]
