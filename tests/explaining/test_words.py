"""The words: known figures, every kind of subject, every reader, rounding toward caution."""

from __future__ import annotations

import math
import re
import string
from dataclasses import fields, replace
from fractions import Fraction
from statistics import NormalDist

import numpy as np
import pytest

from deniable.accounting import account
from deniable.conversions import for_group
from deniable.descriptions import Description
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Gaussian, Laplace, RandomizedResponse, dpsgd
from deniable.explaining import Analyst, Participant, Regulator, explain
from deniable.explaining.labels import Labels
from deniable.explaining.languages import LANGUAGES, texts_in
from deniable.explaining.odds import Odds, odds, success
from deniable.explaining.report import Entry, Report
from deniable.explaining.subjects import Explainable
from deniable.explaining.texts import ENGLISH, Texts
from deniable.explaining.views import html
from deniable.explaining.writers import beliefs, gaussian_posterior
from deniable.guarantees import GDP, ApproxDP, PureDP
from deniable.units import Relation

READERS = [Participant(), Analyst(), Regulator()]


def test_the_sentence_of_the_study() -> None:
    reader = Participant(observer="your manager", belief="you said no")
    told = explain(Laplace(scale=2), reader=reader).sections[0].sentences
    assert told[0] == (
        "If you do not take part, 39 of 100 possible reports would lead your manager to believe you said no;"
        " if you do, 61 of 100."
    )
    assert told[1:] == (ENGLISH.odds_rest, ENGLISH.odds_own)


def test_any_mechanism_with_that_promise_is_labelled_so() -> None:
    told = explain(PureDP(0.5))
    assert told.odds == Odds(38, 62, 100)
    assert told.sections[0].sentences[2] == ENGLISH.odds_any


@pytest.mark.parametrize(
    ("guarantee", "right"),
    [
        (PureDP(0.5), math.exp(0.5) / (1 + math.exp(0.5))),
        (ApproxDP(1, 1e-2), (math.exp(1) + 1e-2) / (1 + math.exp(1))),
        (GDP(1), NormalDist().cdf(0.5)),
    ],
)
def test_the_best_guess_at_even_odds(guarantee: PureDP | ApproxDP | GDP, right: float) -> None:
    found = success(account(Claimed(guarantee)))
    assert right <= found <= right * (1 + 1e-9)


def test_a_tiny_loss_is_shown_among_more_reports() -> None:
    found = odds(account(Laplace(scale=1000)))
    assert found == Odds(4998, 5002, 10_000)
    assert odds(account(Claimed(PureDP(0)))) == Odds(50, 50, 100)
    assert odds(account(Claimed(PureDP(30)))) == Odds(0, 100, 100)


@pytest.mark.parametrize(("rate", "scale"), [(0.01, 1), (0.1, 0.8), (0.5, 1), (0.5, 0.1), (0.1, 0.5)])
def test_the_two_numbers_of_a_sampled_step(rate: float, scale: float) -> None:
    """A step speaks for a person exactly when it is above ½, whatever the rate is."""
    absent = NormalDist().cdf(-0.5 / scale)
    present = (1 - rate) * absent + rate * NormalDist().cdf(0.5 / scale)
    told = odds(account(Gaussian(scale=scale).sampled(rate=rate)))
    assert told == Odds(round(told.of * absent), round(told.of * present), told.of)


def test_the_two_numbers_of_a_training() -> None:
    """Half a million simulated trainings of 20 steps; each rate is off by more than 0.5 % with chance below 1e-11."""
    rate, scale, steps, many = 0.05, 0.6, 20, 500_000
    random = np.random.default_rng(0)
    raised = []
    for present in (False, True):
        loss = np.zeros(many)
        for _ in range(steps):
            step = random.normal(0, scale, many) + (present & (random.random(many) < rate))
            loss += np.log1p(rate * np.expm1((2 * step - 1) / (2 * scale * scale)))
        raised.append(100 * float(np.mean(loss > 0)))
    told = odds(account(dpsgd(noise_multiplier=scale, rate=rate, steps=steps)))
    assert (told.of, told.give_or_take) == (100, 0)
    assert told.without == pytest.approx(raised[0], abs=1)
    assert told.with_you == pytest.approx(raised[1], abs=1)
    assert told.without + told.with_you < 90


