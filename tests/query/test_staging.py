"""Plans in stages: one fixed event, charged first; looking is free; what is found is said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from deniable.accounting import account
from deniable.accounting.filters import cost
from deniable.errors import BudgetExceeded, DeniableError, InvalidArgument, QueryError
from deniable.events import Claimed
from deniable.guarantees import GDP, RDP, TCDP, ZCDP, ApproxDP, Guarantee, PureDP
from deniable.ledger import Ledger
from deniable.query import AtMost, Session, StagedPlan, planning, staging
from deniable.query.engines import DuckDB
from deniable.units import Relation

SQL = "SELECT city, COUNT(*) AS n, AVG(cost) AS mean FROM visits GROUP BY city"
KEYS = {"city": ["Bern", "Basel"]}
STATED: dict[str, Any] = {"keys": KEYS, "bounds": {"cost": (0, 1000)}, "per_unit": AtMost(groups=2, rows=4)}
PRIVATE: dict[str, Any] = {"keys": KEYS, "bounds": "private", "per_unit": "private"}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.create(tmp_path / "hospital.ledger", unit="patient", budget=PureDP(3)) as found:
        yield found


def visits() -> pd.DataFrame:
    random = np.random.default_rng(2)
    patients = random.integers(0, 3000, 9000)
    return pd.DataFrame(
        {
            "patient": patients,
            "city": np.array(["Bern", "Basel"])[patients % 2],
            "cost": random.uniform(100, 900, 9000),
        }
    )


@pytest.fixture
def session(ledger: Ledger) -> Iterator[Session]:
    with Session({"visits": visits()}, ledger=ledger) as found:
        yield found


def test_the_parts_add_up_to_epsilon_and_the_event_costs_no_more(session: Session) -> None:
    plan = session.plan(SQL, epsilon=1, diagnose=0.05, **PRIVATE)
    assert isinstance(plan, StagedPlan)
    parts = [stage.epsilon for stage in plan.stages] + [plan.answer.cost.epsilon]
    assert parts == [Fraction(part, 1000) for part in (65, 65, 160, 50, 660)]
    assert sum(parts) == plan.cost.epsilon == 1
    assert account(plan.event).epsilon(0) <= 1 + 1e-12


def test_the_event_does_not_depend_on_what_is_found(session: Session, ledger: Ledger) -> None:
    plan = session.plan(SQL, epsilon=1, diagnose=0.05, **PRIVATE)
    claims = [part.guarantee for part in plan.event.parts if isinstance(part, Claimed)]
    measures = [part.amount for part in plan.answer.noises]
    assert [claim.epsilon for claim in claims] == [*measures, Fraction(1, 20)]
    assert sum(measures) == Fraction(66, 100)
    one, two = plan.run(), plan.run()
    assert one.event == two.event == plan.event
    assert {charge.event for charge in ledger.charges()} == {plan.event}
    assert one.cost == plan.cost


@pytest.mark.parametrize("found", [(-10, 10), (0, 10), (-7, 20), (0, 1)])
def test_promises_hold_for_whatever_bounds_are_found(session: Session, found: tuple[int, int]) -> None:
    """Bounds around 0 make the sum of an average the same measure as a sum, which then has both their ε. The promises
    are for measures of a kind, so they cover that."""
    sql = "SELECT SUM(cost) AS s, AVG(cost) AS a, STDDEV(cost) AS d, MEDIAN(cost) AS m FROM visits"
    plan = session.plan(sql, epsilon=1, bounds="private", per_unit="private")
    settled = plan.settle({"cost": found}, AtMost(groups=1, rows=3))
    kept: dict[object, Fraction] = {}
    for part in settled.noises:
        kept[staging._kind(part.measure)] = kept.get(staging._kind(part.measure), Fraction(0)) + part.amount
    assert list(kept.values()) == [event.guarantee.epsilon for event in staging.promises(plan.answer, plan.promise)]
    assert len(settled.noises) == (4 if found == (-10, 10) else 5)
    assert len(kept) == 4


def test_an_answer_whose_noise_is_known_is_charged_as_what_it_is(session: Session) -> None:
    plan = session.plan(SQL, epsilon=1, diagnose=0.05, **STATED)
    assert plan.settled
    assert plan.event == plan.beyond.event + plan.answer.event + plan.diagnosis.event
    assert not any(isinstance(part, Claimed) for part in plan.event.parts)


def test_the_answer_is_planned_for_what_was_found(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    from deniable.query import planning

    answered: list[planning.QueryPlan] = []
    true = planning.answer
    monkeypatch.setattr(planning, "answer", lambda plan, **more: answered.append(plan) or true(plan, **more))
    release = session.plan(SQL, epsilon=1, **PRIVATE).run()
    (plan,) = answered
    assert plan.cost.epsilon == Fraction(71, 100)
    low, high = release.found.bounds["cost"]
    (values,) = [v for v in plan.bounded.values if v.grid is not None]
    assert (values.grid.low, values.grid.high) == (low, high)
    limits = release.found.limits
    assert plan.limits == replace(limits.within(2), groups=min(limits.groups, 2))
    assert plan.limits.most_rows == limits.total
    for part in plan.noises:
        assert part.move.sensitivity / part.scale == part.amount, "noise for the sensitivity of what was found"
    assert sum(part.amount for part in plan.noises) == Fraction(71, 100)


def test_found_keys_keep_the_delta_that_was_charged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The default δ is a share of what the ledger has left, which is less after the charge than before."""
    from deniable.query import planning

    answered: list[planning.QueryPlan] = []
    true = planning.answer
    monkeypatch.setattr(planning, "answer", lambda plan, **more: answered.append(plan) or true(plan, **more))
    frame = pd.DataFrame({"patient": [1, 2], "city": ["Bern", "Basel"], "cost": [1.0, 2.0]})
    budget = ApproxDP(3, 1e-6)
    with (
        Ledger.create(tmp_path / "delta.ledger", unit="patient", budget=budget) as ledger,
        Session({"visits": frame}, ledger=ledger) as session,
    ):
        plan = session.plan(SQL, epsilon=1, **{**PRIVATE, "keys": None})
        assert plan.cost.delta == plan.answer.cost.delta == Fraction(1, 10**8)
        assert "which costs δ = 1e-8, a hundredth of what the ledger has left" in str(plan)
        stated = session.plan(SQL, epsilon=1, delta=1e-9, **{**PRIVATE, "keys": None})
        assert "which costs δ = 1e-9\n" in str(stated)
        assert plan.run().cost == plan.cost
        assert answered[0].cost.delta == Fraction(1, 10**8)
        deltas = [getattr(part.guarantee, "delta", 0) for part in plan.event.parts if isinstance(part, Claimed)]
        assert deltas == [Fraction(1, 10**8)]
        (charge,) = ledger.charges()
        assert charge.event == plan.event


