"""Lecture 000: propose-test-release, private learning, the privacy loss."""

from __future__ import annotations

from scipy import stats

import deniable as dn
from deniable import conversions, mechanisms, textbook
from deniable.explaining.illustrations import loss_figure
from deniable.explaining.svg import render
from deniable.guarantees import GDP, ZCDP, ApproxDP, PureDP
from docs.notes.items import DIFFERS, Item, Lecture, Section

STABLE = "mechanisms/test_data_dependent.py"
LOSS = "textbook/test_loss.py"
ERRATA = "accounting/test_errata.py"

PROPOSE_TEST_RELEASE = Section(
    "Propose-test-release, again",
    (
        Item(
            "Example 1", "releasing the mode",
            "Each of n people holds a value; the most common one is wanted.",
            code="mechanisms.mode", test=f"{STABLE}::test_the_mode_keeps_its_promise_exactly",
            ours=lambda: "at ε = 1, δ = 1e-6 the mode is released with probability 95 % once it leads by "
            f"{mechanisms.mode(epsilon=1, delta=1e-6).needed(0.95)} records",
        ),
        Item(
            "Remark", "the plain mode is not private",
            "Releasing mode(x) itself breaks every promise: where two values tie, one record decides.",
            code="mechanisms.stable.mode_distance", test=f"{STABLE}::test_the_distance_of_the_mode",
            ours=lambda: "a lead of 1 has distance "
            f"{mechanisms.stable.mode_distance(1, dn.Relation.ADD_REMOVE)} to the unsafe data sets",
        ),
        Item(
            "Definition", "the safe set",
            "A data set is safe for an algorithm if its output there and on every neighbour are (ε, δ)-close.",
            code="mechanisms.propose_test_release", test=f"{STABLE}::test_the_whole_costs_the_sum_and_the_larger_delta",
        ),
        Item(
            "Question", "which data sets are safe for the mode?",
            "Those whose leader cannot change by one record: a lead of at least 2 if records are added or removed, of at "
            "least 3 if they are replaced (a replaced record moves the lead by 2).",
            code="mechanisms.stable.mode_distance", test=f"{STABLE}::test_the_distance_of_the_mode",
            ours=lambda: "the distance first exceeds 0 at a lead of "
            + " and ".join(
                str(next(gap for gap in range(9) if mechanisms.stable.mode_distance(gap, relation)))
                for relation in (dn.Relation.ADD_REMOVE, dn.Relation.REPLACE)
            ),
        ),
        Item(
            "Statement", "what propose-test-release does",
            "Unsafe data are answered with ⊥, data far from unsafe with the mode, data in between with either.",
            code="mechanisms.mode",
            test=f"{STABLE}::test_the_mode_keeps_its_promise_exactly",
        ),
        Item(
            "Exercise 1", "noisy histogram or propose-test-release?",
            "The histogram always answers and needs a lead of about ln(k)/ε over k known values; propose-test-release needs a "
            "lead of about 2 ln(1/δ)/ε whatever the number of values, and may say ⊥.",
            code="mechanisms.histogram_or_ptr", test=f"{STABLE}::test_histogram_or_ptr",
            ours=lambda: "leads needed at ε = 1, δ = 1e-6 (histogram, propose-test-release): " + ", ".join(
                f"k = {keys:,}: {found.noisy_max_gap} and {found.ptr_gap}"
                for keys in (2, 1000, 10**9)
                for found in [mechanisms.histogram_or_ptr(epsilon=1, delta=1e-6, keys=keys)]
            ),
        ),
        Item(
            "Exercise 2", "values on the real line",
            "A histogram with a noisy count for every real number cannot be made. Propose-test-release works unchanged, and so "
            "does a histogram that shows only values that occur, above a threshold.",
            code="mechanisms.stability_histogram", test=f"{STABLE}::test_the_stability_histogram_keeps_its_promise",
            ours=lambda: "at ε = 1, δ = 1e-6 a value held by "
            f"{mechanisms.stability_histogram(epsilon=1, delta=1e-6).needed(0.95)} people is shown with probability 95 %",
        ),
        Item(
            "Example", "mean estimation",
            "The mean plus Gaussian noise, released only if a private test finds the data tightly clustered.",
            printed="x̄ + N(0, Π)",
            code="mechanisms.clustered_means", test=f"{STABLE}::test_clustered_means_answer_for_clusters_only",
            ours=lambda: "n = 1000 records within a proposed width of 1 in each of ten columns, ε = 1, δ = 1e-6: "
            + mechanisms.clustered_means(widths=[1] * 10, size=1000, epsilon=1, delta=1e-6).statement(0.95)
            + "; one column with Laplace noise: "
            + mechanisms.clustered_mean(width=1, size=1000, epsilon=1, delta=1e-6).statement(0.95),
            verdict=DIFFERS,
            note="Π should read σ²I; and the plain mean of unbounded data is never safe, so a trimmed mean takes its place.",
        ),
        Item(
            "Statement", "safe means tightly clustered",
            "For the mean, the safe data sets are those whose points lie close together.",
            code="mechanisms.stable.spread_distance", test=f"{STABLE}::test_the_distance_counts_replacements",
            printed="safe ⇔ clustered", verdict=DIFFERS,
            note="true of the m-trimmed mean: safe if x₍n−m+1₎ − x₍m₎ ≤ τ. One record moves the plain mean anywhere.",
        ),
    ),
)  # fmt: skip

