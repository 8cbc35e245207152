"""Three readers, three writers: a participant, an analyst, a regulator.

A writer turns a subject into sentences. All numbers come from `odds` and `risks`, all words from `texts`; a writer
chooses which, and in what order.

>>> from deniable.explaining.subjects import subject
>>> from deniable.events import Laplace
>>> told = Participant(observer="your manager", belief="you said no").write(subject(Laplace(scale=2)))
>>> print(told.sections[0].sentences[0])  # doctest: +ELLIPSIS
If you do not take part, 39 of 100 possible reports would lead your manager to believe you said no; if you do, ...
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, runtime_checkable

from deniable import _checks
from deniable._checks import Number, shown
from deniable.explaining.explanation import Explanation, Section
from deniable.explaining.odds import Odds, odds, success
from deniable.explaining.risks import FALSE_POSITIVES, beliefs
from deniable.explaining.subjects import Subject
from deniable.explaining.texts import ENGLISH, Texts
from deniable.guarantees import ApproxDP, PureDP
from deniable.guarantees.printing import rounded_up, small


@runtime_checkable
class Writer(Protocol):
    """Somebody who explains a subject to one kind of reader."""

    def write(self, subject: Subject, *, prior: Number | None = None) -> Explanation:
        """The explanation; with a prior, also what an attacker who holds it can come to believe."""
        ...


@dataclass(frozen=True)
class Participant:
    """For somebody who wonders whether to take part."""

    observer: str | None = None
    belief: str | None = None
    texts: Texts = ENGLISH

    def write(self, subject: Subject, *, prior: Number | None = None) -> Explanation:
        """The odds first, then the prior, then what is not promised."""
        words, found = self.texts.about(subject.unit), odds(subject.profile)
        yours = [
            _odds_sentence(words, subject, found, self.observer, self.belief),
            words.odds_own if subject.own else words.odds_any,
            *_beliefs(words, subject, prior, several=False),
        ]
        return Explanation(
            subject.title,
            (
                *_refuted(words, subject),
                Section(words.heading_you, tuple(yours)),
                Section(words.heading_scope, _scope(words, subject)),
                Section(words.heading_not, (words.not_population, words.not_told)),
            ),
            found,
            words.labels,
        )


@dataclass(frozen=True)
class Analyst:
    """For somebody who works with what is published, or chooses the parameters."""

    texts: Texts = ENGLISH

    def write(self, subject: Subject, *, prior: Number | None = None) -> Explanation:
        """The promise, the attack risks, δ, the facts."""
        words, found = self.texts.about(subject.unit), odds(subject.profile)
        numbers = [
            _odds_sentence(words, subject, found, None, None),
            words.odds_own if subject.own else words.odds_any,
            words.odds_most.format(most=_percent(success(subject.profile))),
            *_risks(words, subject),
            *_beliefs(words, subject, prior, several=True),
        ]
        return Explanation(
            subject.title,
            (
                *_refuted(words, subject),
                *_promise(words, subject),
                Section(words.heading_numbers, tuple(numbers)),
                *_delta(words, subject),
                Section(words.heading_not, (words.not_population, words.not_true)),
                *_facts(words, subject),
            ),
            found,
            words.labels,
        )


@dataclass(frozen=True)
class Regulator:
    """For somebody who must decide whether a promise is enough, and whether it is kept."""

    texts: Texts = ENGLISH

    def write(self, subject: Subject, *, prior: Number | None = None) -> Explanation:
        """Scope first, then the promise with its method, the risks, δ, and what is not covered."""
        words, found = self.texts.about(subject.unit), odds(subject.profile)
        numbers = [
            words.method.format(method=subject.profile.method),
            words.odds_own if subject.own else words.odds_any,
            words.odds_most.format(most=_percent(success(subject.profile))),
            *_risks(words, subject),
            *_beliefs(words, subject, prior, several=True),
        ]
        return Explanation(
            subject.title,
            (
                *_refuted(words, subject),
                Section(words.heading_scope, _scope(words, subject)),
                *_promise(words, subject),
                Section(words.heading_numbers, tuple(numbers)),
                *_delta(words, subject),
                Section(words.heading_not, (words.not_population, words.not_told, words.not_true)),
                *_facts(words, subject),
            ),
            found,
            words.labels,
        )


def _odds_sentence(words: Texts, subject: Subject, found: Odds, observer: str | None, belief: str | None) -> str:
    return words.odds[subject.relation].format(
        **found._asdict(),
        observer=observer or words.someone,
        belief=belief or words.belief[subject.relation],
    )


def _refuted(words: Texts, subject: Subject) -> tuple[Section, ...]:
    """First of all, where it applies: a refuted promise must not be read as one that holds."""
    return (Section(words.heading_refuted, (words.refuted,)),) if subject.refuted else ()


def _promise(words: Texts, subject: Subject) -> tuple[Section, ...]:
    if subject.guarantee is None:
        return ()
    covers = words.covers_this if subject.own else words.covers_budget
    return (Section(words.heading_promise, (str(subject.guarantee), covers)),)


def _scope(words: Texts, subject: Subject) -> tuple[str, ...]:
    unit = subject.unit
    who = words.unit_row if unit.noun == "row" else words.unit_person
    return (who.format(noun=unit.noun, unit=unit.one), words.relation[subject.relation].format(unit=unit.one))


def _beliefs(words: Texts, subject: Subject, prior: Number | None, *, several: bool) -> list[str]:
    """What a prior can grow to: for every output if that is bounded, else for all but a share of outputs."""
    if prior is None:
        return []
    start = shown(100 * _checks.inner_probability("prior", prior))
    found = beliefs(subject.profile, prior=prior, own=subject.own)
    always, *almost = found
    one = subject.unit.one
    if always.most < 1:
        return [words.prior.format(prior=start, unit=one, most=_percent(always.most))]
    told = [
        words.prior_almost.format(prior=start, unit=one, most=_percent(b.most), failure=_one_in(b.failure))
        for b in almost
        if b.most < 1
    ]
    return [words.no_bound, *told] if several else told[:1] or [words.no_bound]


def _risks(words: Texts, subject: Subject) -> list[str]:
    profile = subject.profile
    caught = [
        words.caught.format(false=_one_in(at), true=f"{_percent(profile.true_positive_rate(at))} %")
        for at in FALSE_POSITIVES
    ]
    return [words.advantage.format(advantage=rounded_up(profile.advantage)), *caught]


def _delta(words: Texts, subject: Subject) -> tuple[Section, ...]:
    """δ in words, where one is stated: P[L > t] ≤ δ/(1 − e^{ε−t}), at t = ε + ln 2, leaves out 2δ of the outputs."""
    if isinstance(subject.guarantee, PureDP):
        return (Section(words.heading_delta, (words.delta_zero,)),)
    if not isinstance(subject.guarantee, ApproxDP) or not subject.guarantee.delta:
        return ()
    epsilon, delta = subject.guarantee.epsilon, subject.guarantee.delta
    factor = rounded_up(2 * math.exp(min(float(epsilon), 700.0)) * (1 + 2.0**-40))
    sentence = words.delta.format(
        delta=small(delta), kept=f"1 − {small(2 * delta)}", unit=subject.unit.one, factor=factor
    )
    return (Section(words.heading_delta, (sentence,)),)


def _facts(words: Texts, subject: Subject) -> tuple[Section, ...]:
    if not subject.facts:
        return ()
    return (Section(words.heading_facts, tuple(f"{name}: {text}" for name, text in subject.facts)),)


def _percent(chance: float) -> str:
    """A chance in percent, one decimal, rounded up; never 100.0 for less than certainty without saying so."""
    return "100" if chance >= 1 else rounded_up(100 * chance, decimals=1)


def _one_in(share: Fraction) -> str:
    return f"one in {int(1 / share):,}"
