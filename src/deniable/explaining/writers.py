"""Writers of explanations for three readers: a participant, an analyst, a regulator.

A writer turns a subject into sentences. It chooses which sentences to write and in what order; the numbers come from
`odds` and from the curve, the words from `texts`.

>>> from deniable.explaining.subjects import subject
>>> from deniable.events import Laplace
>>> explanation = Participant(observer="your manager", belief="you said no").write(subject(Laplace(scale=2)))
>>> print(explanation.sections[0].sentences[0])  # doctest: +ELLIPSIS
If you do not take part, 39 of 100 possible reports would lead your manager to believe you said no; if you do, ...
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import dataclass
from fractions import Fraction
from statistics import NormalDist
from typing import Any, NamedTuple, Protocol, runtime_checkable

from deniable import _checks
from deniable._checks import Number, shown
from deniable._escapes import escape_html, printable
from deniable._forms import Plain
from deniable.accounting.closed import GaussianCurve
from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.explaining.odds import Odds, odds, success
from deniable.explaining.subjects import Subject
from deniable.explaining.texts import ENGLISH, Texts
from deniable.guarantees import ApproxDP, Profile, PureDP
from deniable.guarantees.printing import rounded_up, small

FAILURES = (Fraction(0), Fraction(1, 10**6), Fraction(1, 1000), Fraction(1, 20))
"""Shares of possible outputs that a bound on beliefs may leave out."""

FALSE_POSITIVES = (Fraction(1, 1000), Fraction(1, 10**5))
"""False positive rates at which attacks are judged. A test with few false positives is the more dangerous one, even if
it is right less often (Carlini et al. 2022)."""

_SLACK = 1 + 2.0**-40
"""More than the rounding of a dozen float operations and of the standard library's normal quantile."""


class Belief(NamedTuple):
    """The most and the least that an attacker can come to believe, each but for a share `failure` of the outputs."""

    failure: Fraction
    most: float
    least: float


def beliefs(profile: Profile, *, prior: Number, own: bool) -> tuple[Belief, ...]:
    """What an attacker can come to believe, for each share in `FAILURES`, rounded up.

    With prior odds o and loss L, the posterior odds are o·e^L. Pure ε bounds L for every output. A curve with δ > 0
    bounds it for all but a stated share of the outputs (`Profile.posterior`). For Gaussian noise itself the quantile of
    L ~ N(μ²/2, μ²) is exact, and smaller. It may not be quoted for everything that promises μ-GDP: merging outputs can
    raise the chance that L exceeds a level, though it can raise no δ(ε).

    >>> from deniable.accounting import account
    >>> from deniable.events import Claimed, Gaussian
    >>> from deniable.guarantees import GDP, PureDP
    >>> [f"{b.most:.3f}" for b in beliefs(account(Claimed(PureDP(1))), prior=0.1, own=False)]
    ['0.232', '0.232', '0.232', '0.232']
    >>> [f"{b.most:.3f}" for b in beliefs(account(Gaussian(scale=1)), prior=0.1, own=True)]
    ['1.000', '0.955', '0.801', '0.487']
    >>> [f"{b.most:.3f}" for b in beliefs(account(Claimed(GDP(1))), prior=0.1, own=False)]
    ['1.000', '0.962', '0.838', '0.578']
    """
    chance = _checks.inner_probability("prior", prior)

    def most(start: Fraction, failure: Fraction) -> float:
        bound = profile.posterior(start, failure=failure)
        if own and failure and isinstance(profile.curve, GaussianCurve):
            bound = min(bound, gaussian_posterior(profile.curve.mu_squared, prior=start, failure=failure))
        return bound

    # A belief falls as far as the belief in the contrary rises.
    return tuple(Belief(failure, most(chance, failure), 1 - most(1 - chance, failure)) for failure in FAILURES)


def gaussian_posterior(mu_squared: Fraction, *, prior: Number, failure: Number) -> float:
    """The posterior at the upper quantile of the loss of Gaussian noise, L ~ N(μ²/2, μ²) when the person is in."""
    chance = float(_checks.inner_probability("prior", prior))
    tail = float(_checks.inner_probability("failure", failure))
    mu = math.sqrt(mu_squared) * _SLACK
    loss = (mu * mu / 2 - mu * NormalDist().inv_cdf(tail)) * _SLACK
    return min(1.0, _SLACK / (1 + (1 - chance) / chance * math.exp(-loss)))


