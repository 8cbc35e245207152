"""Reports: one self-contained page about a ledger, a model or an audit.

The page says who is protected, what was charged, and what it means. It needs no network and no script. Everything on it
comes from a description, which is public by construction.

>>> from deniable.guarantees import PureDP
>>> page = Report.about(PureDP(0.5, unit="patient_id"), curator="the hospital").to_html()
>>> page.count("<h1>"), "the hospital" in page
(1, True)
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from fractions import Fraction
from importlib.metadata import version
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from deniable import _files
from deniable._checks import shown
from deniable._escapes import dump_json, escape_html
from deniable.accounting import account
from deniable.errors import InvalidArgument
from deniable.events import (
    Claimed,
    Event,
    Gaussian,
    Laplace,
    RandomizedResponse,
    Sampled,
    SampledWithoutReplacement,
    Shuffled,
)
from deniable.explaining.audits import Audit, audit_tradeoff
from deniable.explaining.curves import belief_figure, charges_figure, intervals_figure, profile_figure, tradeoff_figure
from deniable.explaining.figures import Figure, Interval, IntervalFigure
from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.explaining.odds import icon_array, success
from deniable.explaining.subjects import Describable, Explainable, Subject, subject
from deniable.explaining.svg import render
from deniable.explaining.texts import ENGLISH, Texts
from deniable.explaining.writers import Participant, Regulator
from deniable.guarantees import ApproxDP
from deniable.guarantees.printing import cost_line
from deniable.units import Relation, Unit

EDGES: tuple[tuple[str, Callable[[Event], bool]], ...] = (
    (
        "edge_claimed",
        lambda part: isinstance(part, Claimed),
    ),
    (
        "edge_sampled",
        lambda part: isinstance(part, Sampled | SampledWithoutReplacement),
    ),
    (
        "edge_shuffled",
        lambda part: isinstance(part, Shuffled),
    ),
    (
        "edge_floats",
        lambda part: type(part) in (Gaussian, Laplace),
    ),
    (
        "edge_local",
        lambda part: isinstance(part, RandomizedResponse),
    ),
    (
        "edge_size",
        lambda part: part.relation is not Relation.ADD_REMOVE,
    ),
)


def edge_sentences(events: Iterable[Event], unit: Unit, *, texts: Texts = ENGLISH) -> list[str]:
    """The sentences that apply to these events and this unit, each once."""
    parts = {part for event in events for part in _parts(event)}
    names = ["edge_row"] if unit.column is None else []
    names += [name for name, applies in EDGES if any(map(applies, parts))]
    return [getattr(texts, name) for name in names]


def _parts(event: Event) -> Iterator[Event]:
    """An event and everything inside it."""
    yield event
    for field in fields(event):
        value = getattr(event, field.name)
        for inner in value if isinstance(value, tuple) else (value,):
            if isinstance(inner, Event):
                yield from _parts(inner)


def registry(subject: Subject, *, curator: str, use: str, releases: int, audits: int) -> dict[str, Any]:
    """A deployment in the form that registries of differential privacy ask for: plain data, without private values.

    The fields are those that such registries have in common (Dwork, Kohli and Mulligan 2019, "an epsilon registry"):
    who curates the data, for what use, who is protected against what, the parameters, how they were accounted for, and
    by what software.
    """
    guarantee = subject.guarantee
    return {
        "curator": curator,
        "use": use,
        "title": subject.title,
        "unit": subject.unit.plain,
        "relation": subject.relation.name,
        "model": "central",
        "guarantee": None if guarantee is None else type(guarantee).__name__,
        "parameters": {} if guarantee is None else {k: _plain(v) for k, v in guarantee.numbers.items()},
        "accounting": {
            "method": subject.profile.method,
            "covers": "this release" if subject.own else "what is released under this promise",
        },
        "risk": {"best_guess_at_even_odds": success(subject.profile), "advantage": subject.profile.advantage},
        "releases": releases,
        "audits": audits,
        "implementation": {"name": "deniable", "version": version("deniable")},
        "facts": dict(subject.facts),
    }


def _plain(value: object) -> str:
    return shown(value) if isinstance(value, Fraction) else str(value)


MOST_FIGURE_ROWS = 40
"""How many rows a figure shows, the first ones."""


@runtime_checkable
class Answers(Protocol):
    """The part of a release that is drawn: columns in which a number `n` is followed by `n_low` and `n_high`."""

    @property
    def confidence(self) -> Fraction:
        """Of every interval."""
        ...

    @property
    def columns(self) -> Mapping[str, Sequence[Any]]:
        """The answer by column."""
        ...


def value_figures(release: Answers, *, labels: Labels = ENGLISH_LABELS) -> list[IntervalFigure]:
    """One figure of values and intervals for every released number. A row is named by its keys.

    >>> class Visits:
    ...     confidence = Fraction(19, 20)
    ...     columns = {"city": ["Bern", "Basel"], "n": [9, 4], "n_low": [7, 2], "n_high": [11, 6]}
    >>> [figure] = value_figures(Visits())
    >>> figure.title, figure.alt
    ('n', 'Bern: 9, from 7 to 11. Basel: 4, from 2 to 6.')
    """
    columns = release.columns
    label = labels.values_intervals.format(confidence=shown(100 * release.confidence))
    numbers = [name for name in columns if f"{name}_low" in columns and f"{name}_high" in columns]
    ends = {f"{name}{ending}" for name in numbers for ending in ("_low", "_high", "_among")}
    keys = [column for name, column in columns.items() if name not in numbers and name not in ends]
    figures = []
    for name in numbers:
        cells = zip(columns[name], columns[f"{name}_low"], columns[f"{name}_high"], strict=True)
        rows = [
            Interval(", ".join(str(column[row_number]) for column in keys) or name, *map(float, ends_of))
            for row_number, ends_of in enumerate(cells)
            if all(map(math.isfinite, ends_of))
        ]
        if rows:
            cut = labels.values_first.format(name=name, shown=MOST_FIGURE_ROWS, all=len(rows))
            title = cut if len(rows) > MOST_FIGURE_ROWS else name
            figures.append(intervals_figure(title, rows[:MOST_FIGURE_ROWS], x_label=label, labels=labels))
    return figures


MOST_ROWS = 200
"""The table shows at most so many of the newest charges; the rest is in the ledger."""

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; color: #1b1b1f; background: #fff;
  margin: 0 auto; padding: 1.5rem; max-width: 52rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: .5rem 0; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin: 2.2rem 0 .4rem; border-top: 1px solid #d5d7de; padding-top: 1.2rem; }
h3 { font-size: 1rem; margin: 1.2rem 0 .2rem; }
p { margin: .4rem 0; overflow-wrap: anywhere; }
.promise { font-size: 1.1rem; font-weight: 600; background: #eef3fa; padding: .8rem 1rem; border-radius: .4rem; }
.refuted { background: #fbe9e2; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .7rem .35rem 0; border-bottom: 1px solid #e4e5ea; }
td.event { font-family: ui-monospace, monospace; font-size: .8rem; min-width: 14rem; overflow-wrap: anywhere; }
td.short { white-space: nowrap; }
td.purpose { min-width: 9rem; overflow-wrap: anywhere; }
td.by { min-width: 8rem; }
figure { margin: 1rem 0; text-align: center; }
footer { margin-top: 3rem; color: #565a66; font-size: .875rem; }
"""