MODERN = Section(
    "DP for modern machine learning",
    (
        Item(
            "Goal", "thousands of iterations",
            "Training takes thousands of noisy steps; their cost must grow slowly.",
            code="dpsgd", test="deep/test_plan.py::test_the_event_is_the_one_of_dpsgd",
            ours=lambda: "noise multiplier 1.1, batches of 256 of 60,000, 14,063 steps (60 epochs): ε ≤ "
            f"{dn.account(dn.dpsgd(noise_multiplier=1.1, rate=256 / 60_000, steps=14_063)).epsilon(1e-5):.3f} at δ = 1e-5",
        ),
        Item(
            "Goal", "high dimension",
            "Models have millions of parameters. The noise multiplier does not depend on their number: only the norm of one "
            "example's gradient is bounded.",
            code="dpsgd", test="deep/test_plan.py::test_the_event_is_the_one_of_dpsgd",
        ),
        Item(
            "Goal", "stochastic mini-batches",
            "Batches are drawn at random, which amplifies privacy if they are drawn as the theorem says.",
            code="deep.Poisson", test="deep/test_plan.py::test_each_sampling_has_its_event",
        ),
        Item(
            "Goal", "distributed training",
            "Several machines train together; the noise is drawn once, or in honest shares.",
            code="deep.NoiseShares", test="deep/distributed/test_ranks.py::test_the_event_of_shares_is_what_honest_workers_add",
        ),
        Item(
            "Tool", "concentrated, Rényi and f-DP",
            "New definitions under which composition is simple. Each is a value with its relation and unit.",
            code="guarantees.FDP", test="guarantees/test_kinds.py::test_a_guarantee_reads_itself_back",
        ),
        Item(
            "Tool", "gradient descent independent of the dimension",
            "On rows that span r dimensions, noisy gradient descent without projection pays √r, not √d.",
            code="size", test="learning/test_planning.py::test_settings_count",
            ours=lambda: "records for an excess risk of 0.05 of logistic regression with 100 columns at ε = 1: "
            f"{_records(None):,}, and {_records(5):,} if rows are declared to span 5 dimensions",
        ),
        Item(
            "Tool", "amplification by subsampling",
            "Running on a random part of the data costs less, about in proportion to the part.",
            code="textbook.sample_poisson",
            test="textbook/test_amplification.py::test_sampling_helps_and_rate_one_changes_nothing",
            ours=lambda: f"ε = 1 on one per cent of the data: ε = {_float(textbook.sample_poisson(PureDP(1), rate=0.01)):.4f}",
        ),
        Item(
            "Tool", "DP-FTPL", "A learner that follows a noisy leader, without sampling.",
            printed="DP-FTPL", verdict=DIFFERS,
            note="what training uses is DP-FTRL, the regularised leader; perturbed leaders are another method.",
            code="learning.FTRL", test="learning/test_ftrl.py::test_regret_is_within_the_bound",
        ),
        Item(
            "Tool", "correlated noise",
            "Noise of consecutive steps may cancel: the sum of many noisy gradients is then more accurate at the same privacy.",
            code="strategies.Toeplitz", test="strategies/test_errors.py::test_the_square_root_reaches_its_published_error",
        ),
    ),
)  # fmt: skip

