"""Scalers and encoders: declared ranges and categories, nothing learned."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from deniable.errors import InvalidArgument
from deniable.learning import BinEncoder, CategoryEncoder, RangeScaler


def test_nothing_is_learned_from_the_data() -> None:
    """The transform of one row is the same whatever was fitted."""
    row = [[3.0, -2.0]]
    for kind in (RangeScaler(bounds=[(0, 10), (-5, 5)]), BinEncoder(edges=[[1, 2], [0]])):
        one = kind.fit([[1.0, 1.0], [9.0, 4.0]]).transform(row)
        two = kind.fit([[1e9, -1e9], [0.0, 0.0]]).transform(row)
        assert (one == two).all()
    words = CategoryEncoder(categories=[["a", "b"]])
    assert (words.fit([["a"]]).transform([["b"]]) == words.fit([["z"]]).transform([["b"]])).all()


def test_ranges_are_clipped() -> None:
    found = RangeScaler(bounds=(0, 4)).fit_transform(np.array([[-1.0, 0.0], [1.0, 2.0], [4.0, 9.0]]))
    assert found.tolist() == [[-1.0, -1.0], [-0.5, 0.0], [1.0, 1.0]]


def test_missing_or_wrong_declarations_are_errors() -> None:
    wrong = [
        *(RangeScaler(bounds=bounds) for bounds in (None, (1, 1), [(0, 1)] * 3, "ab", (0, np.inf))),
        *(BinEncoder(edges=edges) for edges in (None, [[1], [2, 1]], [[1]])),
        *(CategoryEncoder(categories=lists) for lists in (None, [["a"]], [["a", "a"], ["b"]], [[], ["b"]])),
    ]
    for kind in wrong:
        with pytest.raises(InvalidArgument):
            kind.fit(np.array([[1.0, 2.0]]))


def test_unknown_categories_and_missing_values_are_zeros() -> None:
    frame = pd.DataFrame({"city": ["Rome", "Oslo", None], "sex": ["f", "x", "m"]})
    encoder = CategoryEncoder(categories=[["Oslo", "Rome"], ["f", "m"]]).fit(frame)
    assert encoder.transform(frame).tolist() == [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 1]]
    assert encoder.get_feature_names_out().tolist() == ["city_Oslo", "city_Rome", "sex_f", "sex_m"]


def test_bins_name_their_edges() -> None:
    encoder = BinEncoder(edges=[[18, 65]]).fit([[1.0]])
    assert encoder.get_feature_names_out(["age"]).tolist() == ["age_from_-inf", "age_from_18", "age_from_65"]
