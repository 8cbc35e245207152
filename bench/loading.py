"""Private training with workers against a plain loop with the same workers: `python bench/loading.py`.

Rows are images that are decoded, cropped and normalised when they are read. *Plain* is a torch `DataLoader` over them,
forward, mean loss, backward, SGD. *Private* is `Trainer.fit` over the same rows with as many workers. A figure is rows
per second of the private run over those of the plain one; both see about as many rows. Rounds alternate.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import history
import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from deniable.deep import Plan, Trainer  # noqa: E402

GOAL = 0.95


class Images:
    """Compressed images, decoded and cropped when they are read."""

    def __init__(self, size: int, *, side: int) -> None:
        rng = np.random.default_rng(0)
        self._side, self._size = side, size
        self._files = [
            zlib.compress(rng.integers(0, 64, (side + 4, side + 4, 3), dtype=np.uint8).tobytes()) for _ in range(64)
        ]

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, at: int) -> tuple[Tensor, int]:
        side = self._side
        image = np.frombuffer(zlib.decompress(self._files[at % 64]), np.uint8).reshape(side + 4, side + 4, 3)
        top, left = np.random.randint(0, 5, 2)
        cut = image[top : top + side, left : left + side].astype(np.float32) / 32 - 1
        return torch.from_numpy(np.ascontiguousarray(cut.transpose(2, 0, 1))), at % 10


def network(width: int) -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for before, after in ((3, width), (width, width), (width, 2 * width), (2 * width, 2 * width)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.GroupNorm(8, after), nn.ReLU(), nn.AvgPool2d(2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10))


def plain(data: Images, model: nn.Module, *, batch: int, steps: int, workers: int, device: str) -> float:
    """Rows per second of a plain loop, behind its first step."""
    rows_of: Any = data
    loader: Any = DataLoader(rows_of, batch, shuffle=True, num_workers=workers, pin_memory=device == "cuda")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    begun, rows = 0.0, 0
    for step, (x, y) in enumerate(loader):
        if step == 1:
            synchronize(device)
            begun = time.perf_counter()
        if step == steps + 1:
            break
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x.to(device, non_blocking=True)), y.to(device)).backward()
        optimizer.step()
        rows += len(y) if step else 0
    synchronize(device)
    return rows / (time.perf_counter() - begun)


def private(
    data: Images, model: nn.Module, *, batch: int, steps: int, workers: int, device: str, warm: int, compile: Any
) -> float:
    """Rows per second of a private run, behind its first steps, in which graphs are drawn."""
    plan = Plan(size=len(data), batch=batch, steps=steps + warm, clip=1, noise_multiplier=1)
    loss = nn.CrossEntropyLoss(reduction="none")
    trainer = Trainer(model, torch.optim.SGD(model.parameters(), lr=0.1), loss, plan, compile=compile)
    begun, rows = 0.0, 0
    for at, drawn in enumerate(trainer.batches(data, num_workers=workers)):
        if at == warm:
            synchronize(device)
            begun = time.perf_counter()
        trainer.step(drawn)
        rows += len(drawn.units) if at >= warm else 0
    synchronize(device)
    return rows / (time.perf_counter() - begun)


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warm", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--compile", default="auto")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    settings = {"batch": given.batch, "steps": given.steps, "workers": given.workers, "device": device}
    lines = [
        f"# Private training with {given.workers} workers against a plain loop with as many", "",
        f"Batch {given.batch}, {given.steps} steps, torch {torch.__version__} on {device}; medians of {given.rounds}"
        f" rounds. Goal: {GOAL}.", "",
        "| rows | plain rows/s | private rows/s | private / plain |", "|---|---|---|---|",
    ]  # fmt: skip
    for side in (96, 192):
        width = 32 if device == "cuda" else 8
        data = Images(50_000, side=side)
        found: dict[str, list[float]] = {"plain": [], "private": []}
        for _ in range(given.rounds):
            found["plain"].append(plain(data, network(width).to(device), **settings))
            found["private"].append(
                private(data, network(width).to(device), warm=given.warm, compile=given.compile, **settings)
            )
        before, ours = (statistics.median(found[name]) for name in ("plain", "private"))
        name = f"images {side}×{side}"
        lines.append(f"| {name} | {before:.0f} | {ours:.0f} | {ours / before:.2f} |")
        metric = f"{name}, {given.workers} workers, batch {given.batch}, {device}"
        history.add("loading", metric, ours, "rows/s", peer="plain loop", ratio=ours / before)
        print(lines[-1], flush=True)
    history.keep("loading", "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
