"""Lecture 001: advanced composition, Rényi DP, statistical learning."""

from __future__ import annotations

import math

import numpy as np
from scipy import stats

import deniable as dn
from deniable import conversions, textbook
from deniable.auditing import demonstrations
from deniable.guarantees import RDP, ApproxDP, PureDP
from docs.notes.items import DIFFERS, LEFT_OUT, Item, Lecture, Section

COMPOSITION = "textbook/test_composition.py"
DIVERGENCES = "textbook/test_divergences.py"
CHOICES = "textbook/test_choices.py"
ERRATA = "accounting/test_errata.py"

ADVANCED = Section(
    "Advanced composition",
    (
        Item(
            "Theorem", "advanced composition of ε-DP mechanisms",
            "k of them are (kε²/2 + ε√(2k ln(1/δ)), δ)-DP for every δ in (0, 1).",
            printed="kε²/2 + ε√(2k ln 1/δ)",
            code="textbook.advanced_half",
            test=f"{COMPOSITION}::test_the_forms_are_ordered_and_never_beat_the_optimum",
            ours=lambda: "k = 100, ε = 0.1, δ = 1e-6: "
            f"{_epsilon(textbook.advanced_half(PureDP(0.1), count=100, slack=1e-6)):.3f}; the optimum over all theorems is "
            f"{textbook.repeat_optimal(PureDP(0.1), count=100).epsilon(1e-6):.3f}",
        ),
        Item(
            "Remark", "pure mechanisms compose to an approximate promise",
            "Allowing δ > 0 buys growth like √k, which basic composition cannot give.",
            code="textbook.repeat_advanced", test=f"{COMPOSITION}::test_the_split_budget_fits",
            ours=lambda: f"k = 1000, ε = 0.1: {_epsilon(textbook.repeat_basic(PureDP(0.1), count=1000)):g} by adding, "
            f"{_epsilon(textbook.repeat_advanced(PureDP(0.1), count=1000, slack=1e-6)):.2f} at δ = 1e-6",
        ),
        Item(
            "Comparison", "k queries by basic composition",
            "Each query of sensitivity 1 gets ε/k, so Laplace noise of scale k/ε.",
            code="textbook.repeat_basic", test=f"{COMPOSITION}::test_basic_sums_are_exact",
            ours=lambda: "k = 100 shares of 0.01 add up to ε = "
            f"{_epsilon(textbook.repeat_basic(PureDP(0.01), count=100)):g}, exactly",
        ),
        Item(
            "Comparison", "k queries by advanced composition",
            "Each query gets a larger share, about ε/√(2k ln(1/δ)).",
            printed="ε₀ = ε/√(2k ln 1/δ)",
            code="textbook.per_query_budget", test=f"{ERRATA}::test_001_the_split_that_ignores_a_term_overspends",
            ours=lambda: "k = 100, ε = 1, δ = 1e-6: ε₀ = "
            f"{_epsilon(textbook.per_query_budget(ApproxDP(1, 1e-6), count=100)):.6f}, printed {_printed_share():.6f}",
            verdict=DIFFERS,
            note="the printed share spends ε + ε²/(4 ln(1/δ)), more than ε. "
            "√(2/k)·(√(ln(1/δ) + ε) − √ln(1/δ)) spends exactly ε.",
        ),
        Item(
            "Comparison", "the variance saved",
            "2k²/ε² by basic composition against about 4k ln(1/δ)/ε²: a gain of k/(2 ln(1/δ)), and none below k = 2 ln(1/δ).",
            code="textbook.per_query_budget", test=f"{COMPOSITION}::test_the_split_budget_fits",
            ours=lambda: "variance by basic over variance by advanced composition at ε = 1, δ = 1e-6: " + ", ".join(
                f"k = {k:,}: {(k * _epsilon(textbook.per_query_budget(ApproxDP(1, 1e-6), count=k))) ** 2:.2f}"
                for k in (10, 100, 10_000)
            ),
        ),
        Item(
            "Why?", "the term that is left over",
            "With the printed share the first term is ε²/(4 ln(1/δ)).",
            printed="ε²/(4 ln 1/δ) ≈ ε²/60",
            code="textbook.per_query_budget", test=f"{ERRATA}::test_001_the_split_that_ignores_a_term_overspends",
            ours=lambda: f"at δ = 1e-6: ε²/{4 * math.log(1e6):.1f}; the sum at ε = 1 is {1 + 1 / (4 * math.log(1e6)):.4f}",
            verdict=DIFFERS, note="ε²/55.3 at δ = 1e-6 (ε²/60 is at δ = 3e-7); small, but it is spent.",
        ),
        Item(
            "Remark", "ignoring the first term", "If kε² is small the term may be ignored.",
            printed="ε = ε₀√(2k ln 1/δ)",
            code="textbook.per_query_budget", test=f"{COMPOSITION}::test_the_split_of_the_theory_sheet",
            verdict=DIFFERS, note="a promise may not ignore it: the ledger would be overdrawn. No form here drops it.",
        ),
        Item(
            "Remark", "ε grows more slowly than k",
            "Composition costs about √k for small steps.",
            code="textbook.compare_theorems", test="textbook/test_compare.py::test_no_theorem_beats_the_accountant",
            ours=lambda: "optimal ε of k steps of 0.1 at δ = 1e-6: " + ", ".join(
                f"k = {k}: {textbook.repeat_optimal(PureDP(0.1), count=k).epsilon(1e-6):.2f}" for k in (25, 100, 400)
            ),
        ),
        Item(
            "Theorem", "advanced composition of (ε, δ)-DP mechanisms",
            "k of them are (kε²/2 + ε√(2k ln(1/δ′)), kδ + δ′)-DP for every δ′ in (0, 1).",
            code="textbook.advanced_half", test=f"{COMPOSITION}::test_the_forms_are_ordered_and_never_beat_the_optimum",
            ours=lambda: "100 times (0.1, 1e-8) with δ′ = 1e-6: "
            f"{textbook.advanced_half(ApproxDP(0.1, 1e-8), count=100, slack=1e-6)}",
        ),
        Item(
            "Example", "k Gaussian mechanisms",
            "Each is (ε₀, δ₀)-DP by the classic formula; the whole must be (ε, δ). With δ′ = δ/2 each has δ₀ = δ/(2k).",
            code="textbook.split_variance", test=f"{CHOICES}::test_the_slack_of_the_notes_and_the_best",
            ours=lambda: f"k = 100, ε = 1, δ = 1e-6: variance {textbook.split_variance(ApproxDP(1, 1e-6), count=100, slack=5e-7):,.0f} with δ′ = δ/2; composed as Gaussians it is {float(textbook.scale_per_query(conversions.gaussian_claim_to_gdp(ApproxDP(1, 1e-6)), count=100)) ** 2:,.0f}",
        ),
        Item(
            "Example", "δ′ is ours to choose",
            "Another choice, δ′ = δ₀, that is δ/(k + 1) each, needs more noise. The best δ′ lies a little above δ/2.",
            printed="(4k/ε²)·ln²((k + 1)/δ), strictly worse",
            code="textbook.best_slack", test=f"{CHOICES}::test_the_slack_of_the_notes_and_the_best",
            ours=lambda: f"variance at k = 100, ε = 1, δ = 1e-6: {textbook.split_variance(ApproxDP(1, 1e-6), count=100, slack=1e-6 / 101):,.0f} with δ/(k + 1), {textbook.split_variance(ApproxDP(1, 1e-6), count=100, slack=5e-7):,.0f} with δ/2, {textbook.split_variance(ApproxDP(1, 1e-6), count=100, slack=_best()):,.0f} at the best, "
            f"δ′ = {_best():.3g}",
        ),
    ),
)  # fmt: skip