DEFINITIONS = Section(
    "New definitions for better composition and beyond",
    (
        Item(
            "Definition", "differential privacy as closeness",
            "A is private if A(x) and A(x′) are close for all adjacent x and x′; every definition of closeness is a kind of "
            "promise.",
            code="guarantees.ApproxDP", test="guarantees/test_kinds.py::test_order_within_a_kind",
        ),
        Item(
            "Definition", "swap adjacency",
            "Two data sets of n records that differ in one entry. n is public.",
            code="units.Relation", test="conversions/test_groups.py::test_add_remove_to_replace",
        ),
        Item(
            "Definition", "add/remove adjacency",
            "One data set is the other plus one record. n itself is private.",
            code="units.Relation", test="mechanisms/test_sensitivities.py::test_count",
        ),
        Item(
            "Remark", "theorists prefer swap, practitioners add/remove",
            "A mean can be divided by a known n under swap; under add/remove the count is noisy too and costs a share of ε.",
            code="mechanisms.mean", test="mechanisms/test_sensitivities.py::test_mean_of_unknown_size",
            ours=lambda: "error of the mean of 1000 values in [0, 1] at ε = 1 with probability 95 %: "
            f"{mechanisms.mean(bounds=(0, 1), size=1000, epsilon=1, relation='replace').error(0.95):.4f} with n public",
        ),
        Item(
            "Exercise", "how do the two relate?",
            "A swap is a removal and an addition, so an add/remove promise holds twice over for swaps. Nothing comes back: "
            "publishing n exactly is 0-DP under swap and no promise at all under add/remove.",
            printed="(left to the reader)",
            code="conversions.add_remove_to_replace", test="conversions/test_groups.py::test_add_remove_to_replace",
            ours=lambda: f"(1, 1e-6) becomes {conversions.add_remove_to_replace(ApproxDP(1, 1e-6))}; "
            f"1-zCDP becomes {float(conversions.add_remove_to_replace(ZCDP(1)).rho):g}-zCDP",
        ),
        Item(
            "Exercise", "and from swap to add/remove?",
            "There is no arrow in this direction, and asking for one says why.",
            code="conversions.replace_to_add_remove", test=f"{ERRATA}::test_000_swap_and_add_remove_are_not_the_same",
        ),
    ),
)  # fmt: skip

