"""`Session.marginals`: one charge, tables that agree, intervals that cover."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

import deniable as dn
from deniable.errors import BudgetExceeded, InvalidArgument
from tests.synthesis.tables import CODES, COLUMNS, session, tabulated


def test_a_release_is_one_charge_and_its_tables_agree(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        plan = opened.marginals("people", [("sex", "age"), ("age", "married")], columns=COLUMNS, epsilon=2)
        assert not list(opened.ledger.charges())
        release = plan.run()
        (charge,) = list(opened.ledger.charges())
    assert charge.event == plan.event == release.event
    assert dn.account(plan.event).epsilon(delta=plan.cost.delta) <= 2
    np.testing.assert_allclose(release["sex", "age"].values.sum(axis=0), release["age"].values)
    np.testing.assert_allclose(release["age", "married"].values.sum(axis=1), release["age"].values)
    np.testing.assert_allclose(release["married"].values.sum(), release.total[0])
    assert release["age", "sex"].columns == ("sex", "age")
    assert plan.error[("sex", "age")] == pytest.approx(release["sex", "age"].radius)
    assert "before negative counts" in str(release)
    assert json.loads(release.to_json())["marginals"][0]["columns"] == ["sex", "age"]
    assert json.loads(plan.to_json())["rows_per_unit"] == 1
    assert "2 consistent marginals" in release.describe().title
    with pytest.raises(InvalidArgument, match="one marginal that was asked"):
        release["sex", "married"]


def test_counts_without_negatives_keep_the_total(tmp_path: Path) -> None:
    with session(tmp_path) as opened:
        release = opened.marginals("people", [("sex", "age")], columns=COLUMNS, epsilon=0.1).run()
    for one in release:
        assert (one.counts >= 0).all()
        assert one.counts.sum() == pytest.approx(max(0.0, one.values.sum()))
        cells = one.to_columns()
        assert list(cells) == ["sex", "age", "count", "count_low", "count_high", "count_projected"]
        assert len(cells["count"]) == one.values.size


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
def test_intervals_cover(tmp_path: Path, relation: str) -> None:
    """40 runs of 10 pairs at 80 %. Cells of one run depend on one another, so runs are counted: the mean coverage of 40
    runs is below 74 % or above 86 % less than once in 10,000 times."""
    codes = np.array(list(CODES.values())).T
    with session(tmp_path, epsilon=1000, relation=relation) as opened:
        plan = opened.marginals("people", 2, columns=COLUMNS, epsilon=1, delta=1e-7, confidence=0.8)
        every = [residual.columns for residual in plan.residuals]
        exact = {c: tabulated(codes, c, plan.domain.shape(c)) if c else np.array(12) for c in every}
        covered = []
        for _ in range(40):
            for one, clique in zip(plan.release(exact, plan.cost), combinations(range(5), 2), strict=True):
                truth = exact[clique]
                covered.append(((one.low <= truth) & (truth <= one.high)).mean())
    assert 0.74 < float(np.mean(covered)) < 0.86


def test_a_budget_that_is_too_small_refuses(tmp_path: Path) -> None:
    with session(tmp_path, epsilon=1) as opened:
        plan = opened.marginals("people", 1, columns=COLUMNS, epsilon=2)
        with pytest.raises(BudgetExceeded):
            plan.run()
        assert not list(opened.ledger.charges())


def test_replaced_people_need_more_noise(tmp_path: Path) -> None:
    errors = {}
    for relation in ("add_remove", "replace"):
        (tmp_path / relation).mkdir()
        with session(tmp_path / relation, unit="who", relation=relation) as opened:
            for rows in (1, 3):
                limits = dn.AtMost(groups=1, rows=rows)
                plan = opened.marginals("people", ["age"], columns=COLUMNS, epsilon=1, per_unit=limits)
                errors[relation, rows] = plan.error["age",]
    assert errors["add_remove", 3] == pytest.approx(3 * errors["add_remove", 1], rel=1e-3)
    assert errors["replace", 1] > 1.3 * errors["add_remove", 1]
