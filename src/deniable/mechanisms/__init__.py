"""Mechanisms: a sensitivity, a sampler, the event it emits, and its accuracy before it runs.

Each lives in a file of its own and is made by a function of the same name. The result is a frozen value `m`:
`m(data)` releases, `m.event` is what the accountant and the ledger see, `m.error(0.95)` bounds the error with
probability 95 %, and `size` turns that around.

>>> from deniable import mechanisms
>>> m = mechanisms.laplace(sensitivity=1, epsilon=0.5)
>>> m.statement(0.95)
'with probability 95 % the error is at most 6'
"""

from deniable.mechanisms.above_threshold import AboveThreshold, above_threshold
from deniable.mechanisms.auction import AuctionPrice, auction_price
from deniable.mechanisms.base import Mechanism
from deniable.mechanisms.best_of import Best, BestOf, best_of
from deniable.mechanisms.binary_response import BinaryResponse, binary_response
from deniable.mechanisms.calibration import analytic_scale, classic_scale
from deniable.mechanisms.category_response import CategoryResponse, category_response
from deniable.mechanisms.clustered_mean import ClusteredMean, clustered_mean
from deniable.mechanisms.column_means import ColumnMeans, column_means
from deniable.mechanisms.contingency import Contingency, contingency
from deniable.mechanisms.count import Count, count
from deniable.mechanisms.estimates import Estimate
from deniable.mechanisms.exponential import Exponential, exponential
from deniable.mechanisms.gaussian import Gaussian, gaussian
from deniable.mechanisms.histogram import Histogram, histogram
from deniable.mechanisms.laplace import Laplace, laplace
from deniable.mechanisms.linear import LinearQueries, linear_queries
from deniable.mechanisms.marginals import Marginals, marginals
from deniable.mechanisms.mean import Mean, MeanOfUnknownSize, mean
from deniable.mechanisms.median import Median, median
from deniable.mechanisms.mode import Mode, ModeComparison, histogram_or_ptr, mode
from deniable.mechanisms.noisy_max import NoisyMax, noisy_max
from deniable.mechanisms.permute_and_flip import PermuteAndFlip, permute_and_flip
from deniable.mechanisms.postprocessing import consistent, nonnegative, simplex
from deniable.mechanisms.propose_test_release import ProposeTestRelease, propose_test_release
from deniable.mechanisms.quantile import Quantile, quantile
from deniable.mechanisms.searching import Search, search
from deniable.mechanisms.shuffled import Shuffled, shuffled
from deniable.mechanisms.size import CentralAndLocal, Size, central_and_local, size
from deniable.mechanisms.stability_histogram import StabilityHistogram, stability_histogram
from deniable.mechanisms.sum import Sum, sum_of
from deniable.mechanisms.top_k import TopK, top_k
from deniable.mechanisms.unary_response import UnaryResponse, unary_response
from deniable.mechanisms.variance import Variance, VarianceOfUnknownSize, variance

__all__ = [
    "AboveThreshold",
    "AuctionPrice",
    "Best",
    "BestOf",
    "BinaryResponse",
    "CategoryResponse",
    "CentralAndLocal",
    "ClusteredMean",
    "ColumnMeans",
    "Contingency",
    "Count",
    "Estimate",
    "Exponential",
    "Gaussian",
    "Histogram",
    "Laplace",
    "LinearQueries",
    "Marginals",
    "Mean",
    "MeanOfUnknownSize",
    "Mechanism",
    "Median",
    "Mode",
    "ModeComparison",
    "NoisyMax",
    "PermuteAndFlip",
    "ProposeTestRelease",
    "Quantile",
    "Search",
    "Shuffled",
    "Size",
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