RENYI = Section(
    "Rényi DP and composition",
    (
        Item(
            "Recall", "privacy as a small hockey-stick divergence",
            "(ε, δ)-DP bounds ∫(P − e^ε Q)₊ in both directions.",
            code="textbook.hockey_stick", test=f"{DIVERGENCES}::test_closed_forms",
            ours=lambda: "N(1, 1) against N(0, 1) at ε = 1, by integration: "
            f"{textbook.hockey_stick(stats.norm(1), stats.norm(0), epsilon=1):.6f}; by the accountant "
            f"{dn.account(dn.Gaussian(1)).delta(1):.6f}",
        ),
        Item(
            "Recall", "total variation does not work",
            "Publishing one record at random changes the output's law by 1/n only, and exposes somebody every time.",
            code="textbook.random_record_laws", test=f"{DIVERGENCES}::test_publishing_a_random_record",
            ours=lambda: f"n = 1000: total variation {textbook.total_variation(*textbook.random_record_laws(1000)):.3f}, δ(0) = {textbook.hockey_stick(*textbook.random_record_laws(1000), epsilon=0):.3f}, δ(10) = {textbook.hockey_stick(*textbook.random_record_laws(1000), epsilon=10):.3f}: no ε helps",
        ),
        Item(
            "Definition", "Rényi DP (Mironov 2017)", "(α, ξ)-RDP for α > 1: D_α(M(D)‖M(D′)) ≤ ξ.",
            code="guarantees.RDP", test="conversions/test_bounds.py::test_rdp_reference",
        ),
        Item(
            "Theorem", "chain rule of Rényi divergences",
            "D_α of the pair lies between D_α of the first part plus the smallest, and plus the largest, conditional D_α.",
            printed="garbled: “D(P‖Q) + min … < … + max”",
            code="textbook.renyi_divergence", test=f"{DIVERGENCES}::test_the_chain_rule",
            ours=lambda: _chain_rule(),
            verdict=DIFFERS, note="D(P_X‖Q_X) + min_x D(P_Y│x‖Q_Y│x) ≤ D(P_XY‖Q_XY) ≤ D(P_X‖Q_X) + max_x D(P_Y│x‖Q_Y│x).",
        ),
        Item(
            "Theorem", "equality for products", "For independent parts the divergences add.",
            code="textbook.renyi_divergence", test=f"{DIVERGENCES}::test_the_chain_rule",
        ),
        Item(
            "Theorem", "RDP composes adaptively", "(α, ξ₁) and (α, ξ₂) give (α, ξ₁ + ξ₂).",
            code="textbook.compose_rdp",
            test="textbook/test_renyi.py::test_composition_adds_and_the_best_order_is_near_the_bound",
            ours=lambda: f"0.5 and 0.25 at α = 8: {float(textbook.compose_rdp([[RDP(8, 0.5)], [RDP(8, 0.25)]])[0].epsilon):g}",
        ),
        Item(
            "Statement", "k-fold composition", "(α, ξ) becomes (α, kξ).",
            code="textbook.repeat_rdp",
            test="textbook/test_renyi.py::test_composition_adds_and_the_best_order_is_near_the_bound",
            ours=lambda: f"100 times 0.05 at α = 8: {float(textbook.repeat_rdp([RDP(8, 0.05)], count=100)[0].epsilon):g}",
        ),
        Item(
            "Limitation", "RDP has no testing meaning",
            "No test reaches D_α: hypothesis tests see two outcomes, and D_α needs all of them (Balle et al.).",
            code="textbook.binary_test_divergence", test=f"{DIVERGENCES}::test_no_test_reaches_a_renyi_divergence",
            ours=lambda: "largest D_α of any test between N(0, 1) and N(1, 1), of the whole: " + ", ".join(
                f"α = {order}: {textbook.binary_test_divergence(1, order=order):.3f} of {order / 2:g}" for order in (2, 4, 8)
            ),
        ),
        Item(
            "Theorem", "from RDP to (ε, δ)-DP", "ε = ξ + ln(1/δ)/(α − 1).",
            printed="ξ + ln(1/δ)/(α − 1)",
            code="conversions.rdp_to_approx_classic", test="conversions/test_bounds.py::test_rdp_reference",
            ours=lambda: "α = 8, ξ = 0.5, δ = 1e-6: "
            f"{_epsilon(conversions.rdp_to_approx_classic(RDP(8, 0.5), delta=1e-6)):.4f}; the better conversion gives "
            f"{_epsilon(conversions.rdp_to_approx(RDP(8, 0.5), delta=1e-6)):.4f}",
        ),
        Item(
            "Remark", "the moments accountant",
            "The best order of the composed Rényi curve, converted by the theorem above.",
            code="textbook.moments_accountant",
            test="textbook/test_renyi.py::test_composition_adds_and_the_best_order_is_near_the_bound",
            ours=lambda: f"rate 0.01, noise multiplier 1, 1000 steps, δ = 1e-5: ε ≤ {_epsilon(textbook.moments_accountant(_sampled_curve(), delta=1e-5)):.3f}; integrated losses give {dn.account(dn.dpsgd(noise_multiplier=1, rate=0.01, steps=1000)).epsilon(1e-5):.3f}",
        ),
    ),
)  # fmt: skip

