"""How close synthetic tables and consistent marginals come, and how long they take: `make bench ROOM=synthesis`.

Adult (UCI) is read from the folder that `--adult` or DENIABLE_DATA names (adult.data, adult.test, adult.names); without
it that part is skipped with a message. Bins and categories are public: round numbers, and the code book. δ = 1e-9.

- *TV*: half the L1 distance of a marginal of the rows from the data's, mean over all marginals of 1, 2 and 3 columns.
- *AUC*: a model (histogram gradient boosting) trained on the synthetic rows and tested on adult.test.
- *coverage*: how often the stated intervals hold the truth: of cells of consistent marginals, and of the distances that
  `table.error` states for columns and pairs.
- *CPU*: processor seconds of `plan.run()`, all of it: the ledger, the engine, exact noise, the rows, the check.

The constants of the method (the share of single columns, evenness, rounds) were chosen with Adult in view. Peers are
not run here: mbi's and dpmm's AIM did not end within eight processor minutes on the 15 columns.
"""

from __future__ import annotations

import argparse
import gzip
import os
import resource
import tempfile
import time
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import history
import numpy as np
import pandas as pd

import deniable as dn
from deniable.synthesis import ColumnBins, ColumnCategories

DELTA = 1e-9
NAMES = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship", "race",
    "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