def test_what_was_found_is_said(tmp_path: Path) -> None:
    """3,000 patients, about 3 visits each, and costs in [100, 900]: the outer cells hold a thousand ones and more, the
    noise is of scale 0.1, so both are found but for a probability of e^(−80)."""
    with (
        Ledger.create(tmp_path / "large.ledger", unit="patient", budget=PureDP(200)) as ledger,
        Session({"visits": visits()}, ledger=ledger) as session,
    ):
        release = session.plan(SQL, epsilon=200, diagnose=0.1, **PRIVATE).run()
    low, high = release.found.bounds["cost"]
    assert low <= 100 < 1000 <= high
    assert 3 <= release.found.limits.rows <= 30
    text = str(release)
    assert f"found      bounds of cost: [{low}, {high}]" in text
    assert "left out" in text
    found = json.loads(release.to_json())
    assert found["found"]["bounds"] == {"cost": [float(low), float(high)]}
    assert found["found"]["per_unit"]["total"] == release.found.limits.total
    assert 0 <= found["diagnosis"]["left_out"]["low"] <= found["diagnosis"]["left_out"]["high"] <= 1
    assert found["diagnosis"]["clamped"] == {}, "what was found leaves out, and clamps nothing"


def test_the_diagnosis_sees_the_bias(session: Session) -> None:
    """Half of the values are above 500. The noise of each count has scale 3·2/0.5 = 12, so an interval that fails with
    probability 1e-9 is ± 0.08 wide, and lies within 0.2 of one half but for a probability of e^(−40)."""
    told = {"keys": KEYS, "bounds": {"cost": (0, 500)}, "per_unit": AtMost(groups=1, rows=2)}
    findings = session.plan(SQL, epsilon=1, diagnose=0.5, confidence=1 - 1e-9, **told).run().findings
    assert 0.3 < findings.clamped["cost"].low < findings.clamped["cost"].high < 0.7
    assert findings.dropped.low > 0.15, "many have more than two visits"