@dataclass(frozen=True)
class Entry:
    """One thing that was charged."""

    time: str
    who: str | None
    purpose: str
    event: Event


@dataclass(frozen=True)
class Report:
    """The contents of a page. `Report.about` builds one."""

    subject: Subject
    entries: tuple[Entry, ...] = ()
    audits: tuple[Describable, ...] = ()
    values: tuple[IntervalFigure, ...] = ()
    curator: str = "not stated"
    use: str = "not stated"
    texts: Texts = ENGLISH
    source: str = ""
    """The file or address of the subject, if it has one. A page is never written over it."""

    @classmethod
    def about(
        cls,
        what: Explainable,
        *,
        entries: Iterable[Entry] = (),
        audits: Sequence[Describable] = (),
        curator: str = "not stated",
        use: str = "not stated",
        texts: Texts = ENGLISH,
    ) -> Report:
        """A report about anything that can be explained.

        Args:
            what: an event, a guarantee, a profile, or an object with `describe()`. An audit or a release brings its
                own picture.
            entries: the charges to list.
            audits: audit reports to include.
            curator: who is responsible for the data.
            use: what the releases are for.
            texts: the sentences, in one language.
        """
        topic = subject(what)
        words = texts.about(topic.unit)
        attacks = (what, *audits) if isinstance(what, Audit) else audits
        values = value_figures(what, labels=words.labels) if isinstance(what, Answers) else ()
        source = str(getattr(what, "place", ""))  # a ledger's
        return cls(topic, tuple(entries), tuple(attacks), tuple(values), curator, use, words, source)

    def to_html(self) -> str:
        """The page."""
        title = escape_html(self.subject.title)
        sections = (
            self._promise,
            self._values,
            self._meaning,
            self._curves,
            self._charges_section,
            self._audits_section,
            self._edges,
            self._method,
        )
        body = "\n".join([f"<h1>{title}</h1>", *(line for section in sections for line in section()), self._footer()])
        return (
            f'<!doctype html>\n<html lang="{escape_html(self.texts.language)}"><head><meta charset="utf-8">'
            f"<title>{title}</title>"
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head>'
            f"<body>\n{body}\n</body></html>\n"
        )

    def to_registry(self) -> dict[str, object]:
        """The registry's entry."""
        return registry(
            self.subject, curator=self.curator, use=self.use, releases=len(self.entries), audits=len(self.audits)
        )

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = False,
        inputs: Sequence[str | os.PathLike[str]] = (),
    ) -> tuple[Path, Path]:
        """Write the page, and the registry's entry beside it as `NAME.registry.json`; returns both paths.

        Args:
            path: The page.
            overwrite: Replace the two files where they exist. Else nothing is written if one of them does.
            inputs: Files that the report was made from; they are never replaced.
        """
        page = Path(path)
        if not page.name:
            raise InvalidArgument("path", str(path), "the name of a file", "For example report.html.")
        entry = page.with_name(f"{page.stem}.registry.json")
        sources = [*inputs, *([self.source] if self.source else [])]
        for each in (page, entry):
            _files.check_target(each, overwrite=overwrite, inputs=sources)
        _files.write_text(page, self.to_html(), overwrite=overwrite, inputs=sources)
        registry_text = dump_json(self.to_registry(), indent=2) + "\n"
        _files.write_text(entry, registry_text, overwrite=overwrite, inputs=sources)
        return page, entry

    def _promise(self) -> list[str]:
        topic = self.subject
        promise = str(topic.guarantee) if topic.guarantee is not None else topic.profile.cost(1e-6)
        if topic.refuted:
            line = f'<p class="promise refuted">{escape_html(self.texts.page_refuted.format(promise=promise))}</p>'
        else:
            line = f'<p class="promise">{escape_html(promise)}</p>'
        facts = [(self.texts.page_curator, self.curator), (self.texts.page_use, self.use), *topic.facts]
        return [line, _facts(facts)]

    def _values(self) -> list[str]:
        return [_heading(self.texts.page_released), *map(_figure, self.values)] if self.values else []

    def _meaning(self) -> list[str]:
        explanation = Participant(texts=self.texts).write(self.subject, prior=0.1)
        return [
            _heading(self.texts.page_meaning),
            explanation.to_html(),
            _figure(icon_array(explanation.odds, labels=self.texts.labels)),
        ]

    def _curves(self) -> list[str]:
        profile, labels = self.subject.profile, self.texts.labels
        claims = {self.texts.page_done if self.subject.guarantee is None else self.texts.page_promise: profile}
        figures: list[Figure] = [
            tradeoff_figure(claims, labels=labels),
            belief_figure(profile, labels=labels),
            profile_figure(claims, labels=labels),
        ]
        return [_heading(self.texts.page_attacker), *map(_figure, figures)]

    def _charges_section(self) -> list[str]:
        if not self.entries:
            return []
        entries = self.entries[-MOST_ROWS:]
        named = any(entry.who for entry in entries)
        rows = [
            f'<tr><td class="short">{escape_html(e.time[:16].replace("T", " "))}</td>'
            + (f"<td>{escape_html(e.who or '')}</td>" if named else "")
            + f'<td class="purpose">{escape_html(e.purpose)}</td><td class="event">{escape_html(repr(e.event))}</td>'
            f'<td class="short">{escape_html(self._alone(e.event))}</td>'
            f'<td class="by">{escape_html(account(e.event).method)}</td></tr>'
            for e in entries
        ]
        time, who, *others = self.texts.page_columns
        head = "".join(f"<th>{escape_html(name)}</th>" for name in (time, *([who] if named else []), *others))
        less = len(self.entries) - len(entries)
        return [
            _heading(self.texts.page_charged),
            f"<p>{escape_html(self.texts.page_each)}</p>",
            f"<p>{escape_html(self.texts.page_earlier.format(less=f'{less:,}'))}</p>" if less else "",
            f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table></div>',
            _figure(charges_figure(Counter(e.time[:10] for e in self.entries), labels=self.texts.labels)),
        ]

    def _alone(self, event: Event) -> str:
        guarantee = self.subject.guarantee
        delta = guarantee.delta if isinstance(guarantee, ApproxDP) else 0
        return cost_line(account(event).epsilon(delta), delta, "").rstrip(", ")

    def _audits_section(self) -> list[str]:
        if not self.audits:
            return []
        parts = [_heading(self.texts.page_audits)]
        for audit in self.audits:
            description = audit.describe()
            claimed = escape_html(self.texts.page_claimed.format(promise=description.guarantee))
            parts.append(f"<h3>{escape_html(description.title)}</h3><p>{claimed}</p>")
            parts.append(_facts(description.facts))
            if isinstance(audit, Audit):
                parts.append(_figure(audit_tradeoff(audit, labels=self.texts.labels)))
        return parts

    def _edges(self) -> list[str]:
        sentences = edge_sentences((entry.event for entry in self.entries), self.subject.unit, texts=self.texts)
        if not sentences:
            return []
        return [
            _heading(self.texts.page_edges),
            "<ul>",
            *(f"<li>{escape_html(line)}</li>" for line in sentences),
            "</ul>",
        ]

    def _method(self) -> list[str]:
        explanation = Regulator(texts=self.texts).write(replace(self.subject, facts=()), prior=0.1)
        return [_heading(self.texts.page_regulator), explanation.to_html()]

    def _footer(self) -> str:
        when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        text = self.texts.page_footer.format(version=version("deniable"), when=when)
        return f"<footer>{escape_html(text)}</footer>"


def _heading(words: str) -> str:
    return f"<h2>{escape_html(words)}</h2>"


def _facts(facts: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th>{escape_html(name)}</th><td>{escape_html(text)}</td></tr>" for name, text in facts)
    return f'<div class="wide"><table>{rows}</table></div>'


def _figure(figure: Figure) -> str:
    return f"<figure>{render(figure)}</figure>"
