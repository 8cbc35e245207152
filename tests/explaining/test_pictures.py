"""The pictures: each of them in SVG and in Matplotlib, with words, inside its frame, on the safe side."""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import fields, replace
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from deniable.accounting import account
from deniable.auditing import AuditReport, Point
from deniable.errors import InvalidArgument
from deniable.events import Claimed, Gaussian, Laplace, RandomizedResponse, dpsgd
from deniable.explaining import curves, illustrations
from deniable.explaining.audits import audit_figure, audit_tradeoff
from deniable.explaining.figures import Figure, Interval
from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.explaining.odds import icon_array, odds
from deniable.explaining.report import value_figures
from deniable.explaining.svg import COLOURS, INK, render
from deniable.guarantees import ApproxDP, PureDP, TradeOff
from deniable.mechanisms import mean
from deniable.textbook import compare_theorems
from tests.explaining.looking import OUTSIDE, OVERLAPS, PHONE, REPORT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FIGURES: dict[str, Figure] = {
    "trade-off": curves.tradeoff_figure({"Laplace": account(Laplace(2))}),
    "profile": curves.profile_figure({"Gaussian": account(Gaussian(1))}),
    "belief": curves.belief_figure(account(Gaussian(1))),
    "comparison": curves.comparison_figure(compare_theorems(PureDP(0.1), counts=[1, 10, 100, 1000], delta=1e-3)),
    "loss": illustrations.loss_figure(RandomizedResponse(0.1) * 1000),
    "threshold": illustrations.threshold_figure(mu=1.5, threshold=1),
    "one promise": illustrations.promise_figure(ApproxDP(1, 1e-5)),
    "forms": illustrations.forms_figure(compare_theorems(PureDP(0.1), counts=[100], delta=1e-3)),
    "accuracy": illustrations.accuracy_figure(mean, settings={"bounds": (0, 1), "relation": "replace"}),
    "charges": curves.charges_figure({f"2026-11-{day:02d}": day for day in range(1, 29)}),
    "values": curves.intervals_figure("visits", [Interval("a long name for a ward <1>", 3, 1, 5)], x_label="visits"),
    "odds": icon_array(odds(account(Laplace(2)))),
    "audit": audit_figure(REPORT.curve, verdict=REPORT.verdict),
    "audited trade-off": audit_tradeoff(REPORT),
}


def test_a_picture_in_another_language() -> None:
    """Every word comes from the labels: with marks around each, no letters are left without.

    What stays is mathematics, and what people, columns and theorems are called: here, numbers.
    """
    words = {field.name: getattr(ENGLISH_LABELS, field.name) for field in fields(Labels)}
    marks: dict[str, Any] = {n: f"«{text}»" for n, text in words.items() if isinstance(text, str)}
    labels = replace(ENGLISH_LABELS, **marks, verdicts={"refuted": "«refuted»"})
    profile, steps = account(Gaussian(1)), compare_theorems(PureDP(0.1), counts=[1, 10], delta=1e-3)
    unnamed = replace(steps, step="0.1", lines=tuple(replace(line, theorem="1") for line in steps.lines))
    columns = {"0": ["1"] * 50, "n": [9.0] * 50, "n_low": [7.0] * 50, "n_high": [11.0] * 50}
    drawn: list[Any] = [
        curves.tradeoff_figure({"1": profile}, labels=labels),
        curves.profile_figure({"1": profile}, labels=labels),
        curves.belief_figure(profile, labels=labels),
        curves.belief_figure(account(Laplace(1)), labels=labels),
        curves.comparison_figure(unnamed, labels=labels),
        illustrations.loss_figure(Gaussian(1), labels=labels),
        illustrations.threshold_figure(mu=1, labels=labels),
        illustrations.forms_figure(unnamed, labels=labels),
        illustrations.accuracy_figure(
            mean, sizes=[9], epsilons=[1, 2], settings={"bounds": (0, 1), "relation": "replace"}, labels=labels
        ),
        curves.charges_figure({"2026-11-15": 3}, labels=labels),
        icon_array(odds(profile), labels=labels),
        audit_figure(REPORT.curve, verdict=REPORT.verdict, labels=labels),
        audit_tradeoff(REPORT, labels=labels),
        *value_figures(SimpleNamespace(confidence=Fraction(1, 2), columns=columns), labels=labels),
    ]
    assert len(drawn) == 14
    for figure in drawn:
        said = [figure.title, figure.alt, getattr(figure, "x_label", ""), getattr(figure, "y_label", "")]
        said += [line.label for line in getattr(figure, "lines", ())]
        said += [name for name, _ in getattr(figure, "shares", ())]
        for text in said:
            bare, before = text, ""
            while bare != before:
                bare, before = re.sub("«[^«»]*»", "", bare), bare
            assert not re.search("[A-Za-z]{2}", bare), text


@pytest.mark.parametrize("name", FIGURES)
def test_every_picture_has_words_and_stays_inside(browser: Browser, name: str) -> None:
    drawn = render(FIGURES[name])
    tree = ElementTree.fromstring(drawn)
    space = "{http://www.w3.org/2000/svg}"
    assert tree.findtext(f"{space}title") == FIGURES[name].title
    assert (tree.findtext(f"{space}desc") or "") == FIGURES[name].alt != ""
    page = browser.new_page(viewport={"width": PHONE, "height": 800})
    page.set_content(drawn)
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(OUTSIDE) == []
    page.close()


