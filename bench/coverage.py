"""Do intervals hold the truth, with nothing stated but SQL, ε and a ledger? Twenty shapes of tables, three ε.

    make bench ROOM=coverage       # about three minutes

Every table has 3,000 people. Two questions are asked of it with defaults only: a count by group over declared keys, and
sum, average and median of a skewed column. The truth is that of the table without the people beyond the limits and
bounds that were found, which the release says are at most m. Printed per shape: how many intervals hold it, |O| and m
of the counts, and the median error of a count, of the whole table, over that of the best limits in hindsight (with the
whole ε, noise of scale groups × rows / ε, and nothing spent on finding or covering).
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import history
import numpy as np
import pandas as pd

import deniable as dn

PEOPLE = 3000
GROUPS = 5
Rows = Callable[[np.random.Generator], np.ndarray]


def _poisson(mean: float) -> Rows:
    return lambda r: r.poisson(mean, PEOPLE) + 1


def _dominant(size: int) -> Rows:
    return lambda r: np.concatenate([np.full(PEOPLE - 1, 3), [size]])


ROWS: dict[str, Rows] = {
    "one row": lambda r: np.ones(PEOPLE, int),
    "three rows": lambda r: np.full(PEOPLE, 3),
    "twelve rows": lambda r: np.full(PEOPLE, 12),
    "even 1-10": lambda r: r.integers(1, 11, PEOPLE),
    "even 1-40": lambda r: r.integers(1, 41, PEOPLE),
    "poisson 2": _poisson(1),
    "poisson 5": _poisson(4),
    "geometric 2": lambda r: r.geometric(0.5, PEOPLE),
    "geometric 10": lambda r: r.geometric(0.1, PEOPLE),
    "lognormal 0.5": lambda r: np.ceil(r.lognormal(1, 0.5, PEOPLE)).astype(int),
    "lognormal 1": lambda r: np.ceil(r.lognormal(1, 1, PEOPLE)).astype(int),
    "zipf 3": lambda r: np.minimum(r.zipf(3.0, PEOPLE), 5000),
    "zipf 2": lambda r: np.minimum(r.zipf(2.0, PEOPLE), 5000),
    "one owns a fifth": _dominant(PEOPLE * 3 // 4),
    "one owns half": _dominant(PEOPLE * 3),
    "few regulars": lambda r: np.where(r.random(PEOPLE) < 0.02, 25, 2),
}
SHAPES: dict[str, tuple[str, str, str]] = {
    **{name: (name, "spread", "even") for name in ROWS},
    "own group": ("geometric 2", "own", "even"),
    "rare groups": ("geometric 2", "rare", "even"),
    "skewed values": ("even 1-10", "spread", "heavy"),
    "signed values": ("even 1-10", "own", "signed"),
}


class Outcome(NamedTuple):
    """What one run of one shape showed."""

    held: int
    of: int
    beyond: int
    most: int
    ratio: float


def table(shape: str, random: np.random.Generator) -> pd.DataFrame:
    """A table of one shape."""
    rows, groups, values = SHAPES[shape]
    person = np.repeat(np.arange(PEOPLE), ROWS[rows](random))
    size = len(person)
    odds = np.array([0.6, 0.3, 0.09, 0.009, 0.001]) if groups == "rare" else np.full(GROUPS, 1 / GROUPS)
    group = person % GROUPS if groups == "own" else random.choice(GROUPS, size, p=odds)
    cost = {
        "even": random.uniform(20, 900, size),
        "heavy": random.lognormal(4, 1.2, size),
        "signed": random.normal(0, 50, size),
    }[values]
    return pd.DataFrame({"person": person, "g": group, "x": np.round(cost, 2)})


def outside(frame: pd.DataFrame, release: dn.query.Release, *, grouped: bool) -> pd.Index:
    """The people who own more than what was found lets count."""
    found = release.found
    per_group = frame.groupby(["person", "g"] if grouped else ["person"]).size().groupby("person")
    most, groups = per_group.max(), per_group.size()
    beyond = (most > found.limits.rows) | (groups > found.limits.groups)
    if found.limits.total is not None:
        beyond |= per_group.sum() > found.limits.total
    for column, (low, high) in found.bounds.items():
        ends = frame.groupby("person")[column].agg(["min", "max"])
        beyond |= (ends["min"] < float(low)) | (ends["max"] > float(high))
    return beyond.index[beyond]


def hindsight(frame: pd.DataFrame, epsilon: float, random: np.random.Generator) -> float:
    """The median error of a group's count under the best stated limits."""
    shares = frame.groupby(["person", "g"]).size()
    groups = shares.groupby("person").size()
    true = frame.groupby("g").size().reindex(range(GROUPS), fill_value=0).to_numpy()
    errors = []
    for k in range(1, GROUPS + 1):
        keep = np.minimum(k / groups, 1.0)
        for r in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60, 80, 100, 150, 200, 500, 1000, 5000):
            kept = (shares.clip(upper=r) * keep.reindex(shares.index.get_level_values("person")).to_numpy()).groupby(
                "g"
            )
            lost = true - kept.sum().reindex(range(GROUPS), fill_value=0).to_numpy()
            noise = random.laplace(0, k * r / epsilon, (200, GROUPS))
            errors.append(float(np.median(np.abs(noise - lost))))
    return min(errors)


