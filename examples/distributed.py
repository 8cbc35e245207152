"""One private training on several processes. On one machine with two of them:

    torchrun --nproc-per-node 2 examples/distributed.py
    torchrun --nproc-per-node 2 examples/distributed.py --way fsdp

On several machines torchrun gets its rendezvous as usual. Every rank runs this file; the first one keeps the ledger
and the checkpoint. The data are made up: two classes in twenty dimensions.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import deniable as dn


def made_up(rows: int, *, seed: int) -> tuple[Tensor, Tensor]:
    """The same rows on every rank: the trainer draws one sample of them and divides it."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 20, generator=random)
    return x, (x[:, :5].sum(1) + 0.5 * torch.randn(rows, generator=random) > 0).long()


def spread(model: nn.Module, way: str) -> nn.Module:
    """A replica on every rank, or a part of the parameters on each."""
    if way == "ddp":
        return DistributedDataParallel(model)
    for layer in model.children():
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return fully_shard(model)  # type: ignore[return-value]


def main(way: str, folder: Path) -> None:
    rank = distributed.get_rank()
    path = folder / "run.ledger"
    if rank == 0:
        dn.Ledger.create(path, unit="row", budget=dn.ApproxDP(3, 1e-5)).close()
    plan = dn.deep.Plan(size=20_000, batch=500, epochs=5, clip=1.0, target=dn.ApproxDP(2, 1e-6))
    torch.manual_seed(1)
    model = spread(nn.Sequential(nn.Linear(20, 64), nn.Tanh(), nn.Linear(64, 2)), way)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    trainer = dn.deep.Trainer(model, optimizer, nn.CrossEntropyLoss(reduction="none"), plan, ledger=path)
    trainer.fit(made_up(20_000, seed=0), checkpoint=folder / "run.pt")
    x, y = made_up(2_000, seed=1)  # public rows
    with torch.no_grad():
        right = float((model(x).argmax(1) == y).double().mean())
    if rank == 0:
        print(trainer.progress)
        print(f"{distributed.get_world_size()} ranks, {way}: {right:.3f} of new rows right")


if __name__ == "__main__":
    words = argparse.ArgumentParser(description="One private training on several processes; start it with torchrun.")
    words.add_argument("--way", choices=["ddp", "fsdp"], default="ddp")
    given = words.parse_args()
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    with tempfile.TemporaryDirectory() as place:
        shared = [place]
        distributed.broadcast_object_list(shared)  # the first rank's folder; on several machines, a shared one
        main(given.way, Path(shared[0]))
        distributed.barrier()
    distributed.destroy_process_group()