LEARNING = Section(
    "Statistical learning",
    (
        Item(
            "Set-up", "features, labels, classifiers",
            "A classifier is a conditional law of the label given the features, with parameters θ in ℝᵈ.",
            code="learning.LogisticRegression", test="learning/test_estimators.py::test_log_probabilities_are_logarithms",
        ),
        Item(
            "Set-up", "loss functions", "ℓ(θ, (x, y)) says how badly θ describes the record.",
            code="learning.losses.Squared", test="learning/test_losses.py::test_constants_are_attained",
        ),
        Item(
            "Example 1", "linear regression: loss", "ℓ = (y − ⟨θ, x⟩)², here with a factor ½.",
            code="learning.losses.Squared", test="learning/test_losses.py::test_constants_of_linear_losses_hold",
        ),
        Item(
            "Example 1", "linear regression: the goal", "The θ with the smallest sum of losses.",
            code="learning.LinearRegression", test="learning/test_estimators.py::test_regression_finds_slope_and_intercept",
        ),
        Item(
            "Example 2", "logistic regression",
            "Labels ±1 with P[y = 1] = 1/(1 + e^{−⟨θ, x⟩}); the loss is ln(1 + e^{−y⟨θ, x⟩}).",
            code="learning.losses.Logistic", test="learning/test_losses.py::test_logistic_against_mpmath",
            ours=lambda: f"at margin 1: {math.log1p(math.exp(-1)):.4f}",
        ),
        Item(
            "Example 3", "support vector machine: zero-one loss", "1 where the sign is wrong.",
            verdict=LEFT_OUT,
            note="it is neither convex nor Lipschitz, so no theorem here covers it; `score` reports it as accuracy.",
        ),
        Item(
            "Example 3", "support vector machine: hinge loss", "max(0, 1 − y⟨θ, x⟩), convex.",
            code="learning.losses.Hinge", test="learning/test_losses.py::test_constants_of_linear_losses_hold",
        ),
        Item(
            "Example 4", "geometric median", "ℓ = ‖θ − x‖: no label; the minimiser is the geometric median.",
            code="learning.GeometricMedian", test="learning/test_estimators.py::test_the_median_does_not_follow_far_points",
        ),
        Item(
            "Definition", "empirical risk minimisation", "θ* minimises the sum of losses over the data.",
            code="learning.OutputPerturbation",
            test="learning/test_neighbours.py::test_minimisers_of_the_worst_neighbours_are_as_far_apart_as_declared",
        ),
        Item(
            "Warning", "the median is a data point", "For an odd number of points, θ* of ‖θ − x‖ equals one of them.",
            printed="for any dimension",
            code="auditing.demonstrations.find_record",
            test="auditing/test_demonstrations.py::test_a_median_names_its_record",
            ours=lambda: "the median of three incomes, 31, names "
            + " ".join(demonstrations.find_record(31.0, candidates={"Ada": 20.0, "Bo": 31.0, "Cy": 55.0})),
            verdict=DIFFERS,
            note="true on the line only. In the plane the geometric median is a data point only where the unit vectors to the "
            "others nearly cancel.",
        ),
        Item(
            "Warning", "a support vector machine sits on its points",
            "Its optimum is fixed by the records on the margin, which can be recognised.",
            code="auditing.demonstrations.on_the_margin",
            test="auditing/test_demonstrations.py::test_support_vectors_lie_on_the_margin",
            ours=lambda: "decisions 1.0, 2.4, −1.0 for labels +, +, −: "
            f"{int(np.sum(demonstrations.on_the_margin([1.0, 2.4, -1.0], [1, 1, -1])))} of 3 lie on the margin",
        ),
        Item(
            "Warning", "model inversion", "Whoever knows the other records reads the last one off an exact model.",
            code="auditing.demonstrations.recover_label",
            test="auditing/test_demonstrations.py::test_differencing_and_inversion_are_exact",
        ),
    ),
)  # fmt: skip