def test_looking_is_free(session: Session, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: Any, **__: Any) -> None:
        raise AssertionError("the engine ran")

    monkeypatch.setattr(DuckDB, "run", read)
    for given in (STATED, PRIVATE):
        plan = session.plan(SQL, epsilon=1, diagnose=0.05, **given)
        assert plan.explain()
        assert plan._repr_html_()
        assert plan.to_json()
        assert plan.event
        assert str(plan.cost)
        assert str(plan.error)
    assert session.plan(SQL, error=500, group_size=1000, **STATED).explain()
    assert not list(ledger.charges())
    with pytest.raises(AssertionError, match="the engine ran"):
        plan.run()
    assert len(list(ledger.charges())) == 1, "the charge comes before the first survey"


def test_a_refused_charge_surveys_nothing(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = session.plan(SQL, epsilon=4, **PRIVATE)
    monkeypatch.setattr(DuckDB, "run", None)
    with pytest.raises(BudgetExceeded):
        plan.run()


def test_a_plan_in_stages_says_its_rules(session: Session) -> None:
    text = session.plan(SQL, epsilon=1, diagnose=0.05, weights={"n": 2}, **PRIVATE).explain()
    for part in (
        "cost    ε ≤ 1.00, δ = 0, one patient added or removed",
        "keys    city: 2 declared, all of them released",
        "limits  to be found with ε = 0.065, at most 100000 rows of each patient; a patient with more is left out",
        "bounds  cost: to be found with ε = 0.065; a patient with a value outside is left out",
        "covers  noise and limits, but for the patients beyond, who are left out; ε = 0.16 counts them",
        "split   n 2 : mean 1",
        "bias    ε = 0.05 for the share of rows left out",
        "bounds of cost 0.065 30.8 2",
        "COUNT(*) 0.44 set by what is found",
        "units beyond the limits 0.16 6.25 1",
        "released  error of the noise, 95 %, which depends on what is found; for example",
        "n         ± 7 with 1 row in 1 group of each patient and cost within [0, 1]; ± ",
        "-- bounds of cost\nWITH base",
        "-- rows per unit\nWITH base",
        "-- units beyond the limits\nWITH base",
        "-- rows left out\nWITH base",
        "-- answer, with the bounds and limits found in place of the widest\nWITH base",
    ):
        assert part in text or part in " ".join(text.split())


def test_one_column_may_be_private_and_another_stated(ledger: Ledger) -> None:
    frame = pd.DataFrame({"patient": [1, 2], "cost": [1.0, 2.0], "age": [3, 4]})
    with Session({"visits": frame}, ledger=ledger) as session:
        plan = session.plan(
            "SELECT SUM(cost) AS c, SUM(age) AS a FROM visits",
            epsilon=1,
            bounds={"cost": "private", "age": (0, 120)},
            per_unit=AtMost(groups=1, rows=1),
        )
        assert [survey.column.name for survey in plan.bounds] == ["cost"]
        assert "age clamped to [0, 120]" in str(plan)
        assert len(plan.run().rows) == 1


def test_under_replace(session: Session, tmp_path: Path) -> None:
    frame = pd.DataFrame({"patient": [1, 2], "city": ["Bern", "Basel"], "cost": [1.0, 2.0]})
    budget = PureDP(3, relation=Relation.REPLACE)
    with (
        Ledger.create(tmp_path / "replace.ledger", unit="patient", budget=budget) as ledger,
        Session({"visits": frame}, ledger=ledger) as other,
    ):
        plan = other.plan(SQL, epsilon=1, diagnose=0.05, **PRIVATE)
        assert [survey.event.sensitivity for survey in plan.surveys] == [4, 2]
        assert plan.run().rows
        assert ledger.remaining().epsilon == 2


REFUSED: dict[str, tuple[dict[str, Any], type[Exception], str]] = {
    "another word": ({**STATED, "bounds": "secret"}, InvalidArgument, '"private"'),
    "another word for a column": ({**STATED, "bounds": {"cost": "wide"}}, InvalidArgument, "bounds"),
    "a column that is not added up": (
        {**STATED, "bounds": {"cost": (0, 1), "city": "private"}}, InvalidArgument, "columns that the query adds up"
    ),
    "no share to cover with": ({**STATED, "cover": -0.1}, InvalidArgument, "cover must be a share of ε from 0"),
    "nothing for the answer": ({**STATED, "cover": 0.5, "diagnose": 0.5}, InvalidArgument, "below 0.5, which the"),
    "another word for limits": ({**STATED, "per_unit": "some"}, InvalidArgument, '"private"'),
    "no share": ({**STATED, "diagnose": 0}, InvalidArgument, "diagnose must be a share"),
    "a large share": ({**STATED, "diagnose": 0.6}, InvalidArgument, "diagnose must be a share"),
    "not a share": ({**STATED, "diagnose": "much"}, InvalidArgument, "diagnose must be a share"),
}  # fmt: skip


def test_an_error_needs_what_it_rests_on(session: Session, ledger: Ledger) -> None:
    for missing, expected in (("bounds", "needs bounds for cost"), ("per_unit", "may own many rows")):
        with pytest.raises(QueryError, match=expected) as caught:
            session.plan(SQL, error=50, group_size=1000, **{**STATED, missing: None})
        assert "give epsilon in place of an error" in str(caught.value)
    assert not list(ledger.charges())


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_how_to_choose(session: Session, ledger: Ledger, case: str) -> None:
    given, kind, expected = REFUSED[case]
    with pytest.raises(kind) as caught:
        session.plan(SQL, epsilon=1, **given)
    assert expected in str(caught.value)
    assert not list(ledger.charges())


def test_rows_have_no_limits_to_find(tmp_path: Path) -> None:
    frame = pd.DataFrame({"cost": [1.0, 2.0]})
    with (
        Ledger.create(tmp_path / "rows.ledger", unit="row", budget=PureDP(9)) as ledger,
        Session({"visits": frame}, ledger=ledger) as session,
    ):
        with pytest.raises(InvalidArgument, match="protects single rows"):
            session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1, per_unit="private")
        with pytest.raises(InvalidArgument, match="clamps nothing"):
            session.plan("SELECT COUNT(*) AS n FROM visits", epsilon=1, diagnose=0.05)
        plan = session.plan("SELECT SUM(cost) AS s FROM visits", epsilon=1, bounds="private", diagnose=0.05)
        findings = plan.run().findings
        assert findings.dropped is not None
        assert findings.clamped == {}


