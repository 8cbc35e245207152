"""`dn.audit` as people call it: verdicts, bounds, budgets, bad input. About 15 seconds."""

from __future__ import annotations

import json
import math
import pickle
import random
import time
from collections import Counter
from typing import Any

import numpy as np
import pytest

import deniable as dn
from deniable.auditing import (
    AuditReport,
    Booleans,
    Categories,
    Numbers,
    Pair,
    Search,
    TableRows,
    audit_scores,
    neighbours_of,
)
from deniable.auditing.outputs import read_output
from deniable.auditing.worlds import Trial, Worlds
from deniable.errors import InvalidArgument, UnitMismatch
from deniable.units import Relation

D, WITHOUT = [1, 2, 3], [1, 2]
PAIR = (D, WITHOUT)
SYSTEM = random.SystemRandom()


def response(chance: float) -> Any:
    """Randomized response about the third record, from randomness that nobody records."""
    return lambda rows: (len(rows) == 3) == (SYSTEM.random() < chance)


def honest(rows: list[int]) -> bool:
    """ε = 1 exactly: on the boundary."""
    found: bool = response(math.e / (1 + math.e))(rows)
    return found


def too_sure(rows: list[int]) -> bool:
    """ε = 2.5."""
    found: bool = response(math.exp(2.5) / (1 + math.exp(2.5)))(rows)
    return found


def test_a_false_claim_is_refuted_and_bounded() -> None:
    """Refuted within 2000 runs but for a chance of 1e-6; the bound is wrong with probability at most 1e-6."""
    report = dn.audit(too_sure, neighbours=PAIR, claim=dn.PureDP(1), confidence=1 - 1e-6, runs=4000)
    assert (report.verdict, report.by) == ("refuted", "testing")
    assert 1 <= report.lower < 2.5
    assert report.claimed == 1
    assert report.evidence >= 6
    assert report.runs < 2000
    assert all(point.lower < 2.5 for point in report.curve)
    assert [point.delta for point in report.curve] == [0, 1e-3, 1e-2, 0.05, 0.2]
    assert "REFUTED" in str(report)


def test_a_true_claim_is_consistent() -> None:
    """False alarm with probability at most 1e-6."""
    report = dn.audit(honest, neighbours=PAIR, claim=dn.PureDP(1), confidence=1 - 1e-6, runs=3000)
    assert (report.verdict, report.by, report.runs) == ("consistent", None, 3000)
    assert 0.3 < report.lower < 1
    assert str(report).startswith("consistent with ε ≤ 1.00, δ = 0, one record added or removed")


def test_detectors_learn_a_round_only_after_they_have_judged_it() -> None:
    class Spy:
        name = "spy"

        def __init__(self) -> None:
            self.learnt: list[int] = []
            self.judged: list[int] = []

        def posterior(self, outputs: Any) -> Any:
            self.judged += [id(output) for output in outputs]
            assert len(self.judged) > len(self.learnt)
            return np.full(len(outputs), 0.5)

        def learn(self, outputs: Any, worlds: Any) -> None:
            self.learnt += [id(output) for output in outputs]
            assert self.learnt == self.judged
            assert len(worlds) == len(outputs)

    spy = Spy()
    dn.audit(
        honest, neighbours=PAIR, claim=dn.PureDP(1), runs=200, detectors=lambda: (spy,), replay=False, confidence=0.99
    )
    assert len(spy.judged) == 199  # one run looked whether the input is changed


def test_a_gaussian_claim_also_gets_a_mu() -> None:
    """Normal noise at half its scale, drawn where no replay sees it; each bound is wrong with probability 1e-6."""

    def low(rows: list[int]) -> float:
        return len(rows) + SYSTEM.gauss(0, 0.5)

    report = dn.audit(low, neighbours=PAIR, claim=dn.GDP(1), confidence=1 - 1e-6, runs=4000)
    assert report.refuted
    assert report.mu is not None
    assert 1 <= report.mu < 2
    assert (report.delta, round(report.claimed, 2)) == (1e-5, 4.38)


def test_the_claim_may_be_the_mechanisms_own_event() -> None:
    counter = dn.mechanisms.count(epsilon=1)
    report = dn.audit(counter, neighbours=([True, True], [True]), runs=300, confidence=0.99)
    assert not report.refuted
    with pytest.raises(InvalidArgument, match="claim must be given"):
        dn.audit(len, neighbours=PAIR, confidence=0.99)