def test_ties_are_split_where_the_worlds_are_mirror_images() -> None:
    assert odds(account(RandomizedResponse(epsilon=1, categories=4))) == Odds(35, 65, 100)


def test_posterior_of_a_pure_promise() -> None:
    after = 0.1 * math.exp(0.5) / (1 + 0.1 * math.expm1(0.5))
    assert 15.5 - 0.1 < 100 * after <= 15.5
    told = explain(PureDP(0.5, unit="patient_id"), prior=0.1).sections[0].sentences[-1]
    fallen = 0.1 * math.exp(-0.5) / (1 + 0.1 * math.expm1(-0.5))
    assert 6.3 <= 100 * fallen < 6.4
    assert told == (
        "Whoever starts out 10 % sure about one patient ends between 6.3 % and 15.5 % sure, whatever is published."
    )


def test_the_gaussian_quantile_is_for_gaussian_noise_alone() -> None:
    """For a promise of μ-GDP a mechanism exists whose loss exceeds the Gaussian's quantile more often.

    Merge all outputs of N(1, 1) against N(0, 1) above c into one: the merged loss is the log of the ratio of the tails,
    which lies above the loss at c. So the loss exceeds that level with the probability of the whole tail, more than the
    Gaussian's own loss does.
    """
    failure = Fraction(1, 1000)
    normal = NormalDist()
    cut = -normal.inv_cdf(float(failure))  # the tail of N(1, 1) above 1 + cut has probability `failure`
    tail = normal.cdf(-cut) / normal.cdf(-cut - 1)
    merged = 1 / (1 + 9 / tail)
    exact = gaussian_posterior(Fraction(1), prior=0.1, failure=failure)
    promised = beliefs(account(Claimed(GDP(1))), prior=0.1, own=False)[2].most
    assert exact == pytest.approx(1 / (1 + 9 * math.exp(-(0.5 + cut))), rel=1e-9)
    assert exact < merged <= promised
    assert beliefs(account(Gaussian(scale=1)), prior=0.1, own=True)[2].most == exact


def test_delta_is_read_as_a_chance_of_larger_odds() -> None:
    """P[L > ε + ln 2] ≤ 2δ (theory: δ/(1 − e^{ε−t}) at t = ε + ln 2)."""
    told = explain(ApproxDP(1, 1e-3), reader=Analyst())
    sentence = next(s for section in told.sections for s in section.sentences if s.startswith("δ = "))
    assert "1 − 0.002" in sentence
    assert "a factor of 5.44" in sentence  # 2e = 5.4366, rounded up


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(
    "what",
    [
        Laplace(scale=2),
        Gaussian(scale=2) * 3,
        RandomizedResponse(epsilon=1),
        PureDP(1, unit="patient_id"),
        ApproxDP(1, 1e-6, relation=Relation.ZERO_OUT),
        GDP(0.5),
        account(Laplace(scale=1)),
        Description("visits by city", PureDP(1), (("noise", "discrete Laplace"),), account(Laplace(scale=1))),
    ],
)
def test_every_subject_for_every_reader(what: object, reader: object) -> None:
    told = explain(what, prior=0.2, reader=reader)  # type: ignore[arg-type]
    text = str(told)
    assert not set("{}") & set(text)
    assert all(len(line) <= 110 for line in text.splitlines())
    assert told.odds.without + told.odds.with_you == told.odds.of
    assert told.to_dict()["title"] == told.title
    assert told._repr_html_().count("<svg") >= 1


