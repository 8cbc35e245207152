"""The classical theorems, one file each: what a student of the lecture notes finds as a function.

`account` does not use them; it convolves losses. They are here to be compared with (`compare_theorems`), for promises
of which only (ε, δ), ρ, μ or a Rényi curve is known, and because ledgers and papers state them. Functions return
guarantees, rounded up; names that start with `estimate_` return estimates.

>>> from deniable.accounting.theorems import advanced_tanh, repeat_optimal
>>> from deniable.guarantees import PureDP
>>> print(advanced_tanh(PureDP(0.1), count=100, slack=1e-6))
ε ≤ 5.76, δ = 1e-6, one record added or removed
>>> print(repeat_optimal(PureDP(0.1), count=100).cost(1e-6))
ε ≤ 4.78, δ = 1e-6, one record added or removed
"""

from deniable.accounting.theorems.amplification import (
    iterate,
    sample_batch,
    sample_fdp,
    sample_poisson,
    sample_rdp,
    sampling_operator,
    shuffle,
    shuffle_responses,
    shuffled_delta,
)
from deniable.accounting.theorems.clt import (
    berry_esseen_gap,
    estimate_dpsgd_batch_mu,
    estimate_dpsgd_mu,
    estimate_epsilon,
    estimate_mu,
    estimate_pure_mu,
    gaussian_moments,
    moments_of,
)
from deniable.accounting.theorems.compare import Comparison, compare_theorems, comparison_table
from deniable.accounting.theorems.composition import (
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
from deniable.accounting.theorems.optimal import compose_optimal, optimal_corner, repeat_optimal
from deniable.accounting.theorems.renyi import (
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
)
from deniable.accounting.theorems.sampled import sampled_gaussian_rdp

__all__ = [
    "ORDERS",
    "Comparison",
    "advanced_exponential",
    "advanced_half",
    "advanced_square",
    "advanced_tanh",
    "berry_esseen_gap",
    "best_order",
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
    "estimate_dpsgd_batch_mu",
    "estimate_dpsgd_mu",
    "estimate_epsilon",
    "estimate_mu",
    "estimate_pure_mu",
    "exponential_mechanism_zcdp",
    "gaussian_moments",
    "gaussian_rdp",
    "gaussian_zcdp",
    "iterate",
    "laplace_rdp",
    "log_moment",
    "moments_accountant",
    "moments_of",
    "optimal_corner",
    "per_query_budget",
    "pure_rdp",
    "randomized_response_rdp",
    "rdp_curve_of",
    "repeat_advanced",
    "repeat_basic",
    "repeat_optimal",
    "repeat_rdp",
    "sample_batch",
    "sample_fdp",
    "sample_poisson",
    "sample_rdp",
    "sampled_gaussian_rdp",
    "sampling_operator",
    "scale_per_query",
    "shuffle",
    "shuffle_responses",
    "shuffled_delta",
]