def test_a_crash_in_one_world_is_evidence() -> None:
    def fragile(rows: list[int]) -> int:
        if len(rows) == 3 and SYSTEM.random() < 0.9:
            raise ValueError("3 rows: 1, 2, 3")
        return 0

    report = dn.audit(fragile, neighbours=PAIR, claim=dn.PureDP(1), confidence=1 - 1e-6, runs=1000)
    assert report.refuted
    ((name, on_first, on_second),) = report.crashes
    assert (name, on_second) == ("ValueError", 0)
    assert on_first > 10
    crash = next(finding for finding in report.findings if finding.kind == "crash")
    assert "ValueError was raised on D only" in crash.text
    assert "1, 2, 3" not in str(report) + report.to_json()


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "raises on both": ({"mechanism": lambda rows: 1 / 0}, "ZeroDivisionError"),
    "returns None": ({"mechanism": lambda rows: None}, "None or NaN"),
    "returns NaN": ({"mechanism": lambda rows: math.nan}, "None or NaN"),
    "unreadable output": ({"mechanism": lambda rows: object()}, "numbers, text, lists"),
    "no function": ({"mechanism": 5}, "mechanism must be a function"),
    "confidence 1": ({"confidence": 1}, "confidence"),
    "confidence 0": ({"confidence": 0}, "confidence"),
    "confidence nan": ({"confidence": math.nan}, "confidence"),
    "no runs": ({"runs": 0}, "runs"),
    "no seconds": ({"seconds": 0}, "seconds"),
    "one input": ({"neighbours": [1]}, "neighbours must be a pair"),
    "no claim": ({"claim": "private"}, "claim must be a guarantee"),
    "timing in parallel": ({"timing": True, "n_jobs": 2}, "n_jobs"),
    "delta": ({"delta": 2}, "delta"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case: str) -> None:
    changes, words = BAD[case]
    arguments: dict[str, Any] = {"mechanism": honest, "neighbours": PAIR, "claim": dn.PureDP(1), "runs": 100, **changes}
    mechanism = arguments.pop("mechanism")
    with pytest.raises(InvalidArgument, match=words):
        dn.audit(mechanism, **arguments)


def test_inputs_that_are_no_neighbours_are_refused() -> None:
    with pytest.raises(UnitMismatch, match="REPLACE"):
        dn.audit(honest, neighbours=PAIR, claim=dn.PureDP(1, relation=dn.REPLACE), confidence=0.99)
    dn.audit(
        honest, neighbours=Pair(*PAIR, check=False), claim=dn.PureDP(1, relation=dn.REPLACE), runs=50, confidence=0.99
    )


def test_ragged_outputs_and_sometimes_none_are_fine() -> None:
    def ragged(rows: list[int]) -> list[float] | None:
        return [SYSTEM.random()] * SYSTEM.randrange(4) or None

    assert not dn.audit(ragged, neighbours=PAIR, claim=dn.PureDP(1), runs=200, confidence=0.99).refuted


def test_a_mechanism_that_changes_its_input_gets_copies() -> None:
    def greedy(rows: list[int]) -> float:
        rows.pop()
        return len(rows) + SYSTEM.gauss(0, 10)

    report = dn.audit(greedy, neighbours=PAIR, claim=dn.PureDP(1), runs=200, confidence=0.99)
    assert not report.refuted
    assert "input" in [finding.kind for finding in report.findings]


def test_the_budget_in_seconds_and_runs() -> None:
    start = time.monotonic()
    report = dn.audit(honest, neighbours=PAIR, claim=dn.PureDP(1), runs=10**9, seconds=0.5, confidence=0.99)
    assert report.runs < 10**6
    assert time.monotonic() - start < 60
    seen: list[Any] = []
    report = dn.audit(honest, neighbours=PAIR, claim=dn.PureDP(1), runs=100, progress=seen.append, confidence=0.99)
    assert report.runs == 100 == seen[-1].runs
    assert [step.runs for step in seen] == sorted(step.runs for step in seen)


def noisy(rows: list[int]) -> float:
    return len(rows) + float(np.random.default_rng().laplace(0, 2)) + random.gauss(0, 1)


def test_a_seeded_audit_is_the_same_on_one_worker_and_on_two() -> None:
    def found(**settings: Any) -> AuditReport:
        return dn.audit(noisy, neighbours=PAIR, claim=dn.PureDP(0.2), runs=400, seed=5, **settings)

    one, again, two = found(), found(), found(n_jobs=2)
    assert (one.evidence, one.lower, one.runs) == (again.evidence, again.lower, again.runs)
    assert (one.evidence, one.lower, one.runs) == (two.evidence, two.lower, two.runs)