@pytest.mark.parametrize("private", [True, False])
def test_what_is_charged_is_what_is_drawn_whoever_charges_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private: bool
) -> None:
    """Another session takes the δ that is left between two looks at the ledger; the promise stays the first one."""
    options: dict[str, Any] = {"noise": "laplace"} if private else {"keys": {"city": [f"k{i}" for i in range(500)]}}
    with Ledger.create(tmp_path / "a.ledger", unit="person", budget=ApproxDP(100, 1e-5)) as ledger:
        frame = pd.DataFrame({"person": [1, 1, 2], "city": ["a", "b", "a"], "x": [1.0, 2.0, 3.0]})
        with Session({"t": frame}, ledger=ledger) as session:
            promise, looks = planning.promise, []

            def look(*args: Any) -> Any:
                looks.append(promise(*args))
                if len(looks) == 1:
                    taken = ApproxDP(0.1, ledger.remaining().delta * (Fraction(9, 10) if private else 1), unit="person")
                    ledger.charge(Claimed(taken), purpose="another session")
                return looks[-1]

            monkeypatch.setattr(planning, "promise", look)
            plan = session.plan("SELECT city, SUM(x) AS s FROM t GROUP BY city", epsilon=1, **options)
            settled = plan.settle(
                {b.column: (Fraction(0), Fraction(5)) for b in plan.bounds}, AtMost(groups=500, rows=3)
            )
            if private:
                assert cost(settled.event).delta <= cost(plan.event).delta
            else:
                charged = {plan.answer.noise.form, *(other.form for other in plan.answer.alternatives)}
                assert settled.noise.form in charged


