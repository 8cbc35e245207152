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
    Noise,
    RandomizedResponse,
    Sampled,
    SampledWithoutReplacement,
    Shuffled,
)
from deniable.explaining import pages
from deniable.explaining.audits import Audit, audit_tradeoff
from deniable.explaining.curves import belief_figure, charges_figure, intervals_figure, profile_figure, tradeoff_figure
from deniable.explaining.figures import Figure, Interval, IntervalFigure
from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.explaining.odds import icon_array, success
from deniable.explaining.redaction import aggregates, is_sql, redact
from deniable.explaining.subjects import Describable, Explainable, Subject, subject
from deniable.explaining.texts import ENGLISH, Texts
from deniable.explaining.writers import Explanation, Participant, Regulator
from deniable.guarantees import ApproxDP
from deniable.guarantees.printing import cost_line, rounded_up
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
    title: str = ""
    """Of the page; who is protected, if it is left out."""
    show_queries: bool = False
    """Whether queries are shown as they were typed. Else names and values in them are left out."""
    source: str = ""
    """The file or address of the subject, if it has one. A page is never written over it."""
    audits_only: bool = False
    """Whether the page is about an audit."""

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
        title: str = "",
        show_queries: bool = False,
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
            title: of the page; says who is protected, if it is left out.
            show_queries: show queries as they were typed. Else names and values in them are left out.
        """
        topic = subject(what)
        words = texts.about(topic.unit)
        attacks = (what, *audits) if isinstance(what, Audit) else audits
        values = value_figures(what, labels=words.labels) if isinstance(what, Answers) else ()
        source = str(getattr(what, "place", ""))  # a ledger's
        return cls(
            topic,
            tuple(entries),
            tuple(attacks),
            tuple(values),
            curator,
            use,
            words,
            title,
            show_queries,
            source,
            audits_only=isinstance(what, Audit),
        )

    def to_html(self) -> str:
        """The page: what it means for a person first, what was published, then the technical part, folded."""
        explanation = Participant(texts=self.texts).write(self.subject, prior=0.1)
        yours, *others = [section for section in explanation.sections if section.heading != self.texts.heading_refuted]
        main = [
            *self._opening(),
            pages.heading(yours.heading),
            *map(pages.paragraph, yours.sentences),
            pages.picture(icon_array(explanation.odds, labels=self.texts.labels)),
            *self._releases(),
            *self._audits_section(),
            *(piece for section in others for piece in _section(section.heading, section.sentences)),
            pages.fold(self.texts.page_technical, self._technical(explanation)),
            pages.fold(self.texts.page_datasheet, [pages.questions(self.datasheet())]),
        ]
        return pages.page(self.heading, language=self.texts.language, main=main, footer=self._footer())

    @property
    def heading(self) -> str:
        """The title of the page: the one that was given; for an audit its own; else who is protected."""
        if self.title or self.subject.refuted or self.audits_only:
            return self.title or self.subject.title
        return self.texts.page_title.format(unit=self.texts.one(self.subject.unit))

    def datasheet(self) -> tuple[tuple[str, str], ...]:
        """The questions that NIST SP 800-226 (2025) tells readers of a privacy claim to ask, and the answers."""
        words, topic = self.texts, self.subject
        unit, curator = words.one(topic.unit), self.curator
        events = [entry.event for entry in self.entries]
        parts = {part for event in events for part in _parts(event)}
        kinds = sorted({type(part).__name__ for part in parts if isinstance(part, Noise | RandomizedResponse)})
        floats = any(type(part) in (Gaussian, Laplace) for part in parts)
        local = any(isinstance(part, RandomizedResponse) for part in parts)
        who = words.unit_row if topic.unit.noun == "row" else words.unit_person
        refuted = sum(getattr(audit, "verdict", "") == "refuted" for audit in self.audits)
        answers = {
            "parameters": {"promise": self._promise_text()},
            "unit": {"scope": who.format(noun=topic.unit.noun, unit=unit)},
            "neighbours": {"neighbours": words.relation[topic.relation].format(unit=unit)},
            "meaning": {"unit": unit, "most": rounded_up(100 * success(topic.profile), decimals=1)},
            "composition": {"covers": words.covers_this if topic.own else words.covers_budget},
            "releases": {"releases": f"{len(self.entries):,}"},
            "algorithms": {"mechanisms": f"{', '.join(kinds)}." if kinds else words.sheet_none},
            "numbers": {"floats": words.edge_floats if floats else ""},
            "trust": {"curator": curator, "local": f" {words.edge_local}" if local else ""},
            "collection": {"curator": curator},
            "audits": {
                "audits": words.sheet_tested.format(many=len(self.audits), refuted=refuted)
                if self.audits
                else words.sheet_none
            },
            "software": {"version": version("deniable"), "method": words.method.format(method=topic.profile.method)},
        }
        return tuple(
            (question, answer.format(**answers.get(about, {})).strip())
            for about, (question, answer) in words.sheet.items()
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

    def _promise_text(self) -> str:
        topic = self.subject
        if topic.guarantee is not None:
            return self.texts.promise(topic.guarantee)
        change = self.texts.changes[topic.relation].format(unit=self.texts.one(topic.unit))
        return cost_line(topic.profile.epsilon(1e-6), 1e-6, change)

    def _opening(self) -> list[str]:
        """The first sentence; of a refuted promise, that it is refuted."""
        if self.subject.refuted:
            promise = self.texts.page_refuted.format(promise=self._promise_text())
            return [pages.paragraph(promise, kind="promise refuted"), pages.paragraph(self.texts.refuted)]
        return [pages.paragraph(self.texts.page_intro.format(unit=self.texts.one(self.subject.unit)), kind="lead")]

    def _releases(self) -> list[str]:
        """What was published: in words, each question folded, and without its names and values unless asked for."""
        pieces = []
        if self.values:
            pieces += [pages.heading(self.texts.page_released), *map(pages.picture, self.values)]
        if not self.entries:
            return pieces
        words = self.texts
        pieces.append(pages.heading(words.page_releases))
        entries = self.entries[-MOST_ROWS:]
        if less := len(self.entries) - len(entries):
            pieces.append(pages.paragraph(words.page_earlier.format(less=f"{less:,}")))
        for entry in entries:
            what = words.page_release.format(day=entry.time[:10], what=self._words_of(entry.purpose))
            text = entry.purpose if self.show_queries else redact(entry.purpose)
            folded = words.page_question if self.show_queries else words.page_redacted
            question = pages.fold(folded, [f"<p><code>{escape_html(text)}</code></p>"]) if is_sql(entry.purpose) else ""
            pieces.append(f"<div>{pages.paragraph(what)}{question}</div>")
        return pieces

    def _words_of(self, purpose: str) -> str:
        """A person's words as they are; of a query, what kinds of statistics it asks for."""
        if not is_sql(purpose):
            return purpose
        words = self.texts
        names = [words.statistics[kind] for kind in aggregates(purpose)] or [words.page_facts]
        text = names[0]
        if len(names) > 1:
            text = words.page_and.format(first=", ".join(names[:-1]), last=names[-1])
        return words.page_statistics.format(statistics=text)

    def _technical(self, explanation: Explanation) -> list[str]:
        """The promise, the facts, the curves, the charges, the sharp edges; what stands above is left out."""
        words, topic = self.texts, self.subject
        repeated = {sentence for section in explanation.sections for sentence in section.sentences}
        facts = [(words.page_curator, self.curator), (words.page_use, self.use), *topic.facts]
        pieces = [] if topic.refuted else [pages.paragraph(self._promise_text(), kind="promise")]
        pieces.append(pages.facts_table(facts, label=words.page_facts))
        regulator = Regulator(texts=words).write(replace(topic, facts=()), prior=0.1)
        for section in regulator.sections:
            new = [s for s in section.sentences if s not in repeated and s != self._promise_text()]
            pieces += _section(section.heading, new, level=3)
        claims = {words.page_done if topic.guarantee is None else words.page_promise: topic.profile}
        figures: list[Figure] = [
            tradeoff_figure(claims, labels=words.labels),
            belief_figure(topic.profile, labels=words.labels),
            profile_figure(claims, labels=words.labels),
        ]
        pieces += [f"<h3>{escape_html(words.page_attacker)}</h3>", *map(pages.picture, figures)]
        pieces += self._charges_table()
        sentences = edge_sentences((entry.event for entry in self.entries), topic.unit, texts=words)
        if sentences:
            pieces += [f"<h3>{escape_html(words.page_edges)}</h3>", pages.bullets(sentences)]
        return pieces

    def _charges_table(self) -> list[str]:
        if not self.entries:
            return []
        words, entries = self.texts, self.entries[-MOST_ROWS:]
        named = any(entry.who for entry in entries)
        time, who, *others = words.page_columns
        rows = [
            (
                e.time[:16].replace("T", " "),
                *([e.who or ""] if named else []),
                e.purpose if self.show_queries else redact(e.purpose),
                repr(e.event),
                self._alone(e.event),
                account(e.event).method,
            )
            for e in entries
        ]
        head = (time, *([who] if named else []), *others)
        kinds = ("short", *([""] if named else []), "purpose", "event", "short", "by")
        return [
            f"<h3>{escape_html(words.page_charged)}</h3>",
            pages.paragraph(words.page_each),
            pages.table(head, rows, kinds=kinds, label=words.page_charged),
            pages.picture(charges_figure(Counter(e.time[:10] for e in self.entries), labels=words.labels)),
        ]

    def _alone(self, event: Event) -> str:
        guarantee = self.subject.guarantee
        delta = guarantee.delta if isinstance(guarantee, ApproxDP) else 0
        return cost_line(account(event).epsilon(delta), delta, "").rstrip(", ")

    def _audits_section(self) -> list[str]:
        if not self.audits:
            return []
        parts = [pages.heading(self.texts.page_audits)]
        for audit in self.audits:
            description = audit.describe()
            claimed = self.texts.page_claimed.format(promise=self.texts.promise(description.guarantee))
            parts.append(f"<h3>{escape_html(description.title)}</h3>{pages.paragraph(claimed)}")
            parts.append(pages.facts_table(description.facts, label=description.title))
            if isinstance(audit, Audit):
                parts.append(pages.picture(audit_tradeoff(audit, labels=self.texts.labels)))
        return parts

    def _footer(self) -> str:
        when = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        return self.texts.page_footer.format(version=version("deniable"), when=when)


def _section(title: str, sentences: Sequence[str], *, level: int = 2) -> list[str]:
    """A heading and its paragraphs; nothing if there is nothing to say."""
    if not sentences:
        return []
    return [f"<h{level}>{escape_html(title)}</h{level}>", *map(pages.paragraph, sentences)]
