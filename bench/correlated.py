"""Correlated noise: errors, factor times, the cost of a step, and what it is worth in training.

    python bench/correlated.py errors        # error tables and proven gaps; factors are kept in the user's cache
    python bench/correlated.py factors       # time to find factors
    python bench/correlated.py step          # a training step against independent noise; on a GPU a 12x768 transformer
    python bench/correlated.py fashion       # one pass over Fashion-MNIST (DENIABLE_DATA), equal ε, several seeds
    python bench/correlated.py characters    # one pass over a text that ships with Python, equal ε, several seeds

"Proven gap" bounds (error − least error)/(least error) over all banded strategies with columns of length 1: by convex
duality (`banded_bound`), and for long runs by convexity alone (`convex_gap`). No published value for the same run and
number of bands can be smaller by more.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import eigh

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from deniable.strategies import (
    Banded,
    Toeplitz,
    Tree,
    lower_bound,
    once,
    optimal_banded,
    optimal_buffered,
    optimal_toeplitz,
    separated,
    stored,
)
from deniable.strategies.variance import PREFIX, Recursion

LONGEST_CERTIFIED = 2052
LONG = {1: 1, 8: 120, 64: 30, 342: 8}
"""Iterations for T = 16384, by bands: each costs O(T·b²)."""


def banded_bound(strategy: Banded) -> float:
    """No banded strategy with columns of length 1 and so many bands has a smaller root of the mean variance.

    With M = AᵀA, any V ⪰ 0 that is 0 on the band off the diagonal, and any banded X with ones on its diagonal:
    tr(M·X⁻¹)·tr(V·X) ≥ ‖V^½·M^½‖_*² (Cauchy–Schwarz), and tr(V·X) = tr V. The best V is X⁻¹·M·X⁻¹ at the optimal X.
    Here it is that of the given strategy, with 0 put on the band and a multiple of the identity added to make it ⪰ 0.
    """
    matrix, steps = strategy.matrix(), strategy.steps
    prefix = np.tri(steps)
    inner = np.linalg.solve(matrix.T @ matrix, prefix.T)
    dual = inner @ inner.T
    near = np.abs(np.subtract.outer(np.arange(steps), np.arange(steps)))
    dual[(near > 0) & (near < strategy.bands)] = 0.0
    least = eigh(dual, eigvals_only=True, subset_by_index=[0, 0])[0]
    dual += max(0.0, -least * (1 + 1e-6)) * np.eye(steps)
    root = np.sqrt(np.maximum(eigh(prefix @ dual @ prefix.T, eigvals_only=True), 0.0)).sum()
    return float(root / math.sqrt(np.trace(dual) * steps))


def convex_gap(strategy: Banded) -> float:
    """The same, from the gradient alone and looser, without a matrix of T × T numbers.

    L(X) = tr(M·X⁻¹) is convex with gradient −H, H = X⁻¹·M·X⁻¹. So L(Y) ≥ L(X) − Σ H_ij(Y_ij − X_ij) over the band,
    where |Y_ij| ≤ 1 and Y_ii = X_ii: nobody gains more than Σ |H_ij|(1 + |X_ij|) off the diagonal. The band of H
    follows from the gradient −2C·H that `Recursion` gives, row by row.
    """
    rows, entries = strategy.by_rows(), strategy.entries
    steps, bands = rows.shape
    recursion = Recursion(PREFIX)
    total = float(recursion.forward(rows).sum())
    known = -0.5 * recursion.backward(np.ones(steps))
    far = [np.ones(steps)]
    for k in range(1, bands):
        products = (entries[k:, : bands - k] * entries[: steps - k, k:]).sum(axis=1)
        far.append(np.concatenate([np.zeros(k), 1 + np.abs(products)]))
    window, gained = np.zeros((bands - 1, bands - 1)), 0.0  # H among the rows before, oldest first
    for t in range(steps):
        weights = rows[t, :0:-1]
        row = (known[t, :0:-1] - weights @ window) / rows[t, 0]
        row[: max(0, bands - 1 - t)] = 0.0
        gained += 2 * sum(abs(row[bands - 1 - k]) * far[k][t] for k in range(1, bands) if k <= t)
        window[:-1, :-1] = window[1:, 1:]
        if bands > 1:
            window[-1, :-1] = window[:-1, -1] = row[1:]
            window[-1, -1] = (known[t, 0] - weights @ row) / rows[t, 0]
    return math.sqrt(total / (total - gained)) - 1 if gained < total else math.inf


def errors(_: argparse.Namespace) -> None:
    """One pass, mean error; then six passes of 342 steps."""
    print("\n| T | bands | optimal banded | proven gap | optimal Toeplitz | cut square root |")
    print("|---|---|---|---|---|---|")
    for steps in (512, 2052, 16384):
        run = once(steps)
        for bands in (1, 8, 64, 342):
            root = Toeplitz.square_root(steps, bands=bands).rmse(run)
            flat = optimal_toeplitz(run, bands=bands).rmse(run)
            short = steps <= LONGEST_CERTIFIED
            best = stored(optimal_banded, run, bands=bands, iterations=60 if short else LONG[bands])
            assert isinstance(best, Banded)
            gap = best.rmse(run) / banded_bound(best) - 1 if short else convex_gap(best)
            print(f"| {steps} | {bands} | {best.rmse(run):.4f} | {gap:.3%} | {flat:.4f} | {root:.4f} |", flush=True)
    print("\n| T | tree (Honaker) | square root | optimal Toeplitz | 2 buffers | 3 | 4 | no strategy is below |")
    print("|---|---|---|---|---|---|---|---|")
    for steps in (512, 2052, 16384):
        run = once(steps)
        row = [Tree(steps), Toeplitz.square_root(steps), optimal_toeplitz(run)]
        row += [optimal_buffered(run, buffers=k) for k in (2, 3, 4)]
        bound = f"{lower_bound(steps):.4f}" if steps <= LONGEST_CERTIFIED else "–"
        print(f"| {steps} | " + " | ".join(f"{each.rmse(run):.4f}" for each in row) + f" | {bound} |", flush=True)
    run = separated(2052, separation=342)
    print("\nT = 2052, at most 6 participations, 342 or more steps apart (the run of McMahan, Xu and Zhang 2024):\n")
    print("| strategy | sensitivity | mean error | largest error | models kept |\n|---|---|---|---|---|")
    many: list[Any] = [Toeplitz([1.0], 2052)]
    # With columns of length 1 and at most 342 bands the best factors are those of one pass: sensitivity² is 6 for all.
    many += [stored(optimal_banded, once(2052), bands=bands, iterations=60) for bands in (8, 64, 342)]
    many += [optimal_toeplitz(run, bands=342), optimal_toeplitz(run)]
    many += [optimal_buffered(run, buffers=k) for k in (2, 3, 4)]
    for each in many:
        moved = each.sensitivity(run)
        print(
            f"| {each!r} | {float(moved.value):.4f} ({'exact' if moved.exact else 'bound'}) | {each.rmse(run):.3f}"
            f" | {each.worst(run):.3f} | {each.memory} |",
            flush=True,
        )


def factors(_: argparse.Namespace) -> None:
    """Process time to find factors, nothing kept."""
    print("\n| factors | CPU seconds | mean error |\n|---|---|---|")
    cases: list[tuple[str, Callable[[], Any], int]] = [
        ("banded, T = 2048, b = 64", lambda: optimal_banded(once(2048), bands=64), 2048),
        ("banded, T = 2048, b = 8", lambda: optimal_banded(once(2048), bands=8), 2048),
        ("Toeplitz, T = 16384, whole", lambda: optimal_toeplitz(once(16384)), 16384),
        ("4 buffers, T = 16384", lambda: optimal_buffered(once(16384)), 16384),
    ]
    for name, find, steps in cases:
        start = time.process_time()
        found = find()
        print(f"| {name} | {time.process_time() - start:.1f} | {found.rmse(once(steps)):.4f} |", flush=True)


# training


def step(chosen: argparse.Namespace) -> None:
    """A whole training step, secure noise, fixed batches: correlated against independent."""
    import torch
    from torch import nn

    from bench.deep import Transformer
    from deniable.deep import FixedBatches, Plan, Trainer
    from deniable.deep.noising import noising

    device = "cuda" if torch.cuda.is_available() else "cpu"
    layers, width, heads, length, rows = (12, 768, 12, 128, 64) if device == "cuda" else (2, 64, 4, 32, 16)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(0)
    data = torch.randint(0, 32_000, (rows * 4, length), device=device), torch.randint(0, 2, (rows * 4,), device=device)
    kinds = ["independent", "banded, 8", "banded, 64", "4 buffers", "tree", "independent, again"]
    each = chosen.steps + chosen.warm
    run = once(each * len(kinds))
    shared: dict[str, Any] = {
        "examples": rows * 4, "batch": rows, "steps": run.steps, "clip": 1, "noise_multiplier": 1,
        "sampling": FixedBatches(),
    }  # fmt: skip
    noise = {
        "banded, 8": optimal_toeplitz(run, bands=8), "banded, 64": optimal_toeplitz(run, bands=64),
        "4 buffers": optimal_buffered(run, buffers=4), "tree": Tree(run.steps),
    }  # fmt: skip
    plans = {name: Plan(**shared, noise=noise.get(name)) for name in kinds}
    print(f"\ntransformer {layers}x{width}, {length} tokens, batch {rows}, {device}, torch {torch.__version__}")
    print("\n| noise | precision | ms | / independent |\n|---|---|---|---|")
    for narrow in chosen.narrow:
        model = Transformer(layers, width, heads).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        settings: dict[str, Any] = {"compile": True, "autocast": torch.bfloat16 if narrow else None}
        settings = settings if device == "cuda" else {}
        loss = nn.CrossEntropyLoss(reduction="none")
        trainer = Trainer(model, optimizer, loss, plans["independent"], microbatch=rows, **settings)
        batches, usual = trainer.batches(data), 0.0
        for name in kinds:
            # One compiled trainer for all: only what is added to its sums changes.
            trainer._noising, times = noising(plans[name].noise, plans[name]), []
            for _ in range(each):
                batch = next(batches)
                _wait(device)
                start = time.perf_counter()
                trainer.step(batch)
                _wait(device)
                times.append(time.perf_counter() - start)
            found = 1000 * statistics.median(times[chosen.warm :])
            usual = usual or found
            print(f"| {name} | {'bf16' if narrow else 'tf32'} | {found:.2f} | {found / usual:.3f} |", flush=True)
        del trainer, model, optimizer, batches


def _wait(device: str) -> None:
    import torch

    if device == "cuda":
        torch.cuda.synchronize()


def fashion(chosen: argparse.Namespace) -> None:
    """Test accuracy after one pass over Fashion-MNIST."""
    import torch
    from torch import nn

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    import fashion as images
    from fashion_cnn import accuracy, network

    device = "cuda" if torch.cuda.is_available() else "cpu"
    (x, y), (test, labels) = (
        tuple(part.to(device) for part in (2 * pixels - 1, classes))
        for pixels, classes in (images.images("train"), images.images("t10k"))
    )
    _compare(
        chosen, "Fashion-MNIST, test accuracy", network, nn.CrossEntropyLoss(reduction="none"), (x, y),
        lambda model: accuracy(model, test, labels), larger=True, batch=512, clip=0.5, rates=(0.5, 1, 2, 4),
    )  # fmt: skip


def characters(chosen: argparse.Namespace) -> None:
    """Nats per character on held-out windows after one pass over the language reference that ships with Python."""
    from pydoc_data import topics

    import torch
    from torch import nn

    device = "cuda" if torch.cuda.is_available() else "cpu"
    text = "".join(topics.topics[name] for name in sorted(topics.topics))
    known = {character: place for place, character in enumerate(sorted(set(text)))}
    codes = torch.tensor([known[character] for character in text], device=device)
    long = 33
    windows = codes[: len(codes) // long * long].view(-1, long)
    held = torch.arange(len(windows), device=device) % 10 == 0
    train, test = windows[~held], windows[held]
    count = len(train) // 64 * 64
    x, y = train[:count, :-1], train[:count, 1:]

    class Characters(nn.Module):
        """Each character from the eight before it."""

        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(len(known), 32)
            self.mix, self.out = nn.Conv1d(32, 128, 8), nn.Linear(128, len(known))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            found = nn.functional.pad(self.table(x).transpose(1, 2), (7, 0))
            return self.out(torch.tanh(self.mix(found)).transpose(1, 2))

    def loss(output: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output.transpose(1, 2), y, reduction="none").mean(1)

    def nats(model: nn.Module) -> float:
        with torch.no_grad():
            return float(loss(model(test[:, :-1]), test[:, 1:]).mean())

    print(f"\n{count} windows of {long - 1} characters, {len(known)} different ones")
    _compare(
        chosen, "characters, nats each", Characters, loss, (x, y), nats, larger=False, batch=128, clip=0.5,
        rates=(0.5, 1, 2, 4),
    )  # fmt: skip


def _compare(
    chosen: argparse.Namespace, title: str, make: Callable[[], Any], loss: Any, data: tuple[Any, Any],
    measure: Callable[[Any], float], *, larger: bool, batch: int, clip: float, rates: tuple[float, ...],
) -> None:  # fmt: skip
    """One pass of each kind of noise, calibrated to the same promise; the learning rate that was best for each."""
    import torch

    from deniable import ZERO_OUT, ApproxDP
    from deniable.deep import CyclicPoisson, FixedBatches, Plan, Poisson, Trainer

    device, size = data[0].device, len(data[0])
    steps = math.ceil(size / batch)
    run = once(steps)
    print(
        f"\n{title}, one pass of {steps} steps, batch {batch}, clip {clip}, δ = 1e-5, one record blanked out, {device}"
    )
    print("Each seed is a run of its own; ± is the standard deviation over seeds.\n")
    print("| ε | noise | sampling | noise multiplier | best rate | mean ± sd | margin over DP-SGD |")
    print("|---|---|---|---|---|---|---|")
    for epsilon in chosen.epsilon:
        kinds: list[tuple[str, Any, Any]] = [
            ("independent (DP-SGD)", None, Poisson()),
            ("optimal Toeplitz", optimal_toeplitz(run), FixedBatches()),
            ("4 buffers", optimal_buffered(run), FixedBatches()),
            ("banded, 8", stored(optimal_banded, run, bands=8), CyclicPoisson(parts=8)),
        ]
        usual: list[float] = []
        for name, strategy, sampling in (kinds[place] for place in chosen.kinds):
            plan = Plan(
                examples=size, batch=batch, steps=steps, clip=clip, noise=strategy, sampling=sampling,
                target=ApproxDP(epsilon, 1e-5, relation=ZERO_OUT),
            )  # fmt: skip
            best: tuple[float, list[float]] | None = None
            for rate in chosen.rates or rates:
                found = []
                for seed in range(chosen.seeds):
                    torch.manual_seed(seed)
                    model = make().to(device)
                    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=chosen.momentum)
                    Trainer(model, optimizer, loss, plan).fit(data)
                    found.append(measure(model))
                mean = statistics.mean(found)
                if best is None or (mean > statistics.mean(best[1])) is larger:
                    best = rate, found
            assert best is not None
            usual = usual or best[1]
            scale = float(plan.noise_multiplier) * clip
            gained = [(a - b) * (1 if larger else -1) for a, b in zip(best[1], usual, strict=True)]
            print(
                f"| {epsilon:g} | {name} | {sampling!r} | {scale / clip:.3f} | {best[0]:g} |"
                f" {statistics.mean(best[1]):.4f} ± {statistics.stdev(best[1]):.4f} |"
                f" {statistics.mean(gained):+.4f} (least {min(gained):+.4f}) |",
                flush=True,
            )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("part", choices=["errors", "factors", "step", "fashion", "characters"])
    options.add_argument("--epsilon", type=float, nargs="+", default=[3.0, 8.0])
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--warm", type=int, default=6)
    options.add_argument("--narrow", type=int, nargs="+", default=[0, 1], help="0: tf32, 1: bf16")
    options.add_argument("--rates", type=float, nargs="+", default=None)
    options.add_argument("--kinds", type=int, nargs="+", default=[0, 1, 2, 3], help="rows; the first is compared with")
    options.add_argument("--momentum", type=float, default=0.9)
    chosen = options.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    {"errors": errors, "factors": factors, "step": step, "fashion": fashion, "characters": characters}[chosen.part](
        chosen
    )


if __name__ == "__main__":
    main()