LECTURE = Lecture(
    "001",
    "advanced composition, Rényi DP, statistical learning",
    "Handwritten; hardly anything has a number. Items stand under its headings, in its order.",
    (ADVANCED, RENYI, LEARNING),
)


def _epsilon(promise: PureDP | ApproxDP) -> float:
    return float(promise.epsilon)


def _printed_share() -> float:
    return 1 / math.sqrt(200 * math.log(1e6))


def _best() -> float:
    return float(textbook.best_slack(ApproxDP(1, 1e-6), count=100))


def _chain_rule() -> str:
    first, second = {"a": 0.7, "b": 0.3}, {"a": 0.4, "b": 0.6}
    given = {"a": ({0: 0.9, 1: 0.1}, {0: 0.6, 1: 0.4}), "b": ({0: 0.5, 1: 0.5}, {0: 0.45, 1: 0.55})}
    together = textbook.renyi_divergence(
        {(x, y): first[x] * given[x][0][y] for x in "ab" for y in (0, 1)},
        {(x, y): second[x] * given[x][1][y] for x in "ab" for y in (0, 1)},
        order=2,
    )
    base = textbook.renyi_divergence(first, second, order=2)
    parts = [textbook.renyi_divergence(*pair, order=2) for pair in given.values()]
    return f"an example at α = 2: {base + min(parts):.4f} ≤ {together:.4f} ≤ {base + max(parts):.4f}"


def _sampled_curve() -> list[RDP]:
    curve = textbook.rdp_curve_of(
        lambda order: textbook.sampled_gaussian_rdp(order, rate=0.01, noise_multiplier=1), orders=range(2, 33)
    )
    return textbook.repeat_rdp(curve, count=1000)
