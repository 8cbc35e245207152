"""The release: rows of private answers, an interval on every number, one line of cost.

Each interval says what it covers (`Release.covers`), with the stated confidence. By default that is the privacy noise
and everything that limits and bounds left out, but for at most m units: `Release.beyond`. It is never who happened to
be in the table. `Release.noise_only` has the same values with intervals for the noise alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deniable._checks import exact, read_fraction, shown
from deniable._escapes import printable
from deniable._forms import Plain, plain_number
from deniable._notebook import draw_numbers
from deniable.descriptions import Description
from deniable.errors import InvalidArgument
from deniable.events import Event
from deniable.guarantees import Guarantee
from deniable.guarantees.reading import parse
from deniable.query.answering import Beyond
from deniable.query.choice import AtMost
from deniable.query.columnar import Columnar
from deniable.query.diagnosis import Findings, Share
from deniable.query.estimates import Choice, EstimateColumn
from deniable.query.explanation import aligned, release_html

VERSION = 1
"""The form of JSON that `Release.to_json` writes and `Release.from_json` reads."""

MOST_SHOWN = 60
"""Rows that a printed release shows."""


class Value(NamedTuple):
    """A released number with the ends of its interval."""

    value: int | float
    low: int | float
    high: int | float


class ReleasedCategory(NamedTuple):
    """A released category, and the categories that it may be in truth."""

    value: Any
    among: str


class Found(NamedTuple):
    """Bounds by column, and limits, that surveys found; empty and None where they were stated."""

    bounds: Mapping[str, tuple[Fraction, Fraction]]
    limits: AtMost | None


@dataclass(frozen=True, eq=False)
class Release(Columnar, Plain):
    """Private answers; all of it may be published. Group keys come in the declared order."""

    title: str
    """What was asked, in a few words: "COUNT(*) of visits by city"."""
    outputs: tuple[str, ...]
    """The columns that were asked for, in the order of the SELECT list: keys, and those with estimates."""
    groups: Mapping[str, bool] = field(repr=False)
    """Whether keys are private, by grouped column."""
    key_values: Mapping[str, Sequence[Any]] = field(repr=False)
    """The keys of every released row, by output."""
    estimates: Mapping[str, EstimateColumn | Choice] = field(repr=False)
    noise_estimates: Mapping[str, EstimateColumn | Choice] = field(repr=False)
    """The same values with intervals for the noise alone."""
    beyond: Beyond | None
    """The units that own more than limits and bounds let count; None where intervals are for the noise alone."""
    cost: Guarantee
    event: Event
    confidence: Fraction
    remaining: Guarantee | None
    """What the ledger still allows, after this charge; None for a reader who has no budget of their own."""
    found: Found | None = None
    """Bounds and limits that were found privately."""
    reasons: str = field(default="", repr=False)
    """Why the answer is as noisy as it is (see `why`)."""
    findings: Findings | None = None
    """The shares of rows that were clamped and left out, where a diagnosis was paid for."""

    @property
    def noise_only(self) -> Release:
        """The same values with intervals that cover the privacy noise alone, each with the whole confidence."""
        return replace(self, estimates=self.noise_estimates, beyond=None)

    @property
    def _covers(self) -> str:
        """What the intervals cover, without a noisy number."""
        if self.beyond is None:
            return "privacy noise only"
        if not self.beyond.failure:
            return "privacy noise; no limit or bound leaves anything out"
        beyond = f"but for the {self.cost.unit.noun}s beyond them"
        return f"privacy noise and limits, {beyond}" + ("" if self.beyond.in_part else ", who are left out")

    @property
    def covers(self) -> str:
        """What the intervals cover, in words."""
        if self.beyond is None or not self.beyond.failure:
            return self._covers
        noun = self.cost.unit.noun
        few = f"for all but at most {self.beyond.most:,} {noun}s"
        if self.beyond.in_part:
            return f"privacy noise and limits, {few} who own more than every {noun} is allowed to count"
        return f"privacy noise, {few}, who own more than every {noun} is allowed to count and are left out"

    @cached_property
    def columns(self) -> dict[str, list[Any]]:
        """The answer by column, in the order of the SELECT list; a number `n` is followed by `n_low` and `n_high`, a
        choice `m` by `m_among`."""
        found: dict[str, list[Any]] = {}
        for output in self.outputs:
            if output in self.key_values:
                found[output] = list(self.key_values[output])
            else:
                estimate = self.estimates[output]
                for ending, end in zip(estimate.endings, estimate, strict=True):
                    found[output + ending] = end.tolist()
        return found

    @cached_property
    def rows(self) -> tuple[dict[str, Any], ...]:
        """One mapping per group: keys as they are, numbers as `Value(value, low, high)`, modes as
        `Chosen(value, among)`."""
        parts: dict[str, list[Any]] = {}
        for output in self.outputs:
            if output in self.key_values:
                parts[output] = self.columns[output]
            else:
                endings = self.estimates[output].endings
                ends = (self.columns[output + ending] for ending in endings)
                made = Value if len(endings) == 3 else ReleasedCategory
                parts[output] = [made(*cells) for cells in zip(*ends, strict=True)]
        return tuple(dict(zip(parts, row, strict=True)) for row in zip(*parts.values(), strict=True))

    def __len__(self) -> int:
        """How many rows are released."""
        return len(next(iter(self.columns.values())))

    def __bool__(self) -> bool:
        """A release is one, also where no group is released."""
        return True

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The rows, one mapping each (see `rows`)."""
        return iter(self.rows)

    def __getitem__(self, name: str) -> list[Any]:
        """A column by its name: `release["city"]`, `release["visits_low"]`."""
        if name not in self.columns:
            raise KeyError(f"no column {name!r}; the columns are {', '.join(self.columns)}")
        return list(self.columns[name])

    @property
    def spent(self) -> dict[str, float]:
        """The cost as numbers: {"epsilon": 0.5}, with "delta" or "rho" where it has one."""
        return {name: float(number) for name, number in self.cost.numbers.items() if number}

    def why(self) -> str:
        """Why the answer is as noisy as it is, and what would halve the noise."""
        return self.reasons

    def plot(self, column: str | None = None, *, axes: Any = None) -> Any:
        """One released number per row with its interval, drawn by Matplotlib (extra `plot`); gives the axes.

        Args:
            column: the number to draw; the first one, if it is left out.
            axes: where to draw; new ones, if it is left out.
        """
        numbers = [name for name, estimate in self.estimates.items() if isinstance(estimate, EstimateColumn)]
        chosen = column if column is not None else next(iter(numbers), None)
        if chosen not in numbers:
            raise InvalidArgument("column", column, f"one of the released numbers {', '.join(numbers)}")
        return draw_numbers(self, chosen, axes)

    def to_dict(self) -> dict[str, Any]:
        form = {
            "version": VERSION,
            "title": self.title,
            "groups": {name: "private" if private else "declared" for name, private in self.groups.items()},
            "columns": [self._column_form(output) for output in self.outputs],
            "rows": [dict(zip(self.columns, row, strict=True)) for row in zip(*self.columns.values(), strict=True)],
            "confidence": plain_number(self.confidence),
            "interval": self.covers,
            "cost": self.cost.to_dict(),
            "event": self.event.to_dict(),
            "remaining": None if self.remaining is None else self.remaining.to_dict(),
            "why": self.reasons,
            **self.extras(),
        }
        if self.beyond is not None:
            form["noise_only"] = self.noise_only.to_dict()["rows"]
        return form

    def _column_form(self, output: str) -> dict[str, str]:
        """What an output holds, so that its values can be read back from JSON."""
        if output in self.key_values:
            return {"name": output, "holds": "key", "type": _type_word(self.columns[output])}
        if isinstance(self.estimates[output], Choice):
            return {"name": output, "holds": "choice", "type": _type_word(self.columns[output])}
        return {"name": output, "holds": "number", "type": "number"}

    @staticmethod
    def from_dict(form: dict[str, Any]) -> Release:
        """The release that `to_dict` described."""
        if not isinstance(form, dict) or form.get("version") != VERSION:
            remedy = f"This version of deniable reads version {VERSION}."
            raise InvalidArgument("text", "…", f"a release's JSON of version {VERSION}", remedy)
        try:
            return _read_release(form)
        except InvalidArgument:
            raise
        except (TypeError, KeyError, AttributeError, ValueError):
            raise InvalidArgument("text", "…", "a release's JSON, as release.to_json() writes it") from None

    @staticmethod
    def from_json(text: str) -> Release:
        """The release that `to_json` wrote: the same rows, intervals, cost and notes, and it prints the same."""
        return Release.from_dict(parse(text, what="a release's JSON, as release.to_json() writes it"))

    def extras(self) -> dict[str, Any]:
        """What surveys found, as plain values."""
        more: dict[str, Any] = {}
        if self.found is not None and (self.found.bounds or self.found.limits):
            limits = self.found.limits
            more["found"] = {
                "bounds": {name: [plain_number(end) for end in ends] for name, ends in self.found.bounds.items()},
                "per_unit": None if limits is None else limits.to_dict(),
            }
        if self.beyond is not None:
            more["beyond"] = {**self.beyond._asdict(), "failure": plain_number(self.beyond.failure)}
        if self.findings is not None:
            dropped = self.findings.dropped
            more["diagnosis"] = {
                "left_out": None if dropped is None else dropped._asdict(),
                "clamped": {name: share._asdict() for name, share in self.findings.clamped.items()},
            }
        return more

    def describe(self) -> Description:
        """The release in public facts, with its curve."""
        from deniable.accounting import account

        return Description(
            self.title,
            self.cost,
            (
                ("event", repr(self.event)),
                ("intervals", f"{shown(self.confidence * 100)} % each, {self._covers}"),
                *self._left,
            ),
            account(self.event, unit=self.cost.unit),
        )

    @property
    def _left(self) -> tuple[tuple[str, str], ...]:
        """The line that says what remains, where that is known."""
        return () if self.remaining is None else (("remaining", self.remaining.figures),)

    @property
    def facts(self) -> tuple[tuple[str, str], ...]:
        """What belongs to the numbers: cost, what remains, what was found, and what the intervals cover."""
        lines = [("cost", str(self.cost)), *self._left]
        if self.found is not None:
            lines += [
                ("found", f"bounds of {column}: [{shown(low)}, {shown(high)}]")
                for column, (low, high) in self.found.bounds.items()
            ]
            if self.found.limits is not None:
                lines.append(("found", f"limits for each {self.cost.unit.noun}: {self.found.limits.words}"))
        if self.findings is not None:
            if self.findings.dropped is not None:
                lines.append(("left out", f"{self.findings.dropped} of the rows"))
            lines += [
                ("clamped", f"{share} of the rows, in {column}") for column, share in self.findings.clamped.items()
            ]
        if self.beyond is not None and self.beyond.failure:
            noun = self.cost.unit.noun
            many = f"about {self.beyond.about:,} {noun}s own more than that"
            gone = "" if self.beyond.in_part else " and are left out"
            lines.append(("beyond", f"{many}{gone}, at most {self.beyond.most:,}"))
        return (*lines, ("intervals", f"{shown(self.confidence * 100)} % each, {self.covers}"))

    def __str__(self) -> str:
        right = [bool(column) and not isinstance(column[0], str) for column in self.columns.values()]
        lines = aligned([list(self.columns), *self._cells()], right=right)
        lines += [self._rest] if self._rest else []
        width = max(len(name) for name, _ in self.facts) + 2
        return "\n".join([*lines, "", *(f"{name:<{width}}{printable(fact)}" for name, fact in self.facts)])

    def __repr__(self) -> str:
        return str(self)  # what a shell shows

    def _repr_html_(self) -> str:
        names = [name for name, estimate in self.estimates.items() if isinstance(estimate, EstimateColumn)]
        return release_html(self, self._cells(), names=names, note=self._rest)

    @property
    def _rest(self) -> str:
        """What there is to say about rows that are not shown."""
        rows = len(next(iter(self.columns.values())))
        if not rows:
            searched = any(self.groups.values())
            why = f"; the plan says how many {self.cost.unit.noun}s a group needs" if searched else ""
            return f"no group is released{why}"
        return f"… and {rows - MOST_SHOWN} more rows" if rows > MOST_SHOWN else ""

    def _cells(self) -> list[list[str]]:
        """What is shown, row by row."""
        return [[_text(cell) for cell in row] for row in zip(*self._rounded(), strict=True)]

    def _rounded(self) -> list[list[Any]]:
        """The columns that are shown, numbers to two digits of their interval's half width."""
        found: list[list[Any]] = []
        for output in self.outputs:
            endings = ("",) if output in self.key_values else self.estimates[output].endings
            if len(endings) < 3:
                found += [self.columns[output + ending][:MOST_SHOWN] for ending in endings]
                continue
            three = [self.columns[output + ending][:MOST_SHOWN] for ending in ("", "_low", "_high")]
            digits = [_digits(low, high) for low, high in zip(three[1], three[2], strict=True)]
            found += [[_cut(v, d) for v, d in zip(column, digits, strict=True)] for column in three]
        return found