SIX = ("age", "marital-status", "occupation", "relationship", "hours-per-week", "income")
UNKNOWN = ("workclass", "occupation", "native-country")
"""Columns with a question mark for unknown values."""
EDGES: dict[str, list[int]] = {
    "age": [*range(15, 96, 5)],
    "fnlwgt": [0, *(round(edge) for edge in np.geomspace(2e4, 1e6, 19)), 2_000_000],
    "education-num": [*range(1, 18)],
    "capital-gain": [0, 1, *range(1000, 9000, 1000), 10_000, 15_000, 20_000, 50_000, 99_999, 100_000],
    "capital-loss": [0, 1, 500, 1000, 1500, 1750, 2000, 2250, 2500, 3000, 4000, 5000],
    "hours-per-week": [*range(0, 101, 5)],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--adult", type=Path, help="the folder of Adult")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.1, 1, 10])
    parser.add_argument("--rows", type=int, default=10_000_000, help="rows of the counting part; 0 leaves it out")
    parser.add_argument("--keep", action="store_true", help="let the figures join the history")
    parser.add_argument(
        "--parts", nargs="+", default=["adult", "six", "wide", "images", "cover", "statements", "count"]
    )
    options = parser.parse_args()
    KEPT.extend([True] if options.keep else [])
    home = os.environ.get("DENIABLE_DATA")
    folder = options.adult or (Path(home) / "adult" if home else None)
    if folder is None or not (folder / "adult.data").exists():
        print("Adult is left out: name its folder by --adult")
        options.parts = [part for part in options.parts if part in ("wide", "images", "statements", "count")]
    if "adult" in options.parts:
        adult(folder, options, NAMES, "Adult")
    if "six" in options.parts:
        adult(folder, options, SIX, "Adult, six columns")
    if "wide" in options.parts:
        wide(options)
    if "cover" in options.parts:
        coverage(folder)
    if "count" in options.parts and options.rows:
        counting(options.rows)
    if "images" in options.parts:
        images(Path(home or "."), options)
    if "statements" in options.parts:
        statements()


KEPT: list[bool] = []


def add(metric: str, value: float, unit: str) -> None:
    """Keep a figure, if it was asked for."""
    if KEPT:
        history.add("synthesis", metric, value, unit)


def read(path: Path) -> pd.DataFrame:
    frame = pd.read_csv(path, names=NAMES, skipinitialspace=True, comment="|")
    return frame.assign(income=frame.income.str.rstrip("."))


def domain(folder: Path) -> dict[str, Any]:
    """Public bins and categories."""
    book = {"income": ["<=50K", ">50K"]}
    for line in (folder / "adult.names").read_text().splitlines():
        name, colon, values = line.partition(":")
        if colon and name in NAMES and "continuous" not in values:
            book[name] = [value.strip().rstrip(".") for value in values.split(",")]
    return {
        name: ColumnBins(EDGES[name], missing=False)
        if name in EDGES
        else ColumnCategories(book[name], missing=name in UNKNOWN)
        for name in NAMES
    }


def codes_of(frame: pd.DataFrame, domain: Any) -> np.ndarray:
    """The codes of rows, by the rule of the domain, in NumPy."""
    found = np.empty((len(frame), len(domain.names)), dtype=np.int64)
    for place, one in enumerate(domain.attributes):
        column = frame[one.name]
        if one.values is not None:
            known = {value: code for code, value in enumerate(one.values)}
            found[:, place] = column.map(known).fillna(one.listed).astype(int)
        else:
            inner = [float(edge) for edge in one.edges[1:-1]]
            found[:, place] = np.searchsorted(inner, column.to_numpy(dtype=float), side="right")
    return found


def marginal(codes: np.ndarray, clique: tuple[int, ...], domain: Any) -> np.ndarray:
    flat = np.ravel_multi_index(tuple(codes[:, place] for place in clique), domain.shape(clique))
    return np.bincount(flat, minlength=domain.cells(clique)).reshape(domain.shape(clique))


def variation(one: np.ndarray, other: np.ndarray, ways: int, domain: Any) -> float:
    distances = [
        np.abs(marginal(one, c, domain) / len(one) - marginal(other, c, domain) / len(other)).sum() / 2
        for c in combinations(range(len(domain.names)), ways)
    ]
    return float(np.mean(distances))


def sessions(frame: pd.DataFrame, name: str) -> Iterator[dn.Session]:
    """A session with a budget that nothing exhausts."""
    with tempfile.TemporaryDirectory() as place:
        ledger = dn.Ledger.create(Path(place) / "ledger", unit="row", budget=dn.ApproxDP(10_000, DELTA))
        with dn.Session({name: frame}, ledger=ledger) as session:
            yield session


def measured(session: dn.Session, table: str, columns: dict[str, Any], epsilon: float) -> tuple[Any, float]:
    plan = session.synthesize(table, columns=columns, epsilon=epsilon, delta=DELTA)
    start = time.process_time()
    made = plan.run()
    return made, time.process_time() - start


def adult(folder: Path, options: argparse.Namespace, names: tuple[str, ...], title: str) -> None:
    frame, test = read(folder / "adult.data"), read(folder / "adult.test")
    columns = {name: each for name, each in domain(folder).items() if name in names}
    for session in sessions(frame, "adult"):
        for epsilon in options.epsilons:
            lines = []
            for _ in range(options.seeds):
                made, seconds = measured(session, "adult", columns, epsilon)
                truth = codes_of(frame, made.domain)
                errors = [variation(truth, made.codes, ways, made.domain) for ways in (1, 2, 3)]
                lines.append([*errors, auc(made, codes_of(test, made.domain)), seconds])
            means, spread = np.mean(lines, axis=0), np.std(lines, axis=0)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
            print(
                f"{title}, ε = {epsilon:g}: TV1 {means[0]:.4f}, TV2 {means[1]:.4f} (sd {spread[1]:.4f}), TV3 "
                f"{means[2]:.4f}, AUC {means[3]:.3f}, {means[4]:.1f} CPU s, {memory:.2f} GB; {options.seeds} seeds",
                flush=True,
            )
            for metric, value, unit in (("TV2", means[1], "TV"), ("TV3", means[2], "TV"), ("CPU", means[4], "s")):
                add(f"{title}, ε = {epsilon:g}, {metric}", float(value), unit)


def auc(made: Any, test: np.ndarray) -> float:
    """Of a model trained on synthetic rows and tested on real ones."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    if len(np.unique(made.codes[:, -1])) < 2:
        return 0.5
    model = HistGradientBoostingClassifier(max_iter=100).fit(made.codes[:, :-1], made.codes[:, -1])
    return float(roc_auc_score(test[:, -1], model.predict_proba(test[:, :-1])[:, 1]))


def wide(options: argparse.Namespace) -> None:
    """A table of 32 columns in a chain with long-range ties, made up."""
    rng = np.random.default_rng(11)
    rows, many = 40_000, 32
    codes = np.zeros((rows, many), dtype=np.int64)
    sizes = rng.integers(2, 12, many)
    for place in range(many):
        free = rng.integers(0, sizes[place], rows)
        tied = codes[:, rng.integers(0, place)] % sizes[place] if place else free
        codes[:, place] = np.where(rng.random(rows) < 0.5, tied, free)
    frame = pd.DataFrame(codes, columns=[f"c{place}" for place in range(many)])
    columns = {name: ColumnBins(range(int(size) + 1), missing=False) for name, size in zip(frame, sizes, strict=True)}
    for session in sessions(frame, "wide"):
        made, seconds = measured(session, "wide", columns, 1.0)
        error = variation(codes, made.codes, 2, made.domain)
        print(f"32 columns, ε = 1: TV2 {error:.4f}, {seconds:.1f} CPU s", flush=True)
        add("32 columns, ε = 1, TV2", error, "TV")


def images(home: Path, options: argparse.Namespace) -> None:
    """Fashion-MNIST as a table of 37 columns: 6 × 6 mean grey values in four bins, and the label."""
    files = [home / "fashion-mnist" / f"train-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1")]
    if not all(file.exists() for file in files):
        print("Fashion-MNIST is left out: DENIABLE_DATA has no folder fashion-mnist")
        return
    pixels = np.frombuffer(gzip.decompress(files[0].read_bytes()), dtype=np.uint8, offset=16).reshape(-1, 28, 28)
    labels = np.frombuffer(gzip.decompress(files[1].read_bytes()), dtype=np.uint8, offset=8)
    grey = pixels[:, 2:26, 2:26].reshape(-1, 6, 4, 6, 4).mean(axis=(2, 4)).reshape(-1, 36)
    codes = np.column_stack([np.digitize(grey, [16, 96, 176]), labels]).astype(np.int64)
    sizes = [4] * 36 + [10]
    frame = pd.DataFrame(codes, columns=[f"c{place}" for place in range(37)])
    columns = {name: ColumnBins(range(size + 1), missing=False) for name, size in zip(frame, sizes, strict=True)}
    for session in sessions(frame, "images"):
        for epsilon in options.epsilons[1:]:
            made, seconds = measured(session, "images", columns, epsilon)
            error = variation(codes, made.codes, 2, made.domain)
            alone = np.column_stack([np.random.default_rng(place).permutation(codes[:, place]) for place in range(37)])
            floor = variation(codes, alone, 2, made.domain)
            print(
                f"images, 37 columns, ε = {epsilon:g}: TV2 {error:.4f} (independent columns {floor:.4f}), "
                f"{seconds:.1f} CPU s",
                flush=True,
            )
            add(f"images, 37 columns, ε = {epsilon:g}, TV2", error, "TV")


def statements(runs: int = 20) -> None:
    """What a small table of 45 columns states about its 1,035 columns and pairs: how often the truth is within."""
    rng = np.random.default_rng(13)
    codes = rng.integers(0, 3, (3000, 45))
    codes[:, 1::2] = np.where(rng.random((3000, 22)) < 0.6, codes[:, :-1:2], codes[:, 1::2])
    frame = pd.DataFrame(codes, columns=[f"c{place}" for place in range(45)])
    columns = {name: ColumnBins(range(4), missing=False) for name in frame}
    held = []
    for session in sessions(frame, "small"):
        for _ in range(runs):
            made, _ = measured(session, "small", columns, 1.0)
            scale = made.model.size / len(made)
            for clique in [(place,) for place in range(45)] + list(combinations(range(45), 2)):
                told = made.error(*made.domain.named(clique))
                exact, found = (marginal(one, clique, made.domain) for one in (codes, made.codes))
                held.append(told.low <= np.abs(exact - found * scale).sum() <= told.high)
    print(f"coverage, table.error of {len(held) // runs} marginals × {runs} runs: {np.mean(held):.4f}", flush=True)
    add("coverage of table.error at 95 %, 45 columns", float(np.mean(held)), "share")


def coverage(folder: Path, runs: int = 20) -> None:
    """Cells of consistent marginals, and distances that a table states: how often 95 % intervals hold the truth."""
    frame, columns = read(folder / "adult.data"), domain(folder)
    for session in sessions(frame, "adult"):
        plan = session.marginals("adult", 2, columns=columns, epsilon=1, delta=DELTA)
        truth = codes_of(frame, plan.domain)
        pairs = list(combinations(range(len(NAMES)), 2))
        exact = {pair: marginal(truth, pair, plan.domain) for pair in pairs}
        start, shares = time.process_time(), []
        for _ in range(runs):
            release = plan.run()
            shares += [
                ((one.low <= exact[pair]) & (exact[pair] <= one.high)).mean()
                for one, pair in zip(release, pairs, strict=True)
            ]
        print(
            f"coverage, cells of {len(pairs)} pairs × {runs} runs: {np.mean(shares):.4f}, "
            f"{(time.process_time() - start) / runs:.2f} CPU s a run",
            flush=True,
        )
        add("coverage of cells of marginals at 95 %", float(np.mean(shares)), "share")
        held = []
        for _ in range(runs):
            made, _ = measured(session, "adult", columns, 1.0)
            scale = made.model.size / len(made)
            for pair in pairs:
                told = made.error(*made.domain.named(pair))
                distance = np.abs(exact[pair] - marginal(made.codes, pair, made.domain) * scale).sum()
                held.append(told.low <= distance <= told.high)
        print(f"coverage, table.error of {len(pairs)} pairs × {runs} runs: {np.mean(held):.4f}", flush=True)
        add("coverage of table.error at 95 %", float(np.mean(held)), "share")


def counting(rows: int) -> None:
    """All pairs of 15 columns of a large table, in DuckDB."""
    rng = np.random.default_rng(3)
    sizes = (16, 9, 20, 16, 16, 7, 15, 6, 5, 2, 15, 11, 20, 42, 2)
    frame = pd.DataFrame({f"c{i}": rng.integers(0, size, rows).astype(np.int16) for i, size in enumerate(sizes)})
    columns = {name: ColumnBins(range(size + 1), missing=False) for name, size in zip(frame, sizes, strict=True)}
    with tempfile.TemporaryDirectory() as place:
        frame.to_parquet(Path(place) / "large.parquet")
        del frame
        ledger = dn.Ledger.create(Path(place) / "ledger", unit="row", budget=dn.ApproxDP(100, DELTA))
        with dn.Session(Path(place) / "large.parquet", ledger=ledger) as session:
            plan = session.marginals("large", 2, columns=columns, epsilon=1, delta=DELTA)
            wall, start = time.monotonic(), time.process_time()
            plan.run()
            wall, spent = time.monotonic() - wall, time.process_time() - start
    print(f"{rows:,} rows, all pairs of 15 columns, with noise: {wall:.1f} s, {spent:.1f} CPU s", flush=True)
    add(f"all pairs of 15 columns, {rows:,} rows", wall, "s")


if __name__ == "__main__":
    main()
