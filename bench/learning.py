"""How good private models are with nothing but their defaults, and diffprivlib beside them: `make bench ROOM=learning`.

    python bench/learning.py --data FOLDER    # a folder with adult/ and fashion-mnist/; DENIABLE_DATA names it too

*The rule.* A model gets ε, δ = 1e-6, the declared norm, and the declared classes or label bounds. The bench has no
hyper-parameter and chooses nothing: every table is split three times, every split is fitted once for each ε, and the
means are printed. Add/remove; the number of records is private.

*Value* is the part of what a fit without privacy gains over a constant: 1 is as good as without privacy, 0 is the
constant, by squared error for numbers and deviance for classes, and no less than −1.

What these figures are not: the defaults of the library were settled by measuring public tables, digits, friedman and
Adult among them, and ranges are round numbers around the data (`tables/small.py`).

diffprivlib runs in its own environment (bench/peers/diffprivlib.txt), with pure ε, on the first split: it has no δ
here, so its promise is stronger. `--peer` names the tables for it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import tempfile
import time
import venv
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import history
import numpy as np
from tables.small import BenchTable, tables

HERE = Path(__file__).resolve().parent
PEER = HERE / "peers" / ".venvs" / "diffprivlib"
DELTA = 1e-6
EPSILONS = (0.1, 0.5, 1.0, 3.0, 10.0)


def model_of(table: BenchTable, epsilon: float, *, additive: bool = False) -> Any:
    """The default model of a table: what is declared, and the promise."""
    from deniable.learning import AdditiveClassifier, AdditiveRegressor, LinearRegression, LogisticRegression

    known = {"epsilon": epsilon, "delta": DELTA, "data_norm": table.norm}
    if additive:
        known = {"epsilon": epsilon, "delta": DELTA, "columns": table.columns}
        if table.classes:
            return AdditiveClassifier(**known, classes=list(table.classes))
        return AdditiveRegressor(**known, label_bounds=table.bounds)
    if table.classes:
        return LogisticRegression(**known, classes=list(table.classes))
    return LinearRegression(**known, label_bounds=table.bounds)


def loss(model: Any, rows: np.ndarray, labels: np.ndarray, table: BenchTable) -> float:
    """The mean deviance, or the mean squared error."""
    if not table.classes:
        return float(np.mean((model.predict(rows) - labels) ** 2))
    chances = np.clip(model.predict_proba(rows), 1e-6, 1.0)
    return float(-np.mean(np.log(chances[np.arange(len(labels)), np.searchsorted(model.classes_, labels)])))


def constant_loss(labels: np.ndarray, known: np.ndarray, table: BenchTable) -> float:
    """The same for the best constant of the training part."""
    if not table.classes:
        return float(np.mean((labels - known.mean()) ** 2))
    shares = {one: max(float(np.mean(known == one)), 1e-6) for one in table.classes}
    return float(-np.mean([math.log(shares[label]) for label in labels.tolist()]))


def score(model: Any, rows: np.ndarray, labels: np.ndarray, table: BenchTable) -> dict[str, float]:
    """Accuracy, with the area under the curve for two classes; or the root of the mean squared error."""
    if not table.classes:
        return {"RMSE": math.sqrt(loss(model, rows, labels, table))}
    found = {"accuracy": float(np.mean(model.predict(rows) == labels))}
    if len(table.classes) == 2:
        from sklearn.metrics import roc_auc_score

        found["AUC"] = float(roc_auc_score(labels, model.decision_function(rows)))
    return found


def fits(
    table: BenchTable, epsilon: float, splits: int, *, additive: bool = False
) -> tuple[dict[str, float], float, float]:
    """Mean scores over the splits, the mean value, and the median of CPU seconds per fit."""
    scores: list[dict[str, float]] = []
    took = []
    for seed in range(splits):
        train, known, test, truth = table.split(seed)
        part = (table.frame(train), table.frame(test)) if additive else (train, test)
        start = time.process_time()
        model = model_of(table, epsilon, additive=additive).fit(part[0], known)
        took.append(time.process_time() - start)
        worst = constant_loss(truth, known, table)
        best = loss(reference(table, seed), test, truth, table)
        value = (worst - loss(model, part[1], truth, table)) / max(worst - best, 1e-12)
        scores.append(score(model, part[1], truth, table) | {"value": max(value, -1.0)})
    mean = {name: float(np.mean([one[name] for one in scores])) for name in scores[0]}
    return mean, mean.pop("value"), float(np.median(took))


_REFERENCES: dict[tuple[str, int], Any] = {}


def reference(table: BenchTable, seed: int) -> Any:
    """The fit without privacy of one split."""
    key = table.name, 0 if table.test is not None else seed
    if key not in _REFERENCES:
        train, known, _, _ = table.split(seed)
        model = model_of(table, math.inf)
        if table.classes:
            model.set_params(C=100.0)  # without it, separable classes have no fit
        _REFERENCES[key] = model.fit(train, known)
    return _REFERENCES[key]


def peer(table: BenchTable, epsilon: float) -> str:
    """diffprivlib's score on the first split, or why there is none."""
    if not (PEER / "bin" / "python").exists():
        try:
            venv.create(PEER, with_pip=True)
            pip = [PEER / "bin" / "python", "-m", "pip", "install", "--quiet", "-r", HERE / "peers" / "diffprivlib.txt"]
            subprocess.run(pip, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            return "not installed"
    train, known, test, truth = table.split(0)
    told = {"epsilon": epsilon}
    if table.classes:
        told["data_norm"] = table.norm
    else:
        told |= {"bounds_X": (-1.0, 1.0), "bounds_y": table.bounds}  # type: ignore[dict-item]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "data.npz"
        np.savez(path, X=train, y=known, Xt=test, yt=truth)
        command = [PEER / "bin" / "python", __file__, "--inside", str(path), json.dumps(told)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        except subprocess.TimeoutExpired:
            return "> 30 s"
    return done.stdout.strip() if done.returncode == 0 else "failed"


def inside(path: str, told: dict[str, Any]) -> None:
    """Runs in the peer's environment."""
    import warnings

    warnings.simplefilter("ignore")
    from diffprivlib.models import LinearRegression, LogisticRegression

    data = np.load(path)
    told = {name: tuple(value) if isinstance(value, list) else value for name, value in told.items()}
    kind = LogisticRegression if "data_norm" in told else LinearRegression
    model = kind(random_state=0, **told).fit(data["X"], data["y"])
    found = model.predict(data["Xt"])
    right = np.mean(found == data["yt"]) if kind is LogisticRegression else np.sqrt(np.mean((found - data["yt"]) ** 2))
    print(f"{right:.4g}")


def line(table: BenchTable, epsilon: float, options: argparse.Namespace, *, additive: bool, free: float) -> str:
    """One line of the report; also in the history, if that is kept."""
    measure = "accuracy" if table.classes else "RMSE"
    name = f"{table.name}, additive" if additive else table.name
    found, value, took = fits(table, epsilon, options.splits, additive=additive)
    mean, goal = found[measure], (table.additive_goals if additive else table.goals).get(epsilon)
    met = "" if goal is None else "yes" if (mean >= goal if table.classes else mean <= goal) else "NO"
    other = peer(table, epsilon) if table.name in options.peer and not additive else ""
    if not options.only:
        theirs = float(other) if other.replace(".", "").isdigit() else None
        ratio = None if not theirs else mean / theirs if table.classes else theirs / mean
        metric = f"{name}, ε = {epsilon:g}"
        history.add("learning", metric, mean, measure, peer="diffprivlib" if ratio else None, ratio=ratio)
    area = f"{found['AUC']:.3f}" if "AUC" in found else ""
    shown = "" if goal is None else f"{goal:g}"
    cells = (name, f"{epsilon:g}", f"{mean:.4g}", area, f"{value:.2f}", shown, met, f"{took:.2f}", other, f"{free:.4g}")
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    named = os.environ.get("DENIABLE_DATA")
    parser.add_argument("--data", type=Path, default=Path(named) if named else None)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--only", nargs="*", default=[], help="names of tables; then nothing joins the history")
    parser.add_argument("--peer", nargs="*", default=[], help="names of tables on which diffprivlib runs too")
    parser.add_argument("--inside", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        inside(options.inside[0], json.loads(options.inside[1]))
        return
    lines = [
        f"# Private learning with defaults, {datetime.now(UTC).date()}", "",
        f"Means of {options.splits} splits, δ = 1e-6, add/remove; no setting was chosen: see bench/learning.py.", "",
        "| data | ε | score | AUC | value | goal | met | CPU s per fit | diffprivlib | without privacy |",
        "|---" * 10 + "|",
    ]  # fmt: skip
    if options.data is None:
        print("skipped Adult and Fashion-MNIST: --data names a folder that holds adult/ and fashion-mnist/")
    print("\n".join(lines), flush=True)
    for name, load in tables(options.data):
        if options.only and name not in options.only:
            continue
        table = load()
        _, _, test, truth = table.split(0)
        measure = "accuracy" if table.classes else "RMSE"
        free = score(reference(table, 0), test, truth, table)[measure]
        for additive in (False, True) if table.columns is not None else (False,):
            for epsilon in EPSILONS:
                lines.append(line(table, epsilon, options, additive=additive, free=free))
                print(lines[-1], flush=True)
    if not options.only:
        history.keep("learning", "\n".join(lines))


if __name__ == "__main__":
    main()