def test_a_plan_tells_the_error_of_what_may_be_found(tmp_path: Path) -> None:
    """Before anything is paid, also where limits and bounds are left out; the numbers are those of such limits."""
    frame = pd.DataFrame({"person": [1, 2], "city": ["a", "b"], "cost": [1.0, 2.0]})
    ledger = Ledger.create(tmp_path / "l", unit="person", budget=ApproxDP(9, 1e-6))
    with Session({"t": frame}, ledger=ledger) as session:
        grouped = session.plan("SELECT city, COUNT(*) AS n FROM t GROUP BY city", epsilon=1, keys={"city": ["a", "b"]})
        answer = grouped.promise
        small, larger = (
            session.plan(grouped.sql, cost=answer, keys={"city": ["a", "b"]}, per_unit=limits, cover=0).error["n"]
            for limits in (AtMost(groups=1, rows=1), AtMost(groups=2, rows=2))
        )
        few, more = "1 row in 1 group of each person", "2 rows in each of 2 groups of each person"
        last = str(grouped).splitlines()[-1]
        assert last.split(maxsplit=1) == ["n", f"{small} with {few}; {larger} with {more}"]
        text = str(session.plan("SELECT SUM(cost) AS s FROM t", epsilon=1, per_unit=AtMost(groups=1, rows=3)))
        assert re.search(r"s +± [\d.]+ with cost within \[0, 1\]; ± [\d,]+ with cost within \[0, 100\]$", text)
    assert not list(ledger.charges())


@pytest.mark.parametrize("budget", [ZCDP(1), RDP(order=8, epsilon=3), TCDP(1, 3)])
def test_an_epsilon_is_enough_on_every_kind_of_ledger(tmp_path: Path, budget: Guarantee) -> None:
    """Limits and bounds are found with a promise that has no δ, which the budget has not."""
    frame = pd.DataFrame({"person": [1, 2], "cost": [1.0, 2.0]})
    ledger = Ledger.create(tmp_path / "l", unit="person", budget=budget)
    with Session({"t": frame}, ledger=ledger) as session:
        release = session.sql("SELECT COUNT(*) AS n, SUM(cost) AS s FROM t", epsilon=0.5)
        assert release.cost == PureDP(0.5, unit="person")
        assert account(release.event).epsilon(delta=0) <= 0.5
        with pytest.raises(InvalidArgument, match="State the cost, as in cost="):
            session.plan("SELECT COUNT(*) AS n FROM t", epsilon=0.5, noise="gaussian")


def test_gaussian_differential_privacy_is_refused_with_what_to_do(tmp_path: Path) -> None:
    frame, sql = pd.DataFrame({"person": [1, 2]}), "SELECT COUNT(*) AS n FROM t"
    for name, budget in (("a", ApproxDP(3, 1e-6)), ("b", GDP(1))):
        ledger = Ledger.create(tmp_path / name, unit="person", budget=budget)
        with Session({"t": frame}, ledger=ledger) as session, pytest.raises(DeniableError) as refused:
            session.plan(sql, cost=GDP(0.2, unit="person"), per_unit=AtMost(groups=1, rows=1))
        remedy = "cost=dn.ZCDP(0.02) has about the same noise" if name == "a" else "a budget in ApproxDP or ZCDP"
        assert remedy in str(refused.value)