_LEAST = 0.001
"""A belief that may fall below this may fall to nothing, which is not worth a sentence."""

_WIDTH = 100


@dataclass(frozen=True)
class Section:
    """A heading and its sentences."""

    heading: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Explanation(Plain):
    """An explanation in sections. An icon array draws its `odds`."""

    title: str
    sections: tuple[Section, ...]
    odds: Odds
    labels: Labels = ENGLISH_LABELS
    """The words of its picture."""

    def __repr__(self) -> str:
        return str(self)  # what a shell shows

    def __str__(self) -> str:
        blocks = [printable(self.title)]
        for section in self.sections:
            sentences = map(printable, section.sentences)
            lines = [textwrap.fill(s, _WIDTH, initial_indent="  ", subsequent_indent="  ") for s in sentences]
            blocks.append("\n".join([printable(section.heading), *lines]))
        return "\n\n".join(blocks)

    def to_dict(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "sections": [{"heading": s.heading, "sentences": list(s.sentences)} for s in self.sections],
            "odds": self.odds._asdict(),
        }

    def to_html(self) -> str:
        """The sections as HTML, without styles: a page or a notebook brings its own."""
        parts = []
        for section in self.sections:
            parts.append(f"<h3>{escape_html(section.heading)}</h3>")
            parts.extend(f"<p>{escape_html(sentence)}</p>" for sentence in section.sentences)
        return "\n".join(parts)

    def _repr_html_(self) -> str:
        from deniable.explaining.odds import icon_array
        from deniable.explaining.svg import render

        return (
            f"<h2>{escape_html(self.title)}</h2>\n{self.to_html()}\n{render(icon_array(self.odds, labels=self.labels))}"
        )


@runtime_checkable
class Writer(Protocol):
    """Explains a subject to one kind of reader."""

    def write(self, subject: Subject, *, prior: Number | None = None) -> Explanation:
        """The explanation. With a prior, it also says what an attacker with that prior can come to believe."""
        ...


@dataclass(frozen=True)
class Participant:
    """For somebody who wonders whether to take part."""

    observer: str | None = None
    belief: str | None = None
    texts: Texts = ENGLISH

    def write(self, subject: Subject, *, prior: Number | None = None) -> Explanation:
        """The odds first, then the prior, then what is not promised."""
        words, counts = self.texts.about(subject.unit), odds(subject.profile)
        yours = [
            *_odds_sentences(words, subject, counts, self.observer, self.belief),
            words.odds_own if subject.own else words.odds_any,
            *_beliefs(words, subject, prior, several=False),
        ]
        return Explanation(
            subject.title,
            (
                *_refutation(words, subject),
                Section(words.heading_you, tuple(yours)),
                Section(words.heading_scope, _scope(words, subject)),
                Section(words.heading_not, (words.not_population, words.not_told)),
            ),
            counts,
            words.labels,
        )


@dataclass(frozen=True)
class Analyst:
    """For somebody who works with what is published, or chooses the parameters."""

    texts: Texts = ENGLISH

    def write(self, subject: Subject, *, prior: Number | None = None) -> Explanation:
        """The promise, the attack risks, δ, the facts."""
        words, counts = self.texts.about(subject.unit), odds(subject.profile)
        numbers = [
            *_odds_sentences(words, subject, counts, None, None),
            words.odds_own if subject.own else words.odds_any,
            words.odds_most.format(most=_percent(success(subject.profile))),
            *_risks(words, subject),
            *_beliefs(words, subject, prior, several=True),
        ]
        return Explanation(
            subject.title,
            (
                *_refutation(words, subject),
                *_promise(words, subject),
                Section(words.heading_numbers, tuple(numbers)),
                *_delta(words, subject),
                Section(words.heading_not, (words.not_population, words.not_true)),
                *_facts(words, subject),
            ),
            counts,
            words.labels,
        )


@dataclass(frozen=True)
class Regulator:
    """For somebody who must decide whether a promise is enough, and whether it is kept."""

    texts: Texts = ENGLISH

    def write(self, subject: Subject, *, prior: Number | None = None) -> Explanation:
        """Scope first, then the promise with its method, the risks, δ, and what is not covered."""
        words, counts = self.texts.about(subject.unit), odds(subject.profile)
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
                *_refutation(words, subject),
                Section(words.heading_scope, _scope(words, subject)),
                *_promise(words, subject),
                Section(words.heading_numbers, tuple(numbers)),
                *_delta(words, subject),
                Section(words.heading_not, (words.not_population, words.not_told, words.not_true)),
                *_facts(words, subject),
            ),
            counts,
            words.labels,
        )