class Held:
    """A mechanism that keeps a generator, as a worker gets it by value."""

    def __init__(self) -> None:
        self.deep = {"generators": [np.random.default_rng(1)]}

    def __call__(self, rows: list[int]) -> int:
        spent = sum(i * i for i in range(20_000))
        stop = 1 - math.exp(-1)
        generator = self.deep["generators"][0]
        return len(rows) + int(generator.geometric(stop)) - int(generator.geometric(stop)) + 0 * spent


def test_a_held_generator_does_not_repeat_itself_on_workers() -> None:
    """Every worker gets a copy. Copies that are not reseeded draw the same noise; these agree once in a million."""
    sent = pickle.dumps(Worlds(Held(), Pair(*PAIR), Trial(fragile=False, seconds=0.0)))
    groups = [pickle.loads(sent).run_group([(place, False) for place in range(12)], apart=True) for _ in range(2)]
    seen = [[each.output.numbers[0] for each in group] for group in groups]
    assert seen[0] != seen[1]
    report = dn.audit(
        Held(), neighbours=PAIR, claim=dn.PureDP(1), confidence=1 - 1e-6, runs=200, n_jobs=2, replay=False
    )
    assert not report.refuted
    assert "state" not in [finding.kind for finding in report.findings]


class Counting:
    """Numbers its answers: state that no reseeding touches."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, rows: list[int]) -> float:
        self.calls += 1
        return len(rows) + (self.calls * 0.618) % 1 * 4


def test_a_mechanism_with_state_of_its_own_is_audited_on_one_worker_and_says_so() -> None:
    report = dn.audit(Counting(), neighbours=PAIR, claim=dn.PureDP(1), runs=60, n_jobs=2, confidence=1 - 1e-6)
    assert "state" in [finding.kind for finding in report.findings]


def test_time_is_kept_whatever_hangs() -> None:
    """Try-outs and replays count too; a run that hangs is interrupted."""

    def hangs(rows: list[int]) -> float:
        time.sleep(30)
        return 0.0

    start = time.monotonic()
    report = dn.audit(hangs, neighbours=PAIR, claim=dn.PureDP(1), seconds=0.3, confidence=0.99)
    assert not report.refuted
    assert "time" in [finding.kind for finding in report.findings]

    def slow_for_three(rows: list[int]) -> float:
        if len(rows) == 3:
            time.sleep(30)
        return SYSTEM.random()

    late = dn.audit(slow_for_three, neighbours=PAIR, claim=dn.PureDP(1), timeout=0.02, runs=120, confidence=1 - 1e-6)
    assert late.refuted
    assert time.monotonic() - start < 25


def test_values_and_low_bits_have_verdicts_of_their_own() -> None:
    """NumPy's Laplace at the right scale: false alarms on values once in ten thousand, and the seed is fixed."""

    def count(rows: list[int]) -> float:
        return len(rows) + np.random.laplace(0, 1)

    report = dn.audit(count, neighbours=([1], []), claim=dn.PureDP(1), confidence=1 - 1e-4, runs=1500, seed=2)
    assert report.verdict == "consistent"
    assert report.low_bits is not None
    assert report.low_bits.verdict == "leaks"
    assert "low bits" in report.meaning
    whole = dn.audit(dn.mechanisms.count(epsilon=1), neighbours=([True], []), runs=60, confidence=0.999)
    assert whole.low_bits is None


def test_pairs_are_suggested_for_a_table() -> None:
    import pandas as pd

    table = pd.DataFrame({"id": [1, 1, 2, 3], "x": [1.0, 2.0, 90.0, 4.0], "city": ["a", "a", "a", "b"]})
    pairs = neighbours_of(table, unit="id")
    assert [pair.name for pair in pairs] == [
        "without the unit with most rows", "without the largest x", "without the rarest city",
    ]  # fmt: skip
    for pair in pairs:
        pair.checked(dn.ADD_REMOVE, dn.Unit.of("id"))

    def unclipped_total(frame: Any) -> float:
        return float(frame["x"].sum()) + np.random.laplace(0, 10)

    report = dn.audit(unclipped_total, neighbours=pairs, claim=dn.PureDP(1, unit="id"), confidence=0.999)
    assert (report.by, report.pair) == ("replay", "without the largest x")
    with pytest.raises(InvalidArgument, match="column of the table"):
        neighbours_of(table, unit="nobody")


