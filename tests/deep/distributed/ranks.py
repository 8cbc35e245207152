"""What the ranks of a job do: `main` with RANK and WORLD_SIZE set, as torchrun sets them; `launching.py` calls it.

One start of the processes runs many small trainings, each a function whose name says what it is about. A rank saves
what its functions return; the tests look at that.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import deniable as dn
from deniable.deep import (
    AutomaticClipping,
    GridNoise,
    LaplaceNoise,
    NoiseShares,
    Observation,
    PerLayerClipping,
    SeededGenerator,
    Trainer,
    loading,
)
from deniable.deep import trainer as trainer_module
from deniable.deep.distributed.ranks import Ranks
from deniable.deep.distributed.replicas import Replicas
from deniable.errors import DeniableError
from tests.deep.models import cross_entropy, network, plan, sgd, table

RANK, WORLD = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))
QUIET = {"noise_multiplier": 1e-12}
"""So little noise that results of one and of several processes can be compared."""


class Words(nn.Module):
    """Tied embeddings, attention, a bare parameter: what hooks on single layers would miss."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(11, 8)
        self.place = nn.Parameter(torch.randn(5, 8))
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 11)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.head(self.block(self.embedding(x) + self.place).mean(1))
        return scores


def words() -> nn.Module:
    torch.manual_seed(3)
    return Words()


def sentences(rows: int = 60) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(5)
    return torch.randint(0, 11, (rows, 5), generator=random), torch.randint(0, 11, (rows,), generator=random)


def replicated(model: nn.Module) -> nn.Module:
    return DistributedDataParallel(model)


def sharded(model: nn.Module) -> nn.Module:
    """Blocks by themselves, the rest with the root: tied parameters must be in one group."""
    for child in model.children():
        if isinstance(child, nn.TransformerEncoderLayer) or (
            isinstance(child, nn.Linear) and not hasattr(model, "head")
        ):
            fully_shard(child)
    return fully_shard(model)  # type: ignore[return-value]


