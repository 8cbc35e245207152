"""The classical theorems, as functions: what the lecture notes state, to compare with, to plan with and to teach.

The accountant does not use them; it integrates losses. This room stands beside it: one file per theme, on top of
`numerics` and `conversions`. Three things are asked of the accountant: its answer (`compare`, `choices`), the law of a
step's loss (`loss`) and the curve of shuffled reports (`amplification`). Functions return guarantees,
rounded up; names that start with `estimate_` return estimates.

>>> from deniable.textbook import advanced_tanh, repeat_optimal
>>> from deniable.guarantees import PureDP
>>> print(advanced_tanh(PureDP(0.1), count=100, slack=1e-6))
ε ≤ 5.76, δ = 1e-6, one record added or removed
>>> print(repeat_optimal(PureDP(0.1), count=100).cost(1e-6))
ε ≤ 4.78, δ = 1e-6, one record added or removed
"""

from inspect import isfunction

from deniable.conversions.arrows import arrow, promises
from deniable.textbook.amplification import (
    iterate,
    sample_batch,
    sample_fdp,
    sample_poisson,
    sample_rdp,
    sampling_operator,
    shuffle,
    shuffle_responses,
    shuffled_batches_epsilon,
    shuffled_delta,
)
from deniable.textbook.choices import (
    best_slack,
    l1_wins_below,
    sampled_descent_error,
    split_variance,
)
from deniable.textbook.clt import (
    berry_esseen_gap,
    estimate_dpsgd_batch_mu,
    estimate_dpsgd_mu,
    estimate_epsilon,
    estimate_mu,
    estimate_pure_mu,
    gaussian_moments,
    moments_of,
)
from deniable.textbook.compare import Comparison, compare_theorems, comparison_table
from deniable.textbook.composition import (
    advanced_exponential,
    advanced_half,
    advanced_square,
    advanced_tanh,
    compose_advanced,
    compose_approx_zcdp,
    compose_basic,
    compose_fdp,
    compose_gdp,
    compose_gdp_repeated,
    compose_tcdp,
    compose_zcdp,
    exponential_mechanism_zcdp,
    gaussian_zcdp,
    per_query_budget,
    repeat_advanced,
    repeat_basic,
    scale_per_query,
)
from deniable.textbook.divergences import (
    binary_test_divergence,
    hockey_stick,
    kl_divergence,
    random_record_laws,
    renyi_divergence,
    total_variation,
)
from deniable.textbook.generalisation import (
    adaptive_size,
    generalisation_gap,
    splitting_size,
    transfer_bound,
    zero_column_chance,
)
from deniable.textbook.loss import PrivacyLoss, draw_loss, losses
from deniable.textbook.lower_bounds import (
    ExcessRisk,
    excess_risk,
    fingerprinting_error,
    low_rank_risk,
    packing_size,
)
from deniable.textbook.optimal import compose_optimal, optimal_corner, repeat_optimal
from deniable.textbook.renyi import (
    ORDERS,
    best_order,
    compose_rdp,
    gaussian_rdp,
    laplace_rdp,
    log_moment,
    moments_accountant,
    pure_rdp,
    randomized_response_rdp,
    rdp_curve_of,
    repeat_rdp,
    sampled_gaussian_rdp,
)

__all__ = [
    "ORDERS",
    "Comparison",
    "ExcessRisk",
    "PrivacyLoss",
    "adaptive_size",
    "advanced_exponential",
    "advanced_half",
    "advanced_square",
    "advanced_tanh",
    "berry_esseen_gap",
    "best_order",
    "best_slack",
    "binary_test_divergence",
    "compare_theorems",
    "comparison_table",
    "compose_advanced",
    "compose_approx_zcdp",
    "compose_basic",
    "compose_fdp",
    "compose_gdp",
    "compose_gdp_repeated",
    "compose_optimal",
    "compose_rdp",
    "compose_tcdp",
    "compose_zcdp",
    "draw_loss",
    "estimate_dpsgd_batch_mu",
    "estimate_dpsgd_mu",
    "estimate_epsilon",
    "estimate_mu",
    "estimate_pure_mu",
    "excess_risk",
    "exponential_mechanism_zcdp",
    "fingerprinting_error",
    "gaussian_moments",
    "gaussian_rdp",
    "gaussian_zcdp",
    "generalisation_gap",
    "hockey_stick",
    "iterate",
    "kl_divergence",
    "l1_wins_below",
    "laplace_rdp",
    "log_moment",
    "losses",
    "low_rank_risk",
    "moments_accountant",
    "moments_of",
    "optimal_corner",
    "packing_size",
    "per_query_budget",
    "pure_rdp",
    "random_record_laws",
    "randomized_response_rdp",
    "rdp_curve_of",
    "renyi_divergence",
    "repeat_advanced",
    "repeat_basic",
    "repeat_optimal",
    "repeat_rdp",
    "sample_batch",
    "sample_fdp",
    "sample_poisson",
    "sample_rdp",
    "sampled_descent_error",
    "sampled_gaussian_rdp",
    "sampling_operator",
    "scale_per_query",
    "shuffle",
    "shuffle_responses",
    "shuffled_batches_epsilon",
    "shuffled_delta",
    "split_variance",
    "splitting_size",
    "total_variation",
    "transfer_bound",
    "zero_column_chance",
]

for _name in __all__:
    if isfunction(globals()[_name]) and promises(globals()[_name]):
        globals()[_name] = arrow(globals()[_name])