def _type_word(values: Sequence[Any]) -> str:
    """Which type the values have that JSON writes as text."""
    kinds = {type(value) for value in values}
    return next((word for word, (kind, _) in _TYPES.items() if kind in kinds), "plain")


_TYPES: dict[str, tuple[type, Callable[[str], Any]]] = {
    "timestamp": (datetime, datetime.fromisoformat),
    "date": (date, date.fromisoformat),
    "number": (float, float),
}
"""How JSON's texts become values again. Of floats only those that are not finite are texts."""


def _read_column(rows: Sequence[Mapping[str, Any]], name: str, type: str) -> list[Any]:
    """A column of plain rows. Exact fractions, as which JSON's floats are read, are floats."""
    read = _TYPES[type][1] if type in _TYPES else str
    values = [row[name] for row in rows]
    return [float(v) if isinstance(v, Fraction) else read(v) if isinstance(v, str) else v for v in values]


def _read_estimates(
    columns: Sequence[Mapping[str, str]], rows: Sequence[Mapping[str, Any]]
) -> dict[str, EstimateColumn | Choice]:
    """The estimates of plain rows."""
    estimates: dict[str, EstimateColumn | Choice] = {}
    for column in columns:
        name, type = column["name"], column["type"]
        if column["holds"] == "number":
            estimates[name] = EstimateColumn(*(_objects(_read_column(rows, name + e, type)) for e in _NUMBER_ENDINGS))
        elif column["holds"] == "choice":
            among = _objects(_read_column(rows, f"{name}_among", "plain"))
            estimates[name] = Choice(_objects(_read_column(rows, name, type)), among)
    return estimates