LOSSES = Section(
    "Composition and the privacy loss",
    (
        Item(
            "Definition", "privacy loss",
            "L(y) = ln of the ratio of the two probabilities of the output y.",
            code="textbook.losses", test=f"{LOSS}::test_every_event_has_a_loss",
        ),
        Item(
            "Definition", "privacy loss random variable",
            "L(Y) for Y drawn from A(x).",
            code="textbook.PrivacyLoss", test=f"{LOSS}::test_the_lattice_has_the_moments_of_the_sum",
        ),
        Item(
            "Remark", "the loss is a likelihood ratio",
            "It weighs the evidence for H₀: Y ~ A(x) against H₁: Y ~ A(x′), so privacy bounds every test between them.",
            code="account", test="accounting/test_odds.py::test_one_poisson_step",
            ours=lambda: "Gaussian noise with μ = 1: the best test with 5 % false alarms misses "
            f"{100 * dn.account(dn.Gaussian(1)).tradeoff(0.05):.1f} %",
        ),
        Item(
            "Claim", "the loss of Gaussian noise is normal",
            "For N(m, σ²) against N(m′, σ²) the loss is normal with mean ρ = (m − m′)²/(2σ²) and variance 2ρ.",
            printed="N(ρ, 2ρ²), and “ρ =” is missing",
            code="textbook.losses", test=f"{ERRATA}::test_000_the_gaussian_loss_has_variance_two_rho",
            ours=lambda: f"σ = 4, shift 1: mean {_only(dn.Gaussian(4)).mean:.5f}, variance {_only(dn.Gaussian(4)).variance:.5f} (ρ = {1 / 32:.5f}, 2ρ² would be {2 / 32**2:.5f})",
            verdict=DIFFERS, note="the variance is 2ρ; with 2ρ² the tail at 1 would be a million times too small.",
        ),
        Item(
            "Proof", "the loss is affine in y",
            "The squares of y cancel, so L(y) = (m − m′)(2y − m − m′)/(2σ²), and an affine function of a normal variable is "
            "normal. The remaining lines, left as an exercise, are checked against the density.",
            code="textbook.losses", test=f"{LOSS}::test_a_gaussian_loss_is_normal_with_variance_two_rho",
        ),
        Item(
            "Statement", "losses of a composition add",
            "For independent mechanisms the loss of all is the sum of the losses.",
            code="textbook.losses", test=f"{LOSS}::test_losses_of_a_composition_add",
            ours=lambda: f"Laplace with ε = 0.5: mean {_only(dn.Laplace(2)).mean:.5f}; three of them: "
            f"{_only(dn.Laplace(2) * 3).mean:.5f}",
        ),
        Item(
            "Statement", "central limit",
            "A sum of many independent losses is nearly normal. Drawn: a thousand randomized responses of ε = 0.1.",
            code="textbook.estimate_mu", test="textbook/test_clt.py::test_a_gaussian_is_its_own_limit",
            picture=lambda: render(loss_figure(dn.RandomizedResponse(0.1) * 1000)),
        ),
        Item(
            "Claim", "moments of an ε-DP loss",
            "E L ≤ ε²/2 and Var L ≤ ε².",
            printed="½ε², ε²",
            code="textbook.losses", test=f"{LOSS}::test_randomized_response_is_the_worst_pure_loss",
            ours=lambda: "the worst case, randomized response, at ε = 1: mean "
            f"{_only(dn.RandomizedResponse(1)).mean:.4f} = ε·tanh(ε/2), variance {_only(dn.RandomizedResponse(1)).variance:.4f}",
        ),
        Item(
            "Statement", "mean and variance after k steps",
            "They add up: at most kε²/2 and kε².",
            code="textbook.PrivacyLoss", test=f"{LOSS}::test_losses_of_a_composition_add",
            ours=lambda: f"100 randomized responses of ε = 0.1: mean {_only(dn.RandomizedResponse(0.1) * 100).mean:.4f} ≤ 0.5, variance {_only(dn.RandomizedResponse(0.1) * 100).variance:.4f} ≤ 1",
        ),
        Item(
            "Statement", "the limit law of k ε-DP steps",
            "L is about N(kε²/2, kε²), that is, k steps are about μ-GDP with μ = ε√k.",
            code="textbook.estimate_pure_mu", test="textbook/test_clt.py::test_randomized_response_tends_to_epsilon_root_k",
            ours=lambda: f"k = 100, ε = 0.1: μ = {textbook.estimate_pure_mu(epsilon=0.1, count=100):.3f}",
        ),
        Item(
            "Remark", "a Gaussian loss is fully understood",
            "Where the loss is exactly normal, ε and δ follow in closed form.",
            code="conversions.gdp_to_approx", test="conversions/test_exact.py::test_gaussian_delta_between_its_ends",
            ours=lambda: f"μ = 1, ε = 1: δ = {float(conversions.gdp_to_approx(GDP(1), epsilon=1).delta):.6f}",
        ),
        Item(
            "Remark", "Berry–Esseen is too slow",
            "The distance to the normal law falls like 1/√k, so it says nothing about δ below that.",
            printed="δ ≥ 1/√k",
            code="textbook.berry_esseen_gap", test="textbook/test_clt.py::test_estimates_fall_short_of_the_truth_at_small_delta",
            ours=lambda: "gap of the theorem for k steps of 0.1-GDP: " + ", ".join(
                f"k = {k:,}: {textbook.berry_esseen_gap([(textbook.gaussian_moments(0.1), k)]):.2g}"
                for k in (100, 10_000, 10**6)
            ),
        ),
    ),
)  # fmt: skip

