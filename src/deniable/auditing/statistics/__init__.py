"""Fixed-sample statistics: counts in, a lower bound out. Each says what it certifies and what it needs.

| function | gives | certifies |
|---|---|---|
| `epsilon_lower` | ε at δ, Clopper–Pearson | yes |
| `joint_epsilon`, `joint_test` | ε at δ, or a p-value, from both counts together | yes |
| `mu_lower` | μ of Gaussian privacy | yes (an ε read off it needs a Gaussian curve) |
| `shift_lower` | μ from scores, not counts | if the scores are normal |
| `katz_epsilon` | ε at δ = 0, by a normal approximation | no |
| `bayes_epsilon` | ε at δ, credible under a prior | no |
| `choose_threshold`, `count_at` | a rule from validation runs, and its counts on fresh runs | – |
"""

from deniable.auditing.statistics.bayes import bayes_epsilon, posterior_below
from deniable.auditing.statistics.clopper_pearson import (
    clopper_pearson_lower,
    clopper_pearson_upper,
    epsilon_lower,
    error_rates,
    implied_epsilon,
)
from deniable.auditing.statistics.counts import Bound, Counts
from deniable.auditing.statistics.gaussian import claimed_mu, gdp_epsilon, mu_lower
from deniable.auditing.statistics.joint import joint_epsilon, joint_test
from deniable.auditing.statistics.katz import katz_epsilon
from deniable.auditing.statistics.shift import shift_lower
from deniable.auditing.statistics.threshold import Threshold, choose_threshold, count_at

__all__ = [
    "Bound",
    "Counts",
    "Threshold",
    "bayes_epsilon",
    "choose_threshold",
    "claimed_mu",
    "clopper_pearson_lower",
    "clopper_pearson_upper",
    "count_at",
    "epsilon_lower",
    "error_rates",
    "gdp_epsilon",
    "implied_epsilon",
    "joint_epsilon",
    "joint_test",
    "katz_epsilon",
    "mu_lower",
    "posterior_below",
    "shift_lower",
]
