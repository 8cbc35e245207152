"""A private step on several ranks against a plain one: `python bench/scale_training.py`. Part of bench/scale.py.

Two gloo processes, each on one thread. *Plain* is DistributedDataParallel as everybody uses it: forward, mean loss,
backward with its overlapped all-reduce, SGD. *Private* is the trainer on the same model, eager or compiled: one Poisson
sample for both ranks, clipping, secure noise, one all-reduce, SGD. Rounds alternate. A figure is the ratio of the
medians over rounds: of process time, which other work on the machine hardly moves, and of wall time, for a quiet one.

With `--unit-costs` it measures instead, on one device, what the plan for a large model in docs/scale.md multiplies:
seconds and memory per token of plain and private steps, and seconds per number of secure noise.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import history
import torch
from torch import Tensor, distributed, nn

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.deep_models import Transformer, lenet, perceptron  # noqa: E402
from deniable.deep import Plan, Trainer  # noqa: E402

GOAL = 1.3
cross_entropy = nn.CrossEntropyLoss(reduction="none")


def images(rows: int) -> tuple[Tensor, Tensor]:
    return torch.randn(rows, 1, 28, 28), torch.randint(0, 10, (rows,))


def texts(rows: int) -> tuple[Tensor, Tensor]:
    return torch.randint(0, 32_000, (rows, 128)), torch.randint(0, 2, (rows,))


CASES: dict[str, tuple[Callable[[], nn.Module], Callable[[int], tuple[Tensor, Tensor]], int]] = {
    "LeNet, batch 2 × 128": (lenet, images, 256),
    "MLP 784-1000-1000-10, batch 2 × 256": (lambda: nn.Sequential(nn.Flatten(), perceptron()), images, 512),
    "transformer 4×256, 128 tokens, batch 2 × 32": (lambda: Transformer(4, 256, 4), texts, 64),
}


# two ranks


def plain_steps(make: Callable[[], nn.Module], data: tuple[Tensor, Tensor], batch: int) -> Iterator[None]:
    """Data-parallel training as usual; every item is one step."""
    model = nn.parallel.DistributedDataParallel(make())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    each = batch // distributed.get_world_size()
    while True:
        rows = torch.randint(0, len(data[0]), (each,))
        optimizer.zero_grad()
        cross_entropy(model(data[0][rows]), data[1][rows]).mean().backward()
        optimizer.step()
        yield


def private_steps(
    make: Callable[[], nn.Module], data: tuple[Tensor, Tensor], batch: int, **settings: Any
) -> Iterator[None]:
    """The same by the trainer."""
    model = nn.parallel.DistributedDataParallel(make())
    plan = Plan(size=len(data[0]), batch=batch, steps=10_000, clip=1, noise_multiplier=1)
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.01), cross_entropy, plan, **settings)
    for drawn in trainer.batches(data):
        trainer.step(drawn)
        yield


def rank(folder: str, rounds: int, only: str) -> None:
    """One rank: time both kinds of steps, in turns."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    number, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=number, world_size=world)
    for name, (make, rows, batch) in CASES.items():
        if only not in name:
            continue
        torch.manual_seed(0)
        data = rows(20 * batch)
        kinds = {
            "plain": plain_steps(make, data, batch),
            "private": private_steps(make, data, batch),
            "compiled": private_steps(make, data, batch, compile=True),
        }
        for steps in kinds.values():
            for _ in range(3):
                next(steps)
        spent: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
        for _ in range(rounds):
            for kind, steps in kinds.items():
                distributed.barrier()
                began = time.process_time(), time.perf_counter()
                for _ in range(3):
                    next(steps)
                spent[kind].append((time.process_time() - began[0], time.perf_counter() - began[1]))
        if number == 0:
            cpu, wall = ({k: statistics.median(each[at] for each in v) / 3 for k, v in spent.items()} for at in (0, 1))
            for kind in ("private", "compiled"):
                ratio, met = cpu[kind] / cpu["plain"], "met" if cpu[kind] <= GOAL * cpu["plain"] else "missed"
                case = f"{name}, {kind}"
                history.add("scale_training", case, cpu[kind] * 1e3, "ms a step", peer="plain DDP", ratio=1 / ratio)
                print(
                    f"| {name} | {kind} | {cpu['plain'] * 1e3:.1f} ms | {cpu[kind] * 1e3:.1f} ms | {ratio:.2f} |"
                    f" {wall[kind] / wall['plain']:.2f} | ≤ {GOAL}: {met} |", flush=True,
                )  # fmt: skip
    distributed.destroy_process_group()