MOMENTS = Section(
    "Moment generating functions",
    (
        Item(
            "Definition", "moment generating function",
            "M(λ) = E e^{λX}.",
            code="textbook.losses", test=f"{LOSS}::test_a_sampled_gaussian_has_the_moments_of_its_divergence",
            ours=lambda: f"of a Gaussian's loss with ρ = ½ at λ = 2: ln M = {_only(dn.Gaussian(1)).log_mgf(2):.4f} = λ(λ+1)ρ",
        ),
        Item(
            "Statement", "derivatives at 0 are moments",
            "E Xⁿ is the n-th derivative of M at 0.",
            code="textbook.losses", test=f"{LOSS}::test_a_gaussian_loss_is_normal_with_variance_two_rho",
            ours=lambda: "Laplace with ε = 1: slope of ln M at 0 is "
            f"{_only(dn.Laplace(1)).log_mgf(1e-6) / 1e-6:.5f}, the mean {_only(dn.Laplace(1)).mean:.5f}",
        ),
        Item(
            "Exercise", "Hoeffding's bound",
            "By Markov's inequality for e^{λX} and Hoeffding's lemma, with λ = 4nε/(b − a)².",
            code="textbook.losses", test=f"{LOSS}::test_the_bounds_are_bounds_and_in_order",
            ours=lambda: "100 randomized responses of ε = 0.1, P[L ≥ 3]: Hoeffding "
            f"{_only(dn.RandomizedResponse(0.1) * 100).tail_hoeffding(3):.3g}, Chernoff "
            f"{_only(dn.RandomizedResponse(0.1) * 100).tail_chernoff(3):.3g}",
        ),
        Item(
            "Statement", "Markov's inequality", "P[X ≥ t] ≤ E X/t for X ≥ 0.",
            printed="P[X ≥ t] ≤ E[Y]/t",
            code="textbook.losses",
            test=f"{ERRATA}::test_000_markovs_inequality_needs_a_variable_that_is_not_negative",
            ours=lambda: f"randomized response, ε = 1: P[L ≥ 0.999] = {_only(dn.RandomizedResponse(1)).tail(0.999):.4f} is above E L/0.999 = {_only(dn.RandomizedResponse(1)).mean / 0.999:.4f}",
            verdict=DIFFERS, note="Y is X, and X must not be negative. A loss may be: the inequality is for e^{λL}.",
        ),
        Item(
            "Definition", "sub-Gaussian", "E e^{λX} ≤ e^{kλ²/2} for a centred X.",
            printed="for all λ ≥ 0",
            code="textbook.losses", test=f"{LOSS}::test_the_bounds_are_bounds_and_in_order",
            verdict=DIFFERS, note="for all real λ. With λ ≥ 0 alone only the upper tail is bounded; that is enough for a loss.",
        ),
    ),
)  # fmt: skip