def _odds_sentences(
    words: Texts, subject: Subject, counts: Odds, observer: str | None, belief: str | None
) -> list[str]:
    """The two numbers, what the other reports do, and how well the numbers are known."""
    sentence = words.odds[subject.relation].format(
        without=f"{counts.without:,}",
        with_you=f"{counts.with_you:,}",
        of=f"{counts.of:,}",
        observer=observer or words.someone,
        belief=belief or words.belief[subject.relation],
    )
    about = [words.odds_about.format(give_or_take=counts.give_or_take)] if counts.give_or_take else []
    return [sentence, words.odds_rest, *about]


def _refutation(words: Texts, subject: Subject) -> tuple[Section, ...]:
    """The first section for a refuted promise, so that nobody reads it as one that holds."""
    return (Section(words.heading_refuted, (words.refuted,)),) if subject.refuted else ()


def _promise(words: Texts, subject: Subject) -> tuple[Section, ...]:
    if subject.guarantee is None:
        return ()
    covers = words.covers_this if subject.own else words.covers_budget
    return (Section(words.heading_promise, (words.promise(subject.guarantee), covers)),)


def _scope(words: Texts, subject: Subject) -> tuple[str, ...]:
    unit = subject.unit
    who = words.unit_row if unit.noun == "row" else words.unit_person
    one = words.one(unit)
    return (who.format(noun=unit.noun, unit=one), words.relation[subject.relation].format(unit=one))


def _beliefs(words: Texts, subject: Subject, prior: Number | None, *, several: bool) -> list[str]:
    """How far a belief can grow and fall: for every output if that is bounded, else for all but a share of them."""
    if prior is None:
        return []
    start = shown(100 * _checks.inner_probability("prior", prior))
    bounds = beliefs(subject.profile, prior=prior, own=subject.own)
    always, *almost = bounds
    one = words.one(subject.unit)
    if always.most < 1:
        ends = {"least": _percent_down(always.least), "most": _percent(always.most)}
        return [words.prior.format(prior=start, unit=one, **ends)]
    sentences = [
        words.prior_almost.format(prior=start, unit=one, most=_percent(b.most), failure=_one_in(words, b.failure))
        + (f" {words.prior_falls.format(least=_percent_down(b.least))}" if b.least >= _LEAST else "")
        for b in almost
        if b.most < 1
    ]
    return [words.no_bound, *sentences] if several else sentences[:1] or [words.no_bound]


def _risks(words: Texts, subject: Subject) -> list[str]:
    profile = subject.profile
    sentences = [
        words.caught.format(false=_one_in(words, at), true=f"{_percent(profile.true_positive_rate(at))} %")
        for at in FALSE_POSITIVES
    ]
    return [words.advantage.format(advantage=rounded_up(profile.advantage)), *sentences]


def _delta(words: Texts, subject: Subject) -> tuple[Section, ...]:
    """δ in words, where one is stated: P[L > t] ≤ δ/(1 − e^{ε−t}), at t = ε + ln 2, leaves out 2δ of the outputs."""
    if isinstance(subject.guarantee, PureDP):
        return (Section(words.heading_delta, (words.delta_zero,)),)
    if not isinstance(subject.guarantee, ApproxDP) or not subject.guarantee.delta:
        return ()
    epsilon, delta = subject.guarantee.epsilon, subject.guarantee.delta
    factor = rounded_up(2 * math.exp(min(float(epsilon), 700.0)) * (1 + 2.0**-40))
    sentence = words.delta.format(
        delta=small(delta), kept=f"1 − {small(2 * delta)}", unit=words.one(subject.unit), factor=factor
    )
    return (Section(words.heading_delta, (sentence,)),)


def _facts(words: Texts, subject: Subject) -> tuple[Section, ...]:
    if not subject.facts:
        return ()
    return (Section(words.heading_facts, tuple(f"{name}: {text}" for name, text in subject.facts)),)


def _percent(chance: float) -> str:
    """A chance in percent, with one decimal, rounded up."""
    return "100" if chance >= 1 else rounded_up(100 * chance, decimals=1)


def _percent_down(chance: float) -> str:
    """A chance in percent, with one decimal, rounded down."""
    return shown(Fraction(math.floor(1000 * chance), 10))


def _one_in(words: Texts, share: Fraction) -> str:
    return words.one_in.format(many=f"{int(1 / share):,}")