def test_the_icon_array_counts() -> None:
    drawn = render(FIGURES["odds"])
    assert drawn.count(f'fill="{COLOURS[0]}"') == 39 + 61
    part = render(icon_array(odds(account(Laplace(1000)))))
    assert re.findall(r'width="(\d+\.\d+)" height="20"', part)[-1] == "0.36"  # 50.02 of 100: two hundredths of a person


def test_contrast_on_white() -> None:
    """WCAG 2: text and lines at 4.5 to 1 or more."""
    for colour in (*COLOURS, INK):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        light = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
        assert 1.05 / (light + 0.05) >= 4.5, colour


def test_the_drawn_trade_off_never_promises_more_than_the_profile() -> None:
    profile = account(Gaussian(1))
    (line, _) = curves.tradeoff_figure({"g": profile}).lines
    for rate, missed in zip(line.xs, line.ys, strict=True):
        assert missed <= profile.tradeoff(rate) + 1e-12
        assert missed >= profile.tradeoff(rate) - 0.02


@pytest.mark.parametrize("name", FIGURES)
def test_matplotlib_draws_the_same_figures(name: str, tmp_path: Path) -> None:
    from deniable.explaining.plots import save

    save(FIGURES[name], tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000


def test_the_drawn_loss_of_many_small_steps_tends_to_its_normal_limit() -> None:
    """Rounding each of ten thousand steps to a grid would move the whole curve by a standard deviation."""
    for event in (RandomizedResponse(0.01) * 10_000, dpsgd(noise_multiplier=1, rate=0.01, steps=10_000)):
        own, limit = illustrations.loss_figure(event).lines
        assert max(abs(a - b) for a, b in zip(own.ys, limit.ys, strict=True)) < 0.04 * max(limit.ys)


def test_the_drawn_errors_are_those_of_the_test() -> None:
    for threshold in (-1.0, 0.3, 2.0):
        *_, positives, negatives = illustrations.threshold_figure(mu=1, threshold=threshold).lines
        for line, rate in ((positives, 1 - NormalDist().cdf(threshold)), (negatives, NormalDist(1).cdf(threshold))):
            steps = [b - a for a, b in itertools.pairwise(line.xs)]
            area = sum(d * (a + b) / 2 for d, (a, b) in zip(steps, itertools.pairwise(line.ys), strict=True))
            assert area == pytest.approx(rate, abs=1e-3)
            assert line.label.endswith(f"{100 * rate:.2g} %")


def test_what_has_no_picture_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="never infinite"):
        illustrations.loss_figure(Claimed(ApproxDP(1, 0.1)))
    with pytest.raises(InvalidArgument, match="threshold"):
        illustrations.threshold_figure(mu=1, threshold=9)
    with pytest.raises(InvalidArgument, match="epsilons"):
        illustrations.accuracy_figure(mean, epsilons=[1], settings={"bounds": (0, 1), "relation": "replace"})


def test_a_refuted_claim_is_drawn_above_the_finding() -> None:
    claimed, found, guessing = audit_tradeoff(REPORT).lines
    below = TradeOff([*zip(found.xs, found.ys, strict=True)])
    for rate, missed in zip(claimed.xs[1:-1], claimed.ys[1:-1], strict=True):
        assert below(rate) < missed
    assert "ε ≥ 1.50 at δ = 0" in found.label
    assert guessing.dashed


def test_a_consistent_claim_is_drawn_below_the_finding() -> None:
    report = replace(REPORT, verdict="consistent", lower=0.6, curve=(Point(0.0, 0.5, 1.0), Point(0.01, 0.7, 0.98)))
    claimed, found, _ = audit_tradeoff(report).lines
    above = TradeOff([*zip(found.xs, found.ys, strict=True)])
    for rate, missed in zip(claimed.xs, claimed.ys, strict=True):
        assert above(rate) >= missed
    assert "ε ≥ 0.60 at δ = 0" in found.label


def test_the_finding_is_the_curve_of_its_epsilon() -> None:
    """Corners of max(0, 1 − δ − e^ℓ α, e^{−ℓ}(1 − δ − α)) at ℓ = 1.5, δ = 0: the two lines meet at 1/(1 + e^ℓ)."""
    _, found, _ = audit_tradeoff(REPORT).lines
    corner = 1 / (1 + math.exp(1.5))
    assert found.xs[1] == pytest.approx(corner, rel=1e-12)
    assert found.ys[1] == pytest.approx(corner, rel=1e-12)
    assert found.ys[1] >= corner, "a finding is drawn on the side that says less"


def test_a_report_read_back_draws_the_same() -> None:
    assert audit_tradeoff(AuditReport.from_json(REPORT.to_json())) == audit_tradeoff(REPORT)


def test_everything_is_leaked() -> None:
    drawn = render(audit_tradeoff(replace(REPORT, lower=math.inf, curve=())))
    assert "ε ≥ ∞" in drawn


def test_a_release_is_drawn_number_by_number() -> None:
    columns = {
        "city": ["Bern", "<b>"], "year": [1, 2], "n": [3, 4], "n_low": [1, 2], "n_high": [5, math.inf],
        "s": [9.5, 1.5], "s_low": [9.0, 1.0], "s_high": [10.0, 2.0],
        }  # fmt: skip
    release = SimpleNamespace(confidence=Fraction(9, 10), columns=columns)

    first, second = value_figures(release)
    assert [row.name for row in first.rows] == ["Bern, 1"], "an endless interval is not drawn"
    assert [row.value for row in second.rows] == [9.5, 1.5]
    assert first.x_label == "with 90 % intervals"
    assert "<b>" not in render(second)
