"""Mechanisms: a sensitivity, a sampler, the event it emits, and its accuracy before it runs.

One file holds one family: `counts`, `tables`, `moments`, `quantiles`, `selection`, `local`, ... A function such as
`laplace` makes a mechanism. The result is a frozen value `m`:
`m(data)` releases, `m.event` is what the accountant and the ledger see, `m.error(0.95)` bounds the error with
probability 95 %, and `size` turns that around.

>>> from deniable import mechanisms
>>> m = mechanisms.laplace(sensitivity=1, epsilon=0.5)
>>> m.statement(0.95)
'with probability 95 % the error is at most 6'
"""

from deniable.mechanisms.answers import (
    GaussianMechanism,
    LaplaceMechanism,
    analytic_scale,
    classic_scale,
    gaussian,
    laplace,
)
from deniable.mechanisms.base import Mechanism
from deniable.mechanisms.counts import (
    Count,
    Histogram,
    LinearQueries,
    StabilityHistogram,
    count,
    histogram,
    linear_queries,
    stability_histogram,
)
from deniable.mechanisms.local import (
    BinaryResponse,
    CategoryResponse,
    Estimate,
    ShuffledResponse,
    UnaryResponse,
    binary_response,
    category_response,
    shuffled,
    unary_response,
)
from deniable.mechanisms.moments import (
    ColumnMeans,
    MeanOfKnownSize,
    MeanOfUnknownSize,
    Sum,
    Variance,
    VarianceOfUnknownSize,
    column_means,
    mean,
    sum_of,
    variance,
)
from deniable.mechanisms.quantiles import Median, Quantile, median, quantile
from deniable.mechanisms.sample_size import CentralAndLocal, SizePlan, central_and_local, size
from deniable.mechanisms.selection import (
    AuctionPrice,
    Exponential,
    NoisyMax,
    PermuteAndFlip,
    TopK,
    auction_price,
    exponential,
    noisy_max,
    permute_and_flip,
    top_k,
)
from deniable.mechanisms.sparse_vector import AboveThreshold, ReusableHoldout, above_threshold, reusable_holdout
from deniable.mechanisms.stable import (
    ClusteredMean,
    ClusteredMeans,
    Mode,
    ModeComparison,
    ProposeTestRelease,
    clustered_mean,
    clustered_means,
    histogram_or_ptr,
    mode,
    propose_test_release,
)
from deniable.mechanisms.tables import Contingency, Marginals, consistent, contingency, marginals, nonnegative, simplex
from deniable.mechanisms.trials import Best, BestOf, PrivateSearch, best_of, search

__all__ = [
    "AboveThreshold",
    "AuctionPrice",
    "Best",
    "BestOf",
    "BinaryResponse",
    "CategoryResponse",
    "CentralAndLocal",
    "ClusteredMean",
    "ClusteredMeans",
    "ColumnMeans",
    "Contingency",
    "Count",
    "Estimate",
    "Exponential",
    "GaussianMechanism",
    "Histogram",
    "LaplaceMechanism",
    "LinearQueries",
    "Marginals",
    "MeanOfKnownSize",
    "MeanOfUnknownSize",
    "Mechanism",
    "Median",
    "Mode",
    "ModeComparison",
    "NoisyMax",
    "PermuteAndFlip",
    "PrivateSearch",
    "ProposeTestRelease",
    "Quantile",
    "ReusableHoldout",
    "ShuffledResponse",
    "SizePlan",
    "StabilityHistogram",
    "Sum",
    "TopK",
    "UnaryResponse",
    "Variance",
    "VarianceOfUnknownSize",
    "above_threshold",
    "analytic_scale",
    "auction_price",
    "best_of",
    "binary_response",
    "category_response",
    "central_and_local",
    "classic_scale",
    "clustered_mean",
    "clustered_means",
    "column_means",
    "consistent",
    "contingency",
    "count",
    "exponential",
    "gaussian",
    "histogram",
    "histogram_or_ptr",
    "laplace",
    "linear_queries",
    "marginals",
    "mean",
    "median",
    "mode",
    "noisy_max",
    "nonnegative",
    "permute_and_flip",
    "propose_test_release",
    "quantile",
    "reusable_holdout",
    "search",
    "shuffled",
    "simplex",
    "size",
    "stability_histogram",
    "sum_of",
    "top_k",
    "unary_response",
    "variance",
]