WAYS = {"replicated": replicated, "sharded": sharded}
STEPS = 40 if WORLD == 2 else 15
PEOPLE = [row // 4 for row in range(200)]
CASES: dict[str, tuple[Any, Any, dn.deep.Plan, dict[str, Any]]] = {
    "rows": (network, table, plan(batch=3, steps=10, clip=0.3, **QUIET), {}),
    "words": (words, sentences, plan(size=60, batch=3, steps=5, clip=0.2, **QUIET), {}),
}
MORE_CASES: dict[str, tuple[Any, Any, dn.deep.Plan, dict[str, Any]]] = {
    "grid": (network, table, plan(batch=3, steps=5, noise=GridNoise(bits=29), **QUIET), {}),
    "per layer": (words, sentences, plan(size=60, batch=3, steps=5, clipping=PerLayerClipping(), **QUIET), {}),
    "automatic": (network, table, plan(batch=3, steps=5, clip=0.3, clipping=AutomaticClipping(), **QUIET), {}),
    "microbatches": (network, table, plan(batch=3, steps=10, clip=0.3, **QUIET), {"microbatch": 1}),
    "two passes": (words, sentences, plan(size=60, batch=3, steps=5, clip=0.2, **QUIET), {"mode": "two_pass"}),
    "workers": (
        network,
        lambda: list(zip(*table(), strict=True)),
        plan(batch=3, steps=5, clip=0.3, augmentations=2, **QUIET),
        {"microbatch": 1, "num_workers": 1},
    ),
    "people": (
        network,
        table,
        plan(size=50, batch=2, steps=6, unit="user_id", rows_per_unit=4, clip=0.3, **QUIET),
        {"people": PEOPLE},
    ),
    "without replacement": (
        network,
        table,
        plan(batch=4, steps=4, sampling=dn.deep.WithoutReplacement(), relation=dn.Relation.REPLACE, **QUIET),
        {},
    ),
    "fixed batches": (
        network,
        table,
        plan(batch=30, steps=8, sampling=dn.deep.FixedBatches(), relation=dn.Relation.REPLACE, **QUIET),
        {},
    ),
}
if WORLD == 2:
    CASES |= MORE_CASES


def silent(output: Tensor, y: Tensor) -> Tensor:
    """A loss without a gradient, so that a step is noise alone."""
    return (output * 0).sum(1)


def whole(model: nn.Module) -> Tensor:
    """All parameters, wherever they are."""
    full = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return torch.cat([p.detach().reshape(-1) for p in full])


def trained(
    model: nn.Module,
    data: Any,
    stated: dn.deep.Plan,
    *,
    people: list[int] | None = None,
    num_workers: int = 0,
    **settings: Any,
) -> Tensor:
    trainer = Trainer(model, sgd(model), cross_entropy, stated, generator=SeededGenerator(7), **settings)
    return whole(trainer.fit(data, people=people, num_workers=num_workers).model)


# the same result


def equal_to_one_process() -> dict[str, tuple[Tensor, Tensor]]:
    """By ranks and by one process, the first. Batches are small: some ranks get more units than others, some none."""
    found = {}
    for kind, (make, data, stated, settings) in CASES.items():
        alone = trained(make(), data(), stated, **settings) if RANK == 0 else torch.empty(0)
        for way, spread in WAYS.items():
            if not isinstance(stated.noise, GridNoise) or way == "replicated":
                found[f"{kind}, {way}"] = trained(spread(make()), data(), stated, **settings), alone
    return found


# the noise


def noise_measured() -> dict[str, Tensor]:
    """A loss without a gradient and a learning rate of 1: parameters move by the noise over the expected batch."""
    found = {}
    kinds: dict[str, Any] = {"normal": None, "shares": NoiseShares(WORLD, WORLD - 1)}
    if WORLD == 2:
        kinds |= {"laplace": LaplaceNoise(), "grid": GridNoise()}
    for name, kind in kinds.items():
        stated = plan(steps=1, clip=0.5, noise_multiplier=3, noise=kind)
        for way, spread in WAYS.items():
            if way == "sharded" and name in ("grid", "shares"):
                continue
            model = spread(nn.Linear(4, 3000))
            before = whole(model).double()
            Trainer(model, sgd(model, lr=1), silent, stated).fit(table())
            found[f"{name}, {way}"] = (whole(model).double() - before) * 20 / (3 * 0.5)
    # Seeded ranks draw by seeds of their own: equal stretches of noise would be a disaster that a scale does not show.
    model = replicated(nn.Linear(4, 3000))
    before = whole(model)
    Trainer(model, sgd(model, lr=1), silent, plan(steps=1), generator=SeededGenerator(1)).fit(table())
    found["seeded"] = whole(model) - before
    return found


def share_of_each() -> dict[str, Any]:
    """What one worker adds by itself, before anything is summed."""
    added: list[Tensor] = []
    summed = Replicas._summed

    def watch(self: Replicas, flat: Tensor) -> Tensor:
        added.append(flat.clone())
        return summed(self, flat)

    stated = plan(steps=1, clip=0.5, noise_multiplier=3, noise=NoiseShares(WORLD, 0))
    model = replicated(nn.Linear(4, 3000))
    with patched(Replicas, "_summed", watch):
        Trainer(model, sgd(model), silent, stated).fit(table(rows=50 * (RANK + 1)))
    return {"added": added[0][:-WORLD].double() / (3 * 0.5), "event": stated.event.to_json()}


# what ran


def instrumented() -> dict[str, Any]:
    """Every step of a run: who was drawn, who worked on whom, and the noise between clipped and released sums."""
    found: dict[str, Any] = {}
    for way, spread in WAYS.items():
        seen: list[Observation] = []
        worked: list[list[int]] = []

        def watch(rows: Any, places: Any, worked: Any = worked, **settings: Any) -> Any:
            worked.append(sorted(places.reshape(-1).tolist()))
            return loading.parts_here(rows, places, **settings)

        stated = plan(batch=5, steps=STEPS, noise_multiplier=2, clip=0.5)
        model = spread(network(width=40))
        with patched(trainer_module, "parts_here", watch):
            trainer = Trainer(model, sgd(model), cross_entropy, stated, observers=[seen.append])
            trainer.fit(table())
        noise = [
            torch.cat([(5 * one.released[n] - one.clipped[n]).reshape(-1) for n in one.clipped]).double()
            for one in seen
        ]
        longest = max(float(sum(each.square().sum() for each in one.clipped.values()).sqrt()) for one in seen)
        found[way] = {
            "units": [each.units for each in seen], "worked": worked, "noise": torch.cat(noise) / (2 * 0.5),
            "longest": longest, "steps": trainer.progress.step,
        }  # fmt: skip
    return found


def own_data() -> dict[str, Any]:
    """Workers with data of their own: one has two rows, the others more; each draws its own sample."""
    rows = 2 if RANK == 0 else 60
    stated = plan(size=2 + 60 * (WORLD - 1), batch=4, steps=10, noise=NoiseShares(WORLD, 1), noise_multiplier=1)
    seen: list[Observation] = []
    said: list[Any] = []
    counted, told = Ranks._counted, Ranks._told
    model = replicated(network())
    trainer = Trainer(model, sgd(model), cross_entropy, stated, observers=[seen.append])
    with (
        patched(Ranks, "_counted", lambda self, value, how: (said.append(value), counted(self, value, how))[1]),
        patched(Ranks, "_told", lambda self, value: (said.append(value), told(self, value))[1]),
    ):
        trainer.fit(table(rows=rows, seed=RANK))
    longest = [float(sum(each.square().sum() for each in one.clipped.values()).sqrt()) for one in seen]
    return {
        "units": [each.units for each in seen], "rows": rows, "parameters": whole(model), "said": said,
        "longest": longest,
    }  # fmt: skip


# paying


def charged(folder: Path) -> dict[str, Any]:
    """The first rank has the ledger; the others name a file that is not there."""
    path = folder / f"run-{WORLD}.ledger"
    if RANK == 0:
        dn.Ledger.create(path, unit="row", budget=dn.ApproxDP(10, 1e-4)).close()
    named = path if RANK == 0 else folder / "nowhere.ledger"
    model = replicated(network())
    trainer = Trainer(model, sgd(model), cross_entropy, plan(steps=3), ledger=named, run="first")
    trainer.fit(table())
    settings: dict[str, Any] = {"ledger": named, "run": "first", "sample": table(2)}
    again = attempt(lambda: Trainer(model, sgd(model), cross_entropy, plan(steps=3), **settings))
    huge = attempt(
        lambda: Trainer(model, sgd(model), cross_entropy, plan(steps=900, noise_multiplier=0.1), ledger=named)
    )
    insecure = attempt(
        lambda: Trainer(model, sgd(model), cross_entropy, plan(), ledger=named, generator=SeededGenerator(1))
    )
    return {"progress": str(trainer.progress), "run": trainer.run, "again": again, "huge": huge, "insecure": insecure}


def refusals() -> dict[str, str]:
    """What is refused is refused on every rank, at the same moment."""
    model = replicated(network())
    optimizer = sgd(model)
    mixed = replicated(nn.Sequential(nn.Linear(4, 3)))
    mine = plan(steps=3 + RANK)
    found = {
        "plans": attempt(lambda: Trainer(model, optimizer, cross_entropy, mine)),
        "data": attempt(lambda: Trainer(model, optimizer, cross_entropy, plan()).fit(table(rows=100 + RANK))),
        "shares": attempt(lambda: Trainer(model, optimizer, cross_entropy, plan(noise=NoiseShares(WORLD + 1, 0)))),
        "leak": attempt(lambda: Trainer(mixed, sgd(mixed), centred, plan()).fit(table())),
        "rows": attempt(lambda: Trainer(model, optimizer, cross_entropy, plan()).fit(table(seed=RANK))),
        "file": attempt(lambda: Trainer(model, optimizer, cross_entropy, plan()).save("no/such/folder/run.pt")),
        "reading": attempt(lambda: Trainer(model, optimizer, cross_entropy, plan()).fit(Broken())),
    }
    split = sharded(network())
    for name, settings in (("compile", {"compile": True}), ("vmap", {"mode": "vmap"})):
        found[name] = attempt(partial(Trainer, split, sgd(split), cross_entropy, plan(), **settings))
    found["grid"] = attempt(lambda: Trainer(split, sgd(split), cross_entropy, plan(noise=GridNoise())))
    found["leak, sharded"] = attempt(lambda: Trainer(split, sgd(split), centred, plan()).fit(table()))
    return found


class Broken:
    """A data set that cannot be read on the last rank."""

    def __len__(self) -> int:
        return 200

    def __getitem__(self, row: int) -> Any:
        if RANK == WORLD - 1:
            raise KeyError("a private value")
        return table()[0][row], table()[1][row]


def centred(output: Tensor, y: Tensor) -> Tensor:
    """A loss that mixes examples."""
    return cross_entropy(output - output.mean(0), y)


# stopping and going on


def resumed(folder: Path) -> dict[str, Any]:
    """Six steps, a checkpoint, six more: the same as twelve. The checkpoint of replicas also goes on in one process."""
    found: dict[str, Any] = {}
    stated = plan(steps=12, **QUIET)
    data = table()
    for way, spread in WAYS.items():
        path = folder / f"{way}-{WORLD}.pt"
        model = spread(network())
        trainer = Trainer(model, adam(model), cross_entropy, stated, generator=SeededGenerator(7))
        trainer.save(path)  # before the first step too
        for batch in trainer.batches(data):
            if trainer.step(batch).step == 6:
                break
        trainer.save(path)
        trainer.close()
        other = spread(network(seed=9))
        optimizer = adam(other)
        again = Trainer.resume(path, other, optimizer, cross_entropy, generator=SeededGenerator(7))
        at = again.progress.step
        again.fit(data)
        again.close()
        straight = network()
        Trainer(straight, adam(straight), cross_entropy, stated, generator=SeededGenerator(7)).fit(data)
        found[way] = {"at": at, "parameters": whole(again.model), "straight": whole(straight)}
    return found


def adam(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.Adam(model.parameters(), lr=0.01)


def died(folder: Path) -> None:
    """The last rank is killed in its fifth step, in the middle of a run that was paid for."""
    model = replicated(network())
    path = folder / "run.ledger"
    if RANK == 0:
        dn.Ledger.create(path, unit="row", budget=dn.ApproxDP(10, 1e-4)).close()
    trainer = Trainer(model, sgd(model), cross_entropy, plan(steps=40), ledger=path, run="the one")
    trainer.save(folder / "run.pt")
    for batch in trainer.batches(table()):
        if RANK == WORLD - 1 and batch.step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        trainer.step(batch)


# running


def attempt(action: Callable[[], Any]) -> str:
    """What an action is refused with."""
    try:
        action()
    except (DeniableError, OSError, KeyError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


@contextmanager
def patched(owner: Any, name: str, value: Any) -> Any:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def main(job: str, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/{job}.meet", rank=RANK, world_size=WORLD, timeout=timedelta(seconds=200)
    )
    if job == "died":
        died(folder)
        raise SystemExit("the other rank should have died")
    found: dict[str, Any] = {
        "equal": equal_to_one_process(),
        "noise": noise_measured(),
        "share": share_of_each(),
        "instrumented": instrumented(),
        "own": own_data(),
    }
    if WORLD == 2:
        found |= {"charged": charged(folder), "refusals": refusals(), "resumed": resumed(folder)}
    torch.save(found, folder / f"{job}-{RANK}.pt")
    distributed.destroy_process_group()