def run(shape: str, epsilon: float, seed: int, folder: Path) -> Outcome:
    """Two questions about one table."""
    random = np.random.default_rng(seed)
    frame = table(shape, random)
    path = folder / f"{shape} {epsilon} {seed}.ledger"
    dn.Ledger.create(path, unit="person", budget=dn.PureDP(100)).close()
    held = of = 0
    with dn.Session({"t": frame}, ledger=path) as session:
        counts = session.sql(
            "SELECT g, COUNT(*) AS n FROM t GROUP BY g", epsilon=epsilon, keys={"g": list(range(GROUPS))}
        )
        others = session.sql("SELECT SUM(x) AS s, AVG(x) AS a, MEDIAN(x) AS m FROM t", epsilon=epsilon)
    gone = outside(frame, counts, grouped=True)
    inside = frame[~frame["person"].isin(gone)]
    true = inside.groupby("g").size().reindex(range(GROUPS), fill_value=0)
    for row in counts.rows:
        held, of = held + (row["n"].low <= true[row["g"]] <= row["n"].high), of + 1
    rest = frame[~frame["person"].isin(outside(frame, others, grouped=False))]["x"]
    (row,) = others.rows
    for name, truth in (("s", rest.sum()), ("a", rest.mean()), ("m", rest.median())):
        held, of = held + bool(row[name].low - 1e-6 <= truth <= row[name].high + 1e-6), of + 1
    whole = frame.groupby("g").size().reindex(range(GROUPS), fill_value=0)
    error = float(np.median([abs(row["n"].value - whole[row["g"]]) for row in counts.rows]))
    return Outcome(held, of, len(gone), counts.beyond.most, error / max(hindsight(frame, epsilon, random), 1e-9))


def main() -> None:
    """Print and record the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument(
        "--first", type=int, default=0, help="the seed of the first table; take one that nobody has seen"
    )
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.runs)
    with tempfile.TemporaryDirectory() as folder:
        for epsilon in (0.1, 1, 5):
            print(f"ε = {epsilon}\n{'shape':18} {'held':>8} {'|O|':>6} {'m':>6} {'error ratio':>12}")
            ratios, held, of, within = [], 0, 0, 0
            for shape in SHAPES:
                seen = [run(shape, epsilon, seed, Path(folder)) for seed in seeds]
                held, of = held + sum(one.held for one in seen), of + sum(one.of for one in seen)
                within += sum(one.beyond <= one.most for one in seen)
                ratio = float(np.median([one.ratio for one in seen]))
                ratios.append(ratio)
                beyond, most = (float(np.median([getattr(one, name) for one in seen])) for name in ("beyond", "most"))
                share = f"{sum(one.held for one in seen)}/{sum(one.of for one in seen)}"
                print(f"{shape:18} {share:>8} {beyond:6.0f} {most:6.0f} {ratio:12.2f}", flush=True)
            print(
                f"all: {held}/{of} = {held / of:.3f} hold; |O| ≤ m in {within} of {len(SHAPES) * given.runs}; median "
                f"error ratio {np.median(ratios):.2f}\n",
                flush=True,
            )
            history.add("coverage", f"intervals that hold the truth, ε = {epsilon}", held / of, "share")
            history.add("coverage", f"error over the best limits, ε = {epsilon}", float(np.median(ratios)), "times")


if __name__ == "__main__":
    main()