def test_a_description_brings_its_own_curve() -> None:
    own = Description("count", PureDP(0.5), (), account(Laplace(scale=2)))
    assert explain(own).odds == Odds(39, 61, 100)
    assert explain(Description("count", PureDP(0.5))).odds == Odds(38, 62, 100)


def test_another_language_is_another_set_of_texts() -> None:
    """Every field of Texts is used by name; a translation keeps the names in braces."""
    names = {
        field.name: {n for _, n, _, _ in string.Formatter().parse(text) if n}
        for field in fields(Texts)
        if isinstance(text := getattr(ENGLISH, field.name), str)
    }
    assert names["prior"] == {"prior", "unit", "least", "most"}
    assert names["delta"] == {"delta", "kept", "unit", "factor"}
    for text in ENGLISH.odds.values():
        assert {n for _, n, _, _ in string.Formatter().parse(text) if n} == {
            "without", "with_you", "of", "observer", "belief",
        }  # fmt: skip


def _names(text: object) -> object:
    """The names in braces, of a sentence or of several."""
    if isinstance(text, str):
        return {name for _, name, _, _ in string.Formatter().parse(text) if name}
    if isinstance(text, dict):
        return {key: _names(value) for key, value in text.items()}
    return [_names(one) for one in text] if isinstance(text, tuple) else None


@pytest.mark.parametrize("language", [name for name in LANGUAGES if name != "en"])
def test_a_translation_has_every_sentence_with_its_names(language: str) -> None:
    """Units, which have nouns of their own, and the unit in a sentence, are the language's matter."""
    there = texts_in(language)
    assert there.language == language
    assert there.groups is not None
    assert ENGLISH.groups is not None
    for words, others in ((there, ENGLISH), (there.groups, ENGLISH.groups)):
        for field in fields(Texts):
            if field.name in ("units", "language", "labels", "groups", "unit_person"):
                continue
            assert _names(getattr(words, field.name)) == _names(getattr(others, field.name)), field.name
        for field in fields(Labels):
            assert _names(getattr(words.labels, field.name)) == _names(getattr(others.labels, field.name)), field.name
        assert {"", "row", "record", "group"} <= set(words.units)
    same = {f.name for f in fields(Texts) if getattr(there, f.name) == getattr(ENGLISH, f.name)}
    assert same <= {"page_release", "page_audits"}


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_page_in_every_language(language: str) -> None:
    entry = Entry("2026-11-01T09:00:00Z", "ann", "SELECT COUNT(*) AS n, AVG(x) AS m FROM t", Gaussian(scale=2))
    for what in (ApproxDP(1, 1e-6, unit="patient_id"), for_group(PureDP(1), 3), Gaussian(scale=2)):
        page = Report.about(what, entries=[entry], texts=texts_in(language)).to_html()
        assert f'<html lang="{language}">' in page
        assert not set("{}") & set(re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL))
        if language != "en":
            assert not re.search(r"\b(?:one (?:patient|record|in)|added or removed|the|which|people)\b", _visible(page))


def _visible(page: str) -> str:
    """The visible text, without the names of methods and events, which are the same in every language."""
    text = re.sub(r"<style>.*?</style>|<td class=\"(?:event|by)\">.*?</td>|<[^>]*>", " ", page, flags=re.DOTALL)
    return re.sub(r"closed form[^.<]*|of the bound[^.<]*", " ", text)


def test_no_other_language() -> None:
    with pytest.raises(InvalidArgument, match="de, fr"):
        texts_in("xx")


GROUPS = [
    for_group(PureDP(1, unit="patient_id"), 3),
    for_group(ApproxDP(1, 1e-6, unit="row"), 3),
    for_group(GDP(1, relation=Relation.REPLACE), 3),
    Gaussian(scale=5).for_group(3),
    account(Laplace(scale=5, relation=Relation.ZERO_OUT).for_group(3) * 2),
]


