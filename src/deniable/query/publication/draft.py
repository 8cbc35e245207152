"""The file that describes a publication, in TOML. Numbers are read as the decimals that were typed.

    title = "Visits to our hospitals, 2026"
    ledger = "hospital.ledger"
    epsilon = 1                       # for all tables together
    delta = 1e-7                      # left out: 0

    encoding = "cp1252"               # of CSV files; left out: UTF-8

    [data]
    visits = "visits.parquet"         # or a folder, a pattern, or a list of files

    [public]                          # tables about nobody, which queries may join; usually left out
    cities = "cities.csv"

    [tables.visits_by_city]
    sql = "SELECT city, COUNT(*) AS visits FROM visits GROUP BY city"
    keys.city = ["Basel", "Bern"]     # or a file with one key per line
    per_unit = {groups = 2, rows = 4}
    weight = 2                        # or error = 50, with group_size for averages

Paths are relative to the file. A word that is not known is refused, so that a misspelt one is not passed over.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from deniable import _checks
from deniable.errors import DataError, InvalidArgument
from deniable.ledger.stores.locations import is_server
from deniable.query.choice import AtMost

_TOP = ("title", "ledger", "who", "epsilon", "delta", "confidence", "encoding", "data", "public", "tables")
_TABLE = (
    "sql", "bounds", "keys", "per_unit", "weights", "weight", "error", "group_size", "cover", "leave_out", "diagnose",
    "delta", "noise", "title",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")


@dataclass(frozen=True)
class DraftTable:
    """One table: its name, what is asked (without an ε), and its weight; None where it has an error instead."""

    name: str
    title: str
    sql: str
    options: Mapping[str, Any]
    """The other arguments of `Session.plan`."""
    weight: Fraction | None


@dataclass(frozen=True)
class Draft:
    """What the file says."""

    title: str
    ledger: Path | str
    who: str | None
    epsilon: Fraction | None
    delta: Fraction
    data: Mapping[str, Path | list[Path]]
    public: Mapping[str, Path | list[Path]]
    encoding: str | None
    tables: tuple[DraftTable, ...]
    text: str
    """The file, as it is; a resumed run must find the same."""


def read(path: Path) -> Draft:
    """Read and check a file; nothing else is opened but lists of keys."""
    try:
        raw = path.read_bytes()
    except OSError as failure:
        raise DataError(f"{path} could not be read: {failure.strerror}") from None
    # A table given by mistake is no TOML, whatever bytes its rows hold. Only what is TOML is told about its bytes.
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
    try:
        found = tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as mistake:
        raise DataError(f"{path.name} is not TOML: {mistake}") from None
    if text.encode() != raw.replace(b"\r\n", b"\n"):
        raise DataError(f"{path} could not be read: it is not UTF-8")
    _only(path.name, found, _TOP)
    for needed in ("ledger", "data", "tables"):
        if needed not in found:
            raise DataError(f"{path.name} lacks {needed}; docs/publish.md shows a whole file")
    home = path.parent
    data, public = (_files(name, found[name], home) if name in found else {} for name in ("data", "public"))
    confidence = found.get("confidence", Decimal("0.95"))
    tables = tuple(_table(name, given, home, confidence) for name, given in _section("tables", found["tables"]).items())
    if len({table.name.casefold() for table in tables}) < len(tables):
        raise InvalidArgument("tables", [t.name for t in tables], "tables whose names differ by more than case")
    epsilon = None if "epsilon" not in found else _checks.positive("epsilon", found["epsilon"])
    shared = [table.name for table in tables if table.weight is not None]
    if shared and epsilon is None:
        raise InvalidArgument(
            "epsilon", None, f"given: table {shared[0]} has no error of its own", "For example epsilon = 1."
        )
    if not shared and epsilon is not None:
        raise InvalidArgument(
            "epsilon", found["epsilon"], "left out: every table states its error", "The errors set it."
        )
    who = found.get("who")
    return Draft(
        title=_text("title", found.get("title", path.stem)),
        ledger=where if is_server(where := _text("ledger", found["ledger"])) else home / where,
        who=None if who is None else _text("who", who),
        epsilon=epsilon,
        delta=_checks.between(
            "delta", found.get("delta", 0), low=0, high=1, open_high=True, expected="a probability below 1"
        ),
        data=data,
        public=public,
        encoding=None if "encoding" not in found else _text("encoding", found["encoding"]),
        tables=tables,
        text=text,
    )


def _files(name: str, given: Any, home: Path) -> dict[str, Path | list[Path]]:
    return {table: _places(f"{name}.{table}", path, home) for table, path in _section(name, given).items()}


def _places(name: str, given: Any, home: Path) -> Path | list[Path]:
    return [home / _text(name, one) for one in given] if isinstance(given, list) else home / _text(name, given)


def _table(name: str, given: Any, home: Path, confidence: Any) -> DraftTable:
    what = f"tables.{name}"
    if not _NAME.fullmatch(name):
        raise InvalidArgument("tables", name, "a name of letters, digits, - and _: it becomes a file's name")
    if name.casefold() in ("method", "release"):
        raise InvalidArgument("tables", name, "another name: the release has a file of that name")
    said = _section(what, given)
    _only(what, said, _TABLE)
    if "sql" not in said:
        raise DataError(f"{what} lacks sql")
    if "error" in said and "weight" in said:
        raise InvalidArgument(
            f"{what}.weight", said["weight"], "left out where an error is given", "It sets the table's ε."
        )
    sql = _text(f"{what}.sql", said["sql"])
    options = {
        "error": said.get("error"),
        "group_size": said.get("group_size"),
        "bounds": _bounds(said.get("bounds")),
        "keys": _keys(what, said.get("keys"), home),
        "per_unit": _limits(what, said.get("per_unit")),
        "weights": said.get("weights"),
        "confidence": confidence,
        "cover": said.get("cover"),
        "leave_out": said.get("leave_out", False),
        "diagnose": said.get("diagnose"),
        "delta": said.get("delta"),
        "noise": said.get("noise"),
    }
    weight = None if "error" in said else _checks.positive(f"{what}.weight", said.get("weight", 1))
    return DraftTable(name, _text(f"{what}.title", said.get("title", name)), sql, options, weight)


def _limits(what: str, given: Any) -> AtMost | str | None:
    if given is None or isinstance(given, str):
        return given
    said = _section(f"{what}.per_unit", given)
    _only(f"{what}.per_unit", said, ("groups", "rows", "total"))
    if not {"groups", "rows"} <= set(said):
        raise InvalidArgument(f"{what}.per_unit", said, "limits", "For example per_unit = {groups = 2, rows = 4}.")
    return AtMost(**said)


def _bounds(given: Any) -> Any:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()} if isinstance(given, dict) else given


def _keys(what: str, given: Any, home: Path) -> Mapping[str, object] | None:
    """Lists of keys; a text is the name of a file with one key per line."""
    if given is None:
        return None
    found: dict[str, object] = {}
    for column, listed in _section(f"{what}.keys", given).items():
        if isinstance(listed, str):
            try:
                listed = [line for line in (home / listed).read_text(encoding="utf-8").splitlines() if line]
            except (OSError, UnicodeDecodeError):
                raise DataError(f"{what}.keys.{column}: the file {listed} could not be read as UTF-8 text") from None
        found[column] = listed
    return found


def _section(name: str, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict) or not given:
        raise InvalidArgument(name, given, f"a section with entries, [{name}]")
    return given


def _only(where: str, found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for word in found:
        if word not in known:
            raise InvalidArgument(where, word, f"made of {', '.join(known)}", "Correct or remove this word.")


def _text(name: str, given: Any) -> str:
    if not isinstance(given, str) or not given.strip():
        raise InvalidArgument(name, given, "a text")
    return given