BACK = Section(
    "Back to differential privacy",
    (
        Item(
            "Definition", "zero-concentrated DP",
            "ρ-zCDP: E e^{λL} ≤ e^{λ(λ+1)ρ} for all λ ≥ 0 and all neighbours.",
            code="guarantees.ZCDP", test="conversions/test_bounds.py::test_zcdp_reference",
        ),
        Item(
            "Fact 1", "ε-DP is ½ε²-zCDP", "Every pure promise is concentrated.",
            printed="½ε²",
            code="conversions.pure_to_zcdp",
            test="conversions/test_exact.py::test_pure_to_zcdp_holds_at_every_order_and_is_tight_at_one",
            ours=lambda: f"ε = 1: ρ = {float(conversions.pure_to_zcdp_classic(PureDP(1)).rho):.4f}; "
            f"the smallest that holds for all is ε·tanh(ε/2) = {float(conversions.pure_to_zcdp(PureDP(1)).rho):.4f}",
        ),
        Item(
            "Fact 2", "zCDP composes by adding", "k algorithms of ½ε² are ½ε²k.",
            code="textbook.compose_zcdp", test="textbook/test_composition.py::test_concentrated_sums",
            ours=lambda: f"100 times 0.005: ρ = {float(textbook.compose_zcdp([ZCDP(0.005)] * 100).rho):g}",
        ),
        Item(
            "Fact 3", "from zCDP to (ε′, δ)", "ε′ = ρ + 2√(ρ ln(1/δ)), here ε√(2k ln 1/δ) + ½ε²k.",
            printed="ε√(2k ln 1/δ) + ½ε²k",
            code="conversions.zcdp_to_approx_classic", test="conversions/test_bounds.py::test_example_gaps",
            ours=lambda: "ε = 0.1, k = 100, δ = 1e-6: "
            f"{_float(conversions.zcdp_to_approx_classic(ZCDP(0.5), delta=1e-6)):.3f}; the better conversion gives "
            f"{_float(conversions.zcdp_to_approx(ZCDP(0.5), delta=1e-6)):.3f}, exact Gaussian noise "
            f"{_float(conversions.gdp_to_approx(GDP(1), delta=1e-6)):.3f}",
        ),
        Item(
            "Definition", "Rényi DP by moments",
            "(α, ε)-RDP: E e^{(α−1)L} ≤ e^{(α−1)ε}. The lecture writes Z for L.",
            code="guarantees.RDP", test=f"{LOSS}::test_chernoff_is_the_classic_conversion",
        ),
        Item(
            "Claim", "RDP at all orders is zCDP", "If D_α ≤ αρ for every α, the algorithm is ρ-zCDP.",
            printed="(α, αε)-RDP for all α ⇒ ρ-zCDP",
            code="conversions.linear_rdp_to_zcdp", test=f"{ERRATA}::test_000_linear_rdp_is_zcdp_with_the_same_letter",
            ours=lambda: f"slope 0.3: ρ = {float(conversions.linear_rdp_to_zcdp(0.3).rho):g}",
            verdict=DIFFERS, note="ε and ρ are the same number: ρ = ε.",
        ),
        Item(
            "Definition", "Rényi divergence", "D_α(P‖Q) = ln E_Q (P/Q)^α / (α − 1).",
            code="textbook.renyi_divergence", test="textbook/test_divergences.py::test_closed_forms",
            ours=lambda: "N(1, 1) against N(0, 1), α = 2, by integration: "
            f"{textbook.renyi_divergence(stats.norm(1), stats.norm(0), order=2):.6f} (α/2 = 1)",
        ),
        Item(
            "Definition", "Rényi DP by divergence", "(α, ε)-RDP iff D_α(A(x)‖A(x′)) ≤ ε.",
            code="conversions.zcdp_to_rdp", test=f"{ERRATA}::test_000_linear_rdp_is_zcdp_with_the_same_letter",
            ours=lambda: f"0.3-zCDP at α = 7: D_7 ≤ {float(conversions.zcdp_to_rdp(ZCDP(0.3), order=7).epsilon):g}",
        ),
    ),
)  # fmt: skip

LECTURE = Lecture(
    "000",
    "propose-test-release, private learning, the privacy loss",
    "The lecture is headed “Lecture 10”. Most of its items have no number; they are listed under its headings, in its order.",
    (PROPOSE_TEST_RELEASE, MODERN, DEFINITIONS, LOSSES, MOMENTS, BACK),
)


def _only(event: dn.Event) -> textbook.PrivacyLoss:
    (loss,) = textbook.losses(event)
    return loss


def _float(promise: PureDP | ApproxDP) -> float:
    return float(promise.epsilon)


def _records(rank: int | None) -> int:
    known = {} if rank is None else {"rank": rank}
    return int(dn.size(dn.learning.LogisticRegression, columns=100, epsilon=1, error=0.05, **known).size)