def test_a_million_rows_are_compared_without_reading_each() -> None:
    """No assertion on time: reading each row would take a minute."""
    many = np.arange(1_000_000.0)
    for first, second in ((many, many[1:]), (many.tolist(), many[:-1].tolist())):
        Pair(first, second).checked(Relation.ADD_REMOVE)
    with pytest.raises(UnitMismatch):
        Pair(many, many[2:]).checked(Relation.ADD_REMOVE)


VALUES = (1, 1.0, True, 0, -0.0, None, "1", "", math.nan, (1,), 2**70)


@pytest.mark.parametrize("form", ["lists", "arrays", "objects", "records"])
def test_units_are_compared_by_value_wherever_their_rows_lie(form: str) -> None:
    """Two hundred random pairs of tables, against a count of each unit's rows one by one."""
    draw = random.Random(form)

    def table(rows: list[tuple[Any, Any]]) -> Any:
        if form == "records":
            return [{"id": owner, "x": value} for owner, value in rows]
        columns = {"id": [owner for owner, _ in rows], "x": [value for _, value in rows]}
        if form == "lists":
            return columns
        if form == "arrays":
            return {name: np.array(column, dtype=float) for name, column in columns.items()}
        return {name: np.array([*column, None], dtype=object)[:-1] for name, column in columns.items()}

    def units(rows: list[tuple[Any, Any]]) -> Counter[Any]:
        owned: dict[Any, list[Any]] = {}
        for owner, value in rows:
            owned.setdefault(read_output(owner).atom, []).append(read_output(value).atom)
        return Counter((owner, tuple(sorted(values, key=repr))) for owner, values in owned.items())

    values = (0.0, 1.0, math.nan) if form == "arrays" else VALUES
    owners = (1.0, 2.0, 3.0, 4.0) if form == "arrays" else ("a", "b", 1, "c")
    verdicts = set()
    for _ in range(200):
        first = [(draw.choice(owners), draw.choice(values)) for _ in range(draw.randrange(1, 9))]
        gone, row = draw.choice(owners), draw.randrange(len(first))
        second = draw.choice([
            [each for each in first if each[0] != gone],
            [*first[:row], (first[row][0], draw.choice(values)), *first[row + 1 :]],
            draw.sample(first, len(first)),
        ])  # fmt: skip
        one, two = units(first), units(second)
        right = ((one - two).total(), (two - one).total()) in ((1, 0), (0, 1))
        try:
            Pair(table(first), table(second)).checked(dn.ADD_REMOVE, dn.Unit.of("id"))
        except UnitMismatch:
            assert not right, (first, second)
        else:
            assert right, (first, second)
        verdicts.add(right)
    assert verdicts == {True, False}


def test_without_joblib_it_runs_on_one_core_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "joblib", None)
    with pytest.warns(RuntimeWarning, match=r"pip install 'deniable\[audit\]'"):
        dn.audit(noisy, neighbours=PAIR, claim=dn.PureDP(5), runs=400, n_jobs=2, confidence=0.99)


def test_timing_has_its_own_verdict() -> None:
    """The output tells nothing; the time tells everything. The claim covers outputs, so it stands."""

    def slow(rows: list[int]) -> int:
        until = time.perf_counter() + 0.0005 * (len(rows) == 3)
        while time.perf_counter() < until:
            pass
        return SYSTEM.randrange(3)

    report = dn.audit(slow, neighbours=PAIR, claim=dn.PureDP(0.5), runs=400, timing=True, confidence=0.99)
    assert report.verdict == "consistent"
    assert report.timing is not None
    assert report.timing.verdict == "leaks"
    assert "running times alone" in str(report)
    assert dn.audit(slow, neighbours=PAIR, claim=dn.PureDP(0.5), runs=100, confidence=0.99).timing is None


