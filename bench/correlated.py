"""Correlated noise: errors, factor times, the cost of a step, and what it is worth in training.

    python bench/correlated.py errors        # error tables and proven gaps; factors are kept in the user's cache
    python bench/correlated.py factors       # time to find factors
    python bench/correlated.py step          # a training step against independent noise; on a GPU a 12x768 transformer
    python bench/correlated.py fashion       # one pass over Fashion-MNIST (DENIABLE_DATA), fixed features, equal ε
    python bench/correlated.py network       # the same with a small convolutional network; for a GPU
    python bench/correlated.py characters    # one pass over a text that ships with Python, equal ε, several seeds

"Proven gap" bounds (error − least error)/(least error) over all banded strategies with columns of length 1, by convex
duality (`deniable.strategies.proven_gap`). No published value for the same run and number of bands can be smaller by
more.
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

import history

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
    proven_gap,
    separated,
    stored,
)

LONGEST_DENSE = 2052
"""Steps up to which the bound of dense strategies is computed."""

LONG = {1: 1, 8: 20, 64: 20, 342: 34}
"""Iterations on the whole of T = 16384, by bands: each costs O(T·b²)."""


def errors(_: argparse.Namespace) -> None:
    """One pass, mean error; then six passes of 342 steps."""
    print("\n| T | bands | optimal banded | proven gap | optimal Toeplitz | cut square root |")
    print("|---|---|---|---|---|---|")
    for steps in (512, 2052, 16384):
        run = once(steps)
        for bands in (1, 8, 64, 342):
            root = Toeplitz.square_root(steps, bands=bands).rmse(run)
            flat = optimal_toeplitz(run, bands=bands).rmse(run)
            iterations = 60 if steps < 16384 else LONG[bands]
            best = stored(optimal_banded, run, bands=bands, iterations=iterations)
            assert isinstance(best, Banded)
            case, error = f"T = {steps}, {bands} bands", best.rmse(run)
            history.add("correlated", case, error, "rmse", peer="cut square root", ratio=root / error)
            print(
                f"| {steps} | {bands} | {best.rmse(run):.4f} | {proven_gap(best):.3%} | {flat:.4f} | {root:.4f} |",
                flush=True,
            )
    print("\n| T | tree (Honaker) | square root | optimal Toeplitz | 2 buffers | 3 | 4 | no strategy is below |")
    print("|---|---|---|---|---|---|---|---|")
    for steps in (512, 2052, 16384):
        run = once(steps)
        row = [Tree(steps), Toeplitz.square_root(steps), optimal_toeplitz(run)]
        row += [optimal_buffered(run, buffers=k) for k in (2, 3, 4)]
        bound = f"{lower_bound(steps):.4f}" if steps <= LONGEST_DENSE else "–"
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
        ("banded, T = 16384, b = 64", lambda: optimal_banded(once(16384), bands=64, iterations=LONG[64]), 16384),
        ("Toeplitz, T = 16384, whole", lambda: optimal_toeplitz(once(16384)), 16384),
        ("4 buffers, T = 16384", lambda: optimal_buffered(once(16384)), 16384),
    ]
    for name, find, steps in cases:
        start = time.process_time()
        found = find()
        history.add("correlated", f"factors: {name}", time.process_time() - start, "CPU s")
        print(f"| {name} | {time.process_time() - start:.1f} | {found.rmse(once(steps)):.4f} |", flush=True)


# training


def step(chosen: argparse.Namespace) -> None:
    """A whole training step, secure noise, fixed batches: correlated against independent."""
    import torch
    from torch import nn

    from bench.deep_models import Transformer
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
        "size": rows * 4, "batch": rows, "steps": run.steps, "clip": 1, "noise_multiplier": 1,
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
        trainer._checked = True  # the self-check would compile another shape
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
    """Test accuracy of a linear model on fixed features after one pass over Fashion-MNIST."""
    import torch
    from torch import nn

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    from fashion_features import features

    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, (test, labels) = features("train", device), features("t10k", device)

    def model() -> nn.Module:
        found = nn.Linear(test.shape[1], 10, bias=False)
        nn.init.zeros_(found.weight)  # the problem is convex; noise and batches alone differ between seeds
        return found

    _compare(
        chosen, f"Fashion-MNIST, {test.shape[1]} fixed features, test accuracy", model,
        nn.CrossEntropyLoss(reduction="none"),
        train, lambda model: _right(model, test, labels), larger=True, batch=512,
        clip=1, rate=0.5,
    )  # fmt: skip


def network(chosen: argparse.Namespace) -> None:
    """The same for a convolutional network."""
    import torch
    from torch import nn

    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "examples"))
    import fashion as images
    from fashion_cnn import tempered_network

    device = "cuda" if torch.cuda.is_available() else "cpu"
    train, (test, labels) = (
        (2 * pixels.to(device) - 1, classes.to(device))
        for pixels, classes in (images.images("train"), images.images("t10k"))
    )
    _compare(
        chosen, "Fashion-MNIST, 26,010 parameters, test accuracy",
        tempered_network, nn.CrossEntropyLoss(reduction="none"),
        train, lambda model: _right(model, test, labels), larger=True, batch=512, clip=0.5, rate=2,
    )  # fmt: skip


def _right(model: Any, x: Any, y: Any) -> Any:
    """Whether each is classified rightly."""
    import torch

    with torch.no_grad():
        return (torch.cat([model(part) for part in x.split(1000)]).argmax(1) == y).double()


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

    def nats(model: nn.Module) -> torch.Tensor:
        with torch.no_grad():
            return loss(model(test[:, :-1]), test[:, 1:])

    print(f"\n{count} windows of {long - 1} characters, {len(known)} different ones")
    _compare(
        chosen, "characters, nats each", Characters, loss, (x, y), nats, larger=False, batch=128, clip=0.5, rate=0.5,
    )  # fmt: skip


def _compare(
    chosen: argparse.Namespace, title: str, make: Callable[[], Any], loss: Any, data: tuple[Any, Any],
    measure: Callable[[Any], Any], *, larger: bool, batch: int, clip: float, rate: float,
) -> None:  # fmt: skip
    """One pass of each kind of noise, calibrated to the same promise, each with the learning rate that is best for it.

    Rates are powers of two times `rate`, tried until both neighbours of the best are worse. They are chosen on every
    second test record; what is shown is measured on the others.
    """
    import torch

    from deniable import ZERO_OUT, ApproxDP
    from deniable.deep import CyclicPoisson, FixedBatches, Plan, Poisson, Trainer

    device, size = data[0].device, len(data[0])
    steps = math.ceil(size / batch)
    run, sign = once(steps), 1 if larger else -1
    print(
        f"\n{title}, one pass of {steps} steps, batch {batch}, clip {clip}, δ = 1e-5, one record blanked out, {device}"
    )
    print("Each seed is a run of its own; ± is the standard deviation over seeds.\n")
    print("| ε | noise | sampling | noise multiplier | best of rates | mean ± sd | margin over DP-SGD |")
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
                size=size, batch=batch, steps=steps, clip=clip, noise=strategy, sampling=sampling,
                target=ApproxDP(epsilon, 1e-5, relation=ZERO_OUT),
            )  # fmt: skip

            def trained(rate: float, plan: Plan = plan) -> tuple[float, list[float]]:
                """The mean on the records for choosing, and each seed's result on the others."""
                held, shown = [], []
                for seed in range(chosen.seeds):
                    torch.manual_seed(seed)
                    model = make().to(device)
                    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=chosen.momentum)
                    Trainer(model, optimizer, loss, plan).fit(data)
                    found = measure(model)
                    held.append(float(found[::2].mean()))
                    shown.append(float(found[1::2].mean()))
                return sign * statistics.mean(held), shown

            best, tried = _climbed(trained, rate)
            shown = tried[best][1]
            usual = usual or shown
            gained = [sign * (a - b) for a, b in zip(shown, usual, strict=True)]
            print(
                f"| {epsilon:g} | {name} | {sampling!r} | {float(plan.noise_multiplier):.3f} | {best:g} of"
                f" {min(tried):g} … {max(tried):g} | {statistics.mean(shown):.4f} ± {statistics.stdev(shown):.4f} |"
                f" {statistics.mean(gained):+.4f} (least {min(gained):+.4f}) |",
                flush=True,
            )