def about_one(text: str) -> list[str]:
    """Where a text speaks of a single unit: "you", "a row", "one patient", but for "one patient alone"."""
    you = r"\bwithout you\b|\b[Ii]f you |\byou took\b|\byour (?:answer|data)\b"
    one = r"\bone (?:record|row|patient|person)\b(?! alone)|\bEvery row\b|\bis a row\b"
    return re.findall(f"{you}|{one}", text)


@pytest.mark.parametrize("what", GROUPS, ids=str)
def test_what_is_promised_to_a_group_is_said_of_a_group(what: Explainable) -> None:
    entry = Entry("2026-11-01T09:00:00Z", "ann", "visits", Gaussian(scale=2).for_group(3))
    told = [str(explain(what, reader=reader, prior=0.1)) for reader in READERS]
    told += [explain(what, prior=0.1)._repr_html_(), Report.about(what, entries=[entry]).to_html(), html(what) or ""]
    for text in told:
        assert "a group of 3 " in text or "your group" in text
        assert about_one(text) == []
    assert "your group" in told[0]


def test_what_is_promised_to_one_is_not_said_of_a_group() -> None:
    """The search above finds what it looks for, and a group of one is nobody but you."""
    for what in (PureDP(1, unit="patient_id"), ApproxDP(1, 1e-6, unit="row"), Gaussian(scale=5).for_group(1)):
        page = Report.about(what).to_html()
        assert len(about_one(page)) >= 5
        assert "group" not in page


@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_about_groups_take_the_same_names(language: str) -> None:
    """But for the unit, which a sentence about one person need not name."""
    texts = texts_in(language)
    assert texts.groups is not None
    for words, others in ((texts, texts.groups), (texts.labels, texts.groups.labels)):
        for field in fields(words):
            if field.name not in ("labels", "groups", "units"):
                one, many = (re.sub("'(unit|noun)'", "", str(_sorted(getattr(w, field.name)))) for w in (words, others))
                assert one.replace(", ", "") == many.replace(", ", ""), field.name


def _sorted(text: object) -> object:
    """The names of a sentence or of several, in a fixed order."""
    found = _names(text)
    if isinstance(found, set):
        return sorted(found)
    return {k: _sorted(v) for k, v in text.items()} if isinstance(text, dict) else found


def test_a_page_in_another_language() -> None:
    """Every word of the page comes from its texts: with marks around each, none is left without."""
    said = {field.name: getattr(ENGLISH, field.name) for field in fields(Texts)}
    marks = {
        n: f"«{text}»"
        for n, text in said.items()
        if n.startswith(("page_", "heading_", "edge_")) and isinstance(text, str)
    }
    words = {field.name: getattr(ENGLISH.labels, field.name) for field in fields(Labels)}
    drawn = replace(ENGLISH.labels, **{n: f"«{text}»" for n, text in words.items() if isinstance(text, str)})
    marked = replace(ENGLISH, language="xx", labels=drawn, **marks)
    entry = Entry("2026-11-01T09:00:00Z", "ann", "visits", Gaussian(scale=2))
    page = Report.about(ApproxDP(1, 1e-6), entries=[entry], texts=marked).to_html()
    assert '<html lang="xx">' in page
    headings = re.findall(r"<h[23]>(.*?)</h[23]>", page)
    assert len(headings) >= 8
    assert all(heading.startswith("«") for heading in headings)
    assert "<footer><p>«" in page
    edges = re.findall(r"<li>(.*?)</li>", page)
    assert len(edges) == 2
    assert all(edge.startswith("«") for edge in edges)
    pictures = re.findall(r"<desc>(.*?)</desc>", page)
    assert len(pictures) == 5
    assert all(alt.startswith("«") for alt in pictures)


@pytest.mark.parametrize("prior", [0, 1, -0.1, 2, math.nan])
def test_a_prior_is_a_chance(prior: float) -> None:
    with pytest.raises(InvalidArgument, match="prior"):
        explain(PureDP(1), prior=prior)


def test_what_cannot_be_explained() -> None:
    with pytest.raises(InvalidArgument, match="describe"):
        explain(3.0)  # type: ignore[arg-type]
