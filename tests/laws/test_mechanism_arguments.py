"""Bad arguments of every mechanism raise InvalidArgument, with a message that names the argument."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deniable import mechanisms as dm
from deniable.errors import InvalidArgument
from deniable.guarantees import PureDP
from deniable.mechanisms import Mechanism
from tests.laws.mechanism_examples import ATTRIBUTES, KEYS, count_of, first

MAKERS: dict[str, Callable[..., Mechanism]] = {
    "laplace": lambda **k: dm.laplace(**{"sensitivity": 1, "epsilon": 1, **k}),
    "gaussian": lambda **k: dm.gaussian(**{"sensitivity": 1, "epsilon": 1, "delta": 1e-6, **k}),
    "count": lambda **k: dm.count(**{"epsilon": 1, **k}),
    "sum_of": lambda **k: dm.sum_of(**{"bounds": (0, 1), "epsilon": 1, **k}),
    "mean": lambda **k: dm.mean(**{"bounds": (0, 1), "epsilon": 1, **k}),
    "variance": lambda **k: dm.variance(**{"bounds": (0, 1), "epsilon": 1, **k}),
    "histogram": lambda **k: dm.histogram(**{"keys": KEYS, "epsilon": 1, **k}),
    "contingency": lambda **k: dm.contingency(**{"attributes": ATTRIBUTES, "epsilon": 1, **k}),
    "marginals": lambda **k: dm.marginals(**{"attributes": ATTRIBUTES, "epsilon": 1, **k}),
    "column_means": lambda **k: dm.column_means(**{"bounds": [(0, 1)], "size": 9, "epsilon": 1, **k}),
    "linear_queries": lambda **k: dm.linear_queries(**{"matrix": [[1, 2, 3]], "keys": KEYS, "epsilon": 1, **k}),
    "exponential": lambda **k: dm.exponential(**{"candidates": 3, "sensitivity": 1, "epsilon": 1, **k}),
    "permute_and_flip": lambda **k: dm.permute_and_flip(**{"candidates": 3, "sensitivity": 1, "epsilon": 1, **k}),
    "noisy_max": lambda **k: dm.noisy_max(**{"candidates": 3, "sensitivity": 1, "epsilon": 1, **k}),
    "top_k": lambda **k: dm.top_k(**{"candidates": 3, "places": 2, "sensitivity": 1, "epsilon": 1, **k}),
    "above_threshold": lambda **k: dm.above_threshold(**{"threshold": 3, "sensitivity": 1, "epsilon": 1, **k}),
    "quantile": lambda **k: dm.quantile(**{"bounds": (0, 1), "q": 0.5, "epsilon": 1, **k}),
    "auction_price": lambda **k: dm.auction_price(**{"prices": [1, 2], "epsilon": 1, **k}),
    "mode": lambda **k: dm.mode(**{"epsilon": 1, "delta": 1e-6, **k}),
    "clustered_mean": lambda **k: dm.clustered_mean(**{"width": 1, "size": 500, "epsilon": 1, "delta": 1e-6, **k}),
    "clustered_means": lambda **k: dm.clustered_means(
        **{"widths": [1, 2], "size": 500, "epsilon": 1, "delta": 1e-6, **k}
    ),
    "reusable_holdout": lambda **k: dm.reusable_holdout(**{"size": 500, "threshold": 0.1, "epsilon": 1, **k}),
    "stability_histogram": lambda **k: dm.stability_histogram(**{"epsilon": 1, "delta": 1e-6, **k}),
    "median": lambda **k: dm.median(**{"bounds": (0, 1), "size": 9, "epsilon": 1, "delta": 1e-6, **k}),
    "binary_response": lambda **k: dm.binary_response(**{"epsilon": 1, **k}),
    "category_response": lambda **k: dm.category_response(**{"keys": KEYS, "epsilon": 1, **k}),
    "unary_response": lambda **k: dm.unary_response(**{"keys": KEYS, "epsilon": 1, **k}),
    "propose_test_release": lambda **k: dm.propose_test_release(
        **{"base": first, "distance": count_of, "promise": PureDP(0), "epsilon": 1, "delta": 1e-6, **k}
    ),
}

BAD_NUMBERS = [0, -1, float("nan"), float("inf"), "1", None, True]


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize("maker", MAKERS)
def test_epsilon_is_a_positive_number(maker: str, bad: object) -> None:
    with pytest.raises(InvalidArgument, match="epsilon"):
        MAKERS[maker](epsilon=bad)


WITH_SENSITIVITY = ["laplace", "gaussian", "exponential", "permute_and_flip", "noisy_max", "top_k", "above_threshold"]


@pytest.mark.parametrize("bad", BAD_NUMBERS, ids=repr)
@pytest.mark.parametrize("maker", WITH_SENSITIVITY)
def test_sensitivity_is_positive(maker: str, bad: object) -> None:
    with pytest.raises(InvalidArgument, match="sensitivity"):
        MAKERS[maker](sensitivity=bad)


WITH_BOUNDS = ["sum_of", "mean", "variance", "quantile", "median"]
BAD_BOUNDS = [(1, 0), (1, 1), (0, float("inf")), (float("nan"), 1), (None, 1), (0,), 5, None, (0, 1, 2), ("a", "b")]


@pytest.mark.parametrize("bad", BAD_BOUNDS, ids=repr)
@pytest.mark.parametrize("maker", WITH_BOUNDS)
def test_bounds_are_a_pair_in_order(maker: str, bad: object) -> None:
    with pytest.raises(InvalidArgument, match="bounds"):
        MAKERS[maker](bounds=bad)


@pytest.mark.parametrize("bad", [1, -0.1, float("nan"), "x", None], ids=repr)
@pytest.mark.parametrize(
    "maker",
    [
        "gaussian",
        "count",
        "sum_of",
        "histogram",
        "marginals",
        "column_means",
        "linear_queries",
        "mode",
        "clustered_mean",
        "clustered_means",
        "stability_histogram",
        "median",
        "top_k",
        "propose_test_release",
    ],
)
def test_delta_is_a_probability(maker: str, bad: object) -> None:
    with pytest.raises(InvalidArgument, match="delta"):
        MAKERS[maker](delta=bad)


@pytest.mark.parametrize(
    "maker",
    [
        name
        for name in MAKERS
        if name not in {"binary_response", "category_response", "unary_response", "propose_test_release"}
    ],
)
def test_relation_is_a_relation(maker: str) -> None:
    with pytest.raises(InvalidArgument, match="relation"):
        MAKERS[maker](relation="swap")