def _climbed(trained: Callable[[float], Any], start: float) -> tuple[float, dict[float, Any]]:
    """The rate whose two neighbours, half and twice as large, are worse, and everything that was tried."""
    best, tried = start, {start: trained(start)}
    while missing := [each for each in (best / 2, 2 * best) if each not in tried]:
        tried |= {each: trained(each) for each in missing}
        best = max(tried, key=lambda each: tried[each][0])
    return best, tried


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = ["errors", "factors", "step", "fashion", "network", "characters"]
    options.add_argument("part", choices=parts, nargs="?", default="errors")
    options.add_argument("--epsilon", type=float, nargs="+", default=[3.0, 8.0])
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--steps", type=int, default=20)
    options.add_argument("--warm", type=int, default=6)
    options.add_argument("--narrow", type=int, nargs="+", default=[0, 1], help="0: tf32, 1: bf16")
    options.add_argument("--kinds", type=int, nargs="+", default=[0, 1, 2, 3], help="rows; the first is compared with")
    options.add_argument("--momentum", type=float, default=0.9)
    chosen = options.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
    ways = {"errors": errors, "factors": factors, "step": step, "fashion": fashion, "network": network}
    (ways | {"characters": characters})[chosen.part](chosen)


if __name__ == "__main__":
    main()