def report(rounds: int = 9, world: int = 2, only: str = "") -> None:
    """The table of ratios."""
    print("\n| two gloo ranks | | plain DDP, process time a step | private | ratio | ratio of wall time | goal |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--rank", folder, "--rounds", str(rounds), "--only", only]
        running = [
            subprocess.Popen(
                command, env={**os.environ, "RANK": str(r), "WORLD_SIZE": str(world), "OMP_NUM_THREADS": "1"}
            )
            for r in range(world)
        ]
        if any(each.wait() for each in running):
            raise SystemExit("a rank failed")


# unit costs, for docs/scale.md


def unit_costs() -> None:
    """Blocks of a large model's width, on one device: what one layer costs for one token, plain and private."""
    from deniable.deep.clipping import ClippingEngine
    from deniable.deep.randomness import SecureGenerator

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    width, layers, rows, tokens = (4096, 4, 8, 1024) if device.type == "cuda" else (256, 2, 8, 128)
    print(
        f"\n{torch.cuda.get_device_name() if device.type == 'cuda' else 'CPU, one thread'}, torch {torch.__version__}"
    )
    print(f"{layers} blocks of width {width}, {rows} rows of {tokens} tokens, bf16 autocast\n")
    print("| step | seconds | seconds per token and layer | peak memory above parameters | per token and layer |")
    print("|---|---|---|---|---|")
    blocks = Transformer(layers, width, max(1, width // 128), vocabulary=8).blocks
    model = nn.Sequential(blocks, Mean(), nn.Linear(width, 2)).to(device)
    x, y = torch.randn(rows, tokens, width, device=device), torch.zeros(rows, dtype=torch.long, device=device)

    def loss(made: Tensor, y: Tensor) -> Tensor:
        return cross_entropy(made.float(), y)

    def plain(x: Tensor, y: Tensor) -> None:
        with torch.autocast(device.type, torch.bfloat16):
            losses = loss(model(x), y)
        losses.mean().backward()
        for each in model.parameters():
            each.grad = None

    ways: dict[str, Callable[[Tensor, Tensor], Any]] = {"plain": plain}
    settings: dict[str, dict[str, Any]] = {"two passes": {"mode": "two_pass"}, "fast": {"mode": "fast"}}
    if device.type == "cuda":
        settings["fast, compiled"] = {"mode": "fast", "compile": True}
    for name, each in settings.items():
        engine = ClippingEngine(model, loss, autocast=torch.bfloat16, **each)
        ways[name] = lambda x, y, engine=engine: engine((x, y), clip=1.0)  # type: ignore[misc]
    for name, step in ways.items():
        seconds, memory = measured(lambda step=step: step(x, y), device)  # type: ignore[misc]
        _, half = measured(lambda step=step: step(x[: rows // 2], y[: rows // 2]), device)  # type: ignore[misc]
        per, slope = seconds / (rows * tokens * layers), (memory - half) / (rows // 2 * tokens * layers) / 1024
        print(f"| {name} | {seconds:.4f} | {per:.3g} | {memory / 2**30:.2f} GiB | {slope:.1f} KiB |", flush=True)
    size = 100_000_000 if device.type == "cuda" else 2_000_000
    generator = SecureGenerator()
    seconds, _ = measured(lambda: generator.noise("normal", size, scale=1.0, step=0, device=device), device)
    print(f"\nsecure noise: {seconds:.4f} s for {size:.0e} numbers, {seconds / size:.3g} s each")
    print(f"parameters of a block: {sum(p.numel() for p in blocks[0].parameters()):,}")


class Mean(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.mean(1)


def measured(action: Callable[[], Any], device: torch.device) -> tuple[float, int]:
    """Seconds (the median of seven) and peak memory of an action."""
    for _ in range(2):
        action()
    times = []
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        held = torch.cuda.memory_allocated()
    for _ in range(7):
        if device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter() if device.type == "cuda" else time.process_time()
        action()
        if device.type == "cuda":
            torch.cuda.synchronize()
        times.append((time.perf_counter() if device.type == "cuda" else time.process_time()) - began)
    memory = torch.cuda.max_memory_allocated() - held if device.type == "cuda" else 0
    return statistics.median(times), memory


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    words.add_argument("--rounds", type=int, default=9)
    words.add_argument("--only", default="", help="a part of the name of one model")
    words.add_argument("--unit-costs", action="store_true")
    words.add_argument("--rank", help=argparse.SUPPRESS)
    given = words.parse_args()
    if given.rank:
        rank(given.rank, given.rounds, given.only)
    elif given.unit_costs:
        torch.set_num_threads(1)
        unit_costs()
    else:
        report(given.rounds, only=given.only)
