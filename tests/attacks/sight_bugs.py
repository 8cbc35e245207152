"""Leaks beside the numbers: labels, order, types, texts, messages, warnings, printed lines, files, large integers."""

from __future__ import annotations

import datetime
import json
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from deniable.guarantees import PureDP
from deniable.units import REPLACE
from tests.attacks.zoo import broken

THREE, TWO = [1, 2, 3], [1, 2]
NAMES = (["a", "a", "b"], ["a", "a", "c"])
VOTES = (["b", "b", "a", "a", "a"], ["b", "b", "a", "a"])
SURE = (1.0, 0.0)


def _lap(scale: float) -> float:
    return round(float(np.random.laplace(scale=scale)), 2)


@broken(NAMES, PureDP(1, relation=REPLACE), by="testing", best=SURE)
def names_in_the_index_of_a_series(data: list[str]) -> Any:
    import pandas as pd

    counts = pd.Series(data).value_counts(sort=False)
    return counts + np.random.laplace(0, 2, len(counts)).round(2)


@broken(NAMES, PureDP(1, relation=REPLACE), by="testing", best=SURE)
def names_as_columns_of_an_arrow_table(data: list[str]) -> Any:
    import pyarrow as pa

    return pa.table({name: [data.count(name) + _lap(2)] for name in sorted(set(data))})


@broken(VOTES, PureDP(1), by="testing", best=SURE)
def keys_in_the_order_of_the_true_counts(data: list[str]) -> dict[str, float]:
    order = sorted("ba", key=lambda name: -data.count(name))
    return {name: data.count(name) + _lap(2) for name in order}


@broken(VOTES, PureDP(1), by="testing", best=SURE)
def order_inside_a_text(data: list[str]) -> str:
    return json.dumps(keys_in_the_order_of_the_true_counts(data))


@broken((THREE, TWO), PureDP(1), by="testing")
def count_in_a_message(data: list[int]) -> float:
    """One run in two fails, and its message has the true count."""
    if np.random.random() < 0.5:
        raise ValueError(f"bad row after {len(data)} rows")
    return len(data) + _lap(1)


@broken((THREE, TWO), PureDP(1), by="testing", best=SURE)
def count_in_a_warning(data: list[int]) -> float:
    warnings.warn(f"{len(data)} rows", stacklevel=1)
    return len(data) + _lap(1)


@broken((THREE, TWO), PureDP(1), by="testing", best=SURE)
def count_that_is_printed(data: list[int]) -> float:
    print("rows:", len(data))
    return len(data) + _lap(1)


@broken((THREE, TWO), PureDP(1), by="testing", best=SURE)
def count_in_a_file(data: list[int]) -> float:
    (Path(tempfile.gettempdir()) / "deniable-zoo.txt").write_text(str(len(data)))
    return len(data) + _lap(1)


@broken((THREE, TWO), PureDP(1), by="testing", best=SURE)
def low_word_of_a_large_integer(data: list[int]) -> int:
    """Noise in units of 1024: the last ten bits are the count."""
    return (1 << 60) + len(data) + (int(np.random.laplace(0, 1e6)) << 10)


@broken((THREE, TWO), PureDP(1), by="testing", best=SURE)
def type_that_depends_on_the_data(data: list[int]) -> Any:
    value = float(round(len(data) + _lap(1)))
    return int(value) if len(data) == 3 else value


@broken((THREE, TWO), PureDP(1), by="testing", best=SURE)
def dtype_that_depends_on_the_data(data: list[int]) -> Any:
    return np.zeros(2, dtype=np.float32 if len(data) == 3 else np.float64) + _lap(1)


@broken((THREE, TWO), PureDP(1), by="testing")
def number_in_a_text(data: list[int]) -> str:
    return f"about {len(data) + np.random.laplace(0, 0.25):.2f}"


@broken((THREE, TWO), PureDP(1), by="testing")
def date_with_too_little_noise(data: list[int]) -> datetime.datetime:
    return datetime.datetime(2020, 1, 1) + datetime.timedelta(days=len(data) + np.random.laplace(0, 0.25))


@broken((THREE, TWO), PureDP(1), by="testing", best=SURE)
def count_in_an_attribute(data: list[int]) -> Any:
    answer = type("Answer", (), {})()
    answer.value, answer.rows = len(data) + _lap(1), len(data)
    return answer


@broken((THREE, TWO), PureDP(1), by="testing", best=SURE)
def gradient_without_noise_where_it_is_sparse(data: list[int]) -> Any:
    import torch

    values = torch.zeros(4)
    values[: len(data)] = torch.randn(len(data))
    return values.to_sparse()
