"""Forms of pages: fields of text, read into the requests that the JSON interface takes, and back.

A question's bounds and keys are lines of text: `cost: 0, 5000` and `city: Bern, Basel, "Biel, Bienne"`.
"""

from __future__ import annotations

import csv
import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from deniable._checks import read_fraction
from deniable.errors import InvalidArgument
from deniable.service.requests import Numeral, PlanRequest, Scalar, UnitLimits

MOST_FIELDS = 40
_QUOTED = re.compile(r'[,"\n]|^\s|\s$|^$')
_WHOLE = re.compile(r"[+-]?\d{1,30}")
_DECIMAL = re.compile(r"[+-]?\d{1,30}\.\d{1,30}")

Fields = dict[str, str]


def read_fields(body: bytes) -> Fields:
    """The fields of a form; of a name that comes twice the last."""
    try:
        pairs = parse_qsl(
            body.decode("ascii"), keep_blank_values=True, strict_parsing=bool(body), errors="strict",
            max_num_fields=MOST_FIELDS,
        )  # fmt: skip
    except ValueError:
        raise InvalidArgument("body", "…", "a form, encoded as browsers do") from None
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def read_question(fields: Mapping[str, str], tables: Iterable[Mapping[str, Any]]) -> PlanRequest:
    """The question that a form asks. `tables` tell which columns hold text, whose keys are never numbers."""

    def text_of(name: str) -> str | None:
        return fields.get(name, "").strip() or None

    by_error = fields.get("goal") == "error"
    error, of = text_of("error") if by_error else None, text_of("error_of")
    groups, rows = _whole(fields, "groups"), _whole(fields, "rows")
    texts = {column["name"] for table in tables for column in table["columns"] if column["kind"] in ("text", "untyped")}
    return PlanRequest(
        sql=fields.get("sql", ""),
        epsilon=None if by_error else text_of("epsilon"),
        error=error if error is None or of is None else {of: error},
        group_size=_whole(fields, "group_size"),
        bounds=_bounds(fields.get("bounds", "")),
        keys=_keys(fields.get("keys", ""), texts),
        per_unit=None if groups is None and rows is None else UnitLimits(groups=groups, rows=rows),
        confidence=text_of("confidence"),
        diagnose=text_of("diagnose"),
        delta=text_of("delta"),
        project=text_of("project"),
        fresh=fields.get("fresh") == "yes",
    )


def _whole(fields: Mapping[str, str], name: str) -> int | None:
    text = fields.get(name, "").strip()
    if text and not (_WHOLE.fullmatch(text) and len(text) < 12):
        raise InvalidArgument(name, text[:80], "a whole number, or nothing")
    return int(text) if text else None


def _lines(name: str, text: str, example: str) -> Iterable[tuple[str, str]]:
    for line in filter(str.strip, text.split("\n")):
        column, colon, rest = line.partition(":")
        if not colon or not column.strip():
            raise InvalidArgument(name, line.strip()[:80], f"a line as {example}")
        yield column.strip(), rest.strip()


def _bounds(text: str) -> dict[str, str | list[Numeral]] | None:
    """Two numbers for each column, or the word that its bounds are to be found."""
    bounds: dict[str, str | list[Numeral]] = {}
    for column, rest in _lines("bounds", text, "cost: 0, 5000"):
        ends: list[Numeral] = [end.strip() for end in rest.split(",")]
        bounds[column] = rest if rest == "private" else ends
        if rest != "private" and len(ends) != 2:
            raise InvalidArgument("bounds", f"{column}: {rest}"[:80], "a line as cost: 0, 5000")
    return bounds or None


def _keys(text: str, texts: set[str]) -> dict[str, list[Scalar] | dict[str, Numeral]] | None:
    keys: dict[str, list[Scalar] | dict[str, Numeral]] = {}
    for column, rest in _lines("keys", text, "city: Bern, Basel"):
        try:
            values = next(csv.reader([rest], skipinitialspace=True), [])
        except csv.Error:  # a carriage return of its own
            raise InvalidArgument("keys", rest[:80], "a line as city: Bern, Basel") from None
        read: list[Scalar] = [value.strip() for value in values]
        if column not in texts and all(_is_number(value) for value in values):
            read = [int(value) if _WHOLE.fullmatch(value.strip()) else float(value) for value in values]
        keys[column] = read
    return keys or None


def _is_number(text: str) -> bool:
    return bool(_WHOLE.fullmatch(text.strip()) or _DECIMAL.fullmatch(text.strip()))


def to_fields(request: PlanRequest) -> Fields:
    """The form of a question, as far as a form can state it."""
    limits = request.per_unit if isinstance(request.per_unit, UnitLimits) else UnitLimits()
    error, of = request.error, ""
    if isinstance(error, dict):
        of, error = next(iter(error.items()), ("", None))
    bounds = request.bounds if isinstance(request.bounds, dict) else {}
    stated = {
        "sql": request.sql, "goal": "epsilon" if request.error is None else "error", "error": error, "error_of": of,
        "epsilon": request.epsilon, "group_size": request.group_size, "groups": limits.groups, "rows": limits.rows,
        "confidence": request.confidence, "diagnose": request.diagnose, "project": request.project,
        "delta": request.delta,
        "bounds": "\n".join(
            f"{column}: {ends if isinstance(ends, str) else ', '.join(map(str, ends))}"
            for column, ends in bounds.items()
        ),
        "keys": "\n".join(
            f"{column}: {', '.join(_cell(value) for value in values)}"
            for column, values in (request.keys or {}).items() if isinstance(values, list)
        ),
    }  # fmt: skip
    return {name: str(value) for name, value in stated.items() if value not in (None, "")}


def unstated(request: PlanRequest, tables: Iterable[Mapping[str, Any]]) -> list[str]:
    """The parts of a question that a form cannot state, by name."""
    again = read_question(to_fields(request), tables)
    names = [name for name in request.__struct_fields__ if name != "fresh"]
    return [name for name in names if _plain(getattr(request, name)) != _plain(getattr(again, name))]


def _plain(value: Any) -> Any:
    """A value with its numbers as text, as a form has them."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value if value is None or isinstance(value, UnitLimits) else str(value)


def _cell(value: Scalar) -> str:
    text = str(value)
    return '"' + text.replace('"', '""') + '"' if _QUOTED.search(text) else text


def run_key(nonce: str, request: PlanRequest) -> str:
    """The key of a run that a form asks for: sent twice, the form asks for one run; changed, for another."""
    return "page " + hashlib.sha256(f"{nonce}\n{request.text}".encode()).hexdigest()


def read_days(text: str) -> float | None:
    """How many days a token is to live; None where the form does not say."""
    try:
        return float(read_fraction(text)) if text.strip() else None
    except (ValueError, OverflowError):
        raise InvalidArgument("days", text[:80], "a number of days") from None
