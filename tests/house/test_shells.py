"""What a shell shows of an answer, a plan or a curve: what `print` shows, or one line; never the insides."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import deniable as dn


def test_a_shell_shows_what_print_shows(tmp_path: Path) -> None:
    (tmp_path / "visits.csv").write_text("patient_id,cost\n" + "".join(f"p{i},{i}\n" for i in range(50)))
    ledger = dn.Ledger.create(tmp_path / "a.ledger", unit="patient_id", budget=dn.PureDP(9))
    with dn.Session(tmp_path / "visits.csv", ledger=ledger) as session:
        limits = dn.AtMost(groups=1, rows=1)
        plan = session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1, per_unit=limits)
        staged = session.plan("SELECT SUM(cost) AS c FROM visits", epsilon=1, bounds="private", per_unit=limits)
        shown = [plan, staged, plan.run()]
    report = dn.audit(
        lambda rows: len(rows) + np.random.laplace(),
        neighbours=([1, 2], [1]),
        claim=dn.PureDP(1),
        runs=100,
        confidence=0.99,
    )
    for each in (*shown, report, dn.explain(dn.PureDP(1))):
        assert repr(each) == str(each)
        assert "Fraction(" not in repr(each)


def test_a_curve_is_one_line() -> None:
    profile = dn.account(dn.dpsgd(noise_multiplier=1, rate=0.01, steps=10))
    profile.epsilon(1e-5)
    assert repr(profile) == "Profile(contour integral, else grid; one record added or removed)"
    found = dn.calibrate(lambda s: dn.Gaussian(scale=s), dn.ApproxDP(1, 1e-5))
    assert len(repr(found)) < 200