def test_a_report_is_json_both_ways_and_describes_itself() -> None:
    report = dn.audit(noisy, neighbours=PAIR, claim=dn.ApproxDP(1, 1e-6), runs=100, confidence=0.99)
    assert AuditReport.from_json(report.to_json()) == report
    assert json.loads(report.to_json())["verdict"] == "consistent"
    assert report.describe().guarantee == dn.ApproxDP(1, 1e-6)
    assert "measured" in dict(report.describe().facts)
    assert dn.explain(report).sections
    infinite = dn.audit(
        lambda rows: np.random.laplace(0, len(rows)), neighbours=PAIR, claim=dn.PureDP(1), confidence=0.99
    )
    assert infinite.lower == math.inf
    assert AuditReport.from_json(infinite.to_json()) == infinite
    for text in ("", "{}", "[]", '{"deniable": 1}', report.to_json().replace('"deniable": 1', '"deniable": 2')):
        with pytest.raises(InvalidArgument, match="text"):
            AuditReport.from_json(text)
    again = AuditReport.from_json(report.to_json()).describe()
    assert again.guarantee == dn.ApproxDP(report.claimed, 1e-6)  # one point of its curve, which the claim implies


def test_a_report_draws_itself_on_axes() -> None:
    from matplotlib.figure import Figure

    from deniable.explaining.audits import audit_figure

    report = dn.audit(honest, neighbours=PAIR, claim=dn.PureDP(1), runs=200, confidence=0.99)
    axes = Figure().add_subplot()
    report.plot(axes)
    assert [line.get_label() for line in axes.lines] == ["claimed", "measured, at least"]
    assert len(audit_figure(report.curve, verdict=report.verdict).lines) == 2


def test_scores_from_two_worlds() -> None:
    """Refuted, and not refuted, each but for a chance of 1e-6."""
    generator = np.random.default_rng()
    without, inside = generator.normal(0, 1, 3000), generator.normal(2.5, 1, 3000)
    report = audit_scores(without, inside, claim=dn.GDP(1), confidence=1 - 1e-6)
    assert report.refuted
    assert report.mu is not None
    assert report.mu < 2.5
    same = audit_scores(without[:1500], without[1500:], claim=dn.PureDP(0.1), confidence=1 - 1e-6)
    assert not same.refuted
    assert 2500 < same.runs <= 3000
    with pytest.raises(InvalidArgument, match="8 or more"):
        audit_scores([1.0] * 5, [1.0] * 50, claim=dn.PureDP(1), confidence=0.99)


def unclipped(rows: list[Any]) -> float:
    """Clips below and forgets to clip above."""
    return float(np.sum(np.maximum(np.nan_to_num(np.array(rows, dtype=float)), 0)) + np.random.laplace(0, 10))


def empty_is_special(rows: list[Any]) -> float:
    """Right, except that empty data get a telling answer."""
    return SYSTEM.gauss(len(rows), 100) if rows else -1.0


@pytest.mark.parametrize(
    ("mechanism", "words"), [(unclipped, "above the upper bound"), (empty_is_special, "empty data")]
)
def test_a_search_finds_the_bad_pair(mechanism: Any, words: str) -> None:
    """`unclipped` is refuted by replay, `empty_is_special` by testing (missed with a chance below 1e-6)."""
    report = dn.audit(mechanism, neighbours=Search(Numbers(0, 10)), claim=dn.PureDP(1), confidence=0.9999, runs=6000)
    assert report.refuted
    assert words in report.pair
    assert words in str(report)


def test_a_search_of_a_correct_mechanism_is_consistent() -> None:
    summed = dn.mechanisms.sum_of(bounds=(0, 10), epsilon=1)
    report = dn.audit(summed, neighbours=Search(Numbers(0, 10)), confidence=1 - 1e-6, runs=1200)
    assert not report.refuted


RECORDS = [
    Numbers(-1, 1),
    Categories(["a", "b"]),
    Booleans(),
    TableRows({"x": Numbers(0, 1), "k": Categories(["u", "v"])}),
]


@pytest.mark.parametrize("records", RECORDS, ids=lambda kind: type(kind).__name__)
@pytest.mark.parametrize("relation", Relation)
def test_every_pair_of_a_search_is_a_pair_of_neighbours(records: Any, relation: Relation) -> None:
    pairs = Search(records, base=[records.typical()] * 3).pairs(relation)
    assert pairs
    for pair in pairs:
        pair.checked(relation)
    assert len({pair.name for pair in pairs}) == len(pairs)


def test_bad_searches_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="below high"):
        Numbers(1, 1)
    with pytest.raises(InvalidArgument, match="at least one key"):
        Categories([])
    with pytest.raises(InvalidArgument, match="raised"):
        dn.audit(lambda rows: 1 / 0, neighbours=Search(Booleans()), claim=dn.PureDP(1), runs=300, confidence=0.99)