_NUMBER_ENDINGS = ("", "_low", "_high")


def _objects(values: list[Any]) -> NDArray[Any]:
    """An array of Python's own values."""
    return np.array([*values, None], dtype=object)[:-1]


def _read_release(form: Mapping[str, Any]) -> Release:
    columns, rows = form["columns"], form["rows"]
    found, beyond, findings = form.get("found"), form.get("beyond"), form.get("diagnosis")
    return Release(
        title=form["title"],
        outputs=tuple(column["name"] for column in columns),
        groups={name: {"private": True, "declared": False}[keys] for name, keys in form["groups"].items()},
        key_values={c["name"]: _read_column(rows, c["name"], c["type"]) for c in columns if c["holds"] == "key"},
        estimates=_read_estimates(columns, rows),
        noise_estimates=_read_estimates(columns, rows if beyond is None else form["noise_only"]),
        beyond=None if beyond is None else _read_beyond(beyond),
        cost=Guarantee.from_dict(form["cost"]),
        event=Event.from_dict(form["event"]),
        confidence=_number(form["confidence"]),
        remaining=None if form["remaining"] is None else Guarantee.from_dict(form["remaining"]),
        found=None if found is None else _read_found(found),
        reasons=form["why"],
        findings=None if findings is None else _read_findings(findings),
    )


def _number(plain: int | float | Fraction | str) -> Fraction:
    """What `plain_number` wrote."""
    return read_fraction(plain) if isinstance(plain, str) else exact(plain)


def _read_beyond(form: Mapping[str, Any]) -> Beyond:
    return Beyond(form["most"], form["about"], _number(form["failure"]), form["in_part"])


def _read_found(form: Mapping[str, Any]) -> Found:
    limits = form["per_unit"]
    bounds = {name: (_number(low), _number(high)) for name, (low, high) in form["bounds"].items()}
    return Found(bounds, None if limits is None else AtMost(**limits))


def _read_findings(form: Mapping[str, Any]) -> Findings:
    def read(share: Mapping[str, Any]) -> Share:
        return Share(*(float(share[end]) for end in Share._fields))

    dropped = form["left_out"]
    return Findings(
        None if dropped is None else read(dropped), {name: read(share) for name, share in form["clamped"].items()}
    )


def _digits(low: float, high: float) -> int:
    """Decimals that show two digits of half an interval's width."""
    half = (high - low) / 2
    return 2 if not 0 < half < math.inf else max(0, 1 - math.floor(math.log10(half)))


def _cut(value: float, digits: int) -> str | int:
    return value if isinstance(value, int) else f"{value:.{digits}f}"


def _text(cell: Any) -> str:
    return cell if isinstance(cell, str) else str(cell)
