"""Correlated noise on ranks, and ranks that fail in a step. `launching.py` calls `main`, as that of `ranks.py`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, distributed, nn

import deniable as dn
from deniable.deep import CyclicPoisson, GridNoise, NoiseShares, Observation, SeededGenerator, Trainer
from deniable.deep.distributed.replicas import Replicas
from deniable.strategies import Buffered, Strategy, Toeplitz, Tree
from tests.deep.distributed.ranks import QUIET, RANK, WAYS, WORLD, attempt, patched, replicated, silent, trained, whole
from tests.deep.models import cross_entropy, plan, sgd, table

STEPS = 12
STRATEGIES: dict[str, Strategy] = {
    "banded": Toeplitz.square_root(STEPS, bands=4),
    "tree": Tree(STEPS),
    "buffered": Buffered(decays=[0.9, 0.5], weights=[0.2, 0.3], steps=STEPS),
}


def network() -> nn.Module:
    """76 numbers: as many for each of two ranks."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))


def correlated(strategy: Strategy, **changed: Any) -> dn.deep.Plan:
    return plan(**{"noise": strategy, "batch": 50, **changed})


class Recording(SeededGenerator):
    """Keeps the fresh numbers of every step; a rank's own generator is of the same class."""

    drawn: ClassVar[list[Tensor]] = []

    def noise(self, law: str, size: int, **settings: Any) -> Tensor:
        made = super().noise(law, size, **settings)
        self.drawn.append(made.double())
        return made


def added(observed: list[Observation]) -> Tensor:
    """What was added to every sum: a row for each step."""
    rows = [torch.cat([(50 * s.released[n].double() - s.clipped[n]).reshape(-1) for n in s.clipped]) for s in observed]
    return torch.stack(rows)


def noise_of(
    spread: Callable[[nn.Module], nn.Module],
    strategy: Strategy,
    *,
    make: Callable[[], nn.Module] = network,
    steps: int = STEPS,
    path: Path | None = None,
) -> dict[str, Any]:
    """The noise of a run, this rank's fresh numbers, and the parameters at the end."""
    seen: list[Observation] = []
    Recording.drawn.clear()
    model = spread(make())
    trainer = Trainer(
        model, sgd(model), cross_entropy, correlated(strategy), generator=Recording(7), observers=[seen.append]
    )
    for batch in trainer.batches(table()):
        if trainer.step(batch).step == steps:
            break
    if path is not None:
        trainer.save(path)
        trainer.close()
    return {"added": added(seen), "drawn": list(Recording.drawn), "parameters": whole(model)}


# the same run


def equal_to_one_process() -> dict[str, tuple[Tensor, Tensor]]:
    found = {}
    plans = {name: correlated(each, **QUIET) for name, each in STRATEGIES.items()}
    plans["cyclic"] = correlated(STRATEGIES["banded"], batch=10, sampling=CyclicPoisson(parts=5), **QUIET)
    for name, stated in plans.items():
        alone = trained(network(), table(), stated) if RANK == 0 else torch.empty(0)
        for way, spread in WAYS.items():
            found[f"{name}, {way}"] = trained(spread(network()), table(), stated), alone
    return found


def noise_drawn() -> dict[str, Any]:
    return {
        f"{name}, {way}": noise_of(spread, strategy)
        for name, strategy in STRATEGIES.items()
        for way, spread in WAYS.items()
    }


def noise_measured() -> dict[str, Tensor]:
    """C times the noise of a run without gradients, over its scale: independent normal numbers."""
    strategy, found = Toeplitz.square_root(4, bands=3), {}
    matrix = torch.from_numpy(strategy.matrix())
    for way, spread in WAYS.items():
        seen: list[Observation] = []
        model = spread(nn.Linear(4, 3000))
        stated = correlated(strategy, steps=4, clip=0.5, noise_multiplier=3)
        Trainer(model, sgd(model), silent, stated, observers=[seen.append]).fit(table())
        found[way] = matrix @ added(seen) / (3 * 0.5)
    return found


# broken on purpose


def broken() -> dict[str, Any]:
    """Ranks that exchange their stretches, that all add noise to everything, that draw after the sums are made."""
    stretch = Replicas._stretch
    calls: list[Any] = []

    def exchanged(self: Replicas, sums: Any) -> Any:
        calls.append(None)
        with patched(self, "rank", (RANK + len(calls)) % 2):  # asked once in a step
            return stretch(self, sums)

    def twice(self: Replicas, sums: Any, add: Any) -> Any:
        return self._added_up(add(sums))

    def late(self: Replicas, sums: Any, add: Any) -> Any:
        return add(self._added_up(sums))

    found = {}
    for name, member, value in (
        ("exchanged", "_stretch", exchanged), ("twice", "noisy", twice), ("late", "noisy", late),
    ):  # fmt: skip
        with patched(Replicas, member, value):
            found[name] = noise_of(replicated, STRATEGIES["banded"], make=lambda: nn.Linear(4, 4, bias=False))
    return found


# stopping and going on


def resumed(folder: Path, straight: dict[str, Any]) -> dict[str, Any]:
    """Five steps, a checkpoint, seven more; another save before the first of them; beside all of it in one run."""
    found: dict[str, Any] = {}
    for name, strategy in STRATEGIES.items():
        for way, spread in WAYS.items():
            path = folder / f"{name}-{way}.pt"
            first = noise_of(spread, strategy, steps=5, path=path)
            saved = torch.load(path, weights_only=True)["noise"]
            distributed.barrier()
            model = spread(network())
            again = Trainer.resume(path, model, sgd(model), cross_entropy, generator=SeededGenerator(7))
            again.save(path)
            written = torch.load(path, weights_only=True)["noise"]
            again.fit(table(), checkpoint=path)
            again.close()
            found[f"{name}, {way}"] = {
                "added": first["added"][-1], "saved": saved, "written": written, "parameters": whole(model),
                "straight": straight[f"{name}, {way}"]["parameters"],
                "last": torch.load(path, weights_only=True)["noise"],
            }  # fmt: skip
    return found


def other_checkpoint(folder: Path) -> str:
    """Each rank resumes from a file of its own: the run after one step, and after two."""
    model = replicated(network())
    trainer = Trainer(model, sgd(model), cross_entropy, plan())
    for batch in trainer.batches(table()):
        trainer.step(batch)
        trainer.save(folder / "same.pt")
        if RANK == 0:
            for ending in ("", ".journal"):
                shutil.copy(folder / f"same.pt{ending}", folder / f"other-{batch.step - 1}.pt{ending}")
        if batch.step == WORLD:
            break
    torch.distributed.barrier()
    trainer.close()
    return attempt(lambda: Trainer.resume(folder / f"other-{RANK}.pt", model, sgd(model), cross_entropy))


class Scale(nn.Module):
    """One number, for more ranks than numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


def one_number(folder: Path) -> dict[str, Any]:
    found = {}
    for way, spread in WAYS.items():
        model = spread(Scale())
        trainer = Trainer(model, sgd(model), cross_entropy, correlated(STRATEGIES["banded"]))
        trainer.fit(table(), checkpoint=folder / f"one-{way}.pt", every=5)
        found[way] = whole(model)
    return found


# ranks that fail


class Failing:
    """A loss that fails on the last rank while it is told to."""

    on = False

    def __call__(self, output: Tensor, y: Tensor) -> Tensor:
        if self.on and RANK == WORLD - 1:
            raise MemoryError("a private value")  # of an error about a row no rank would hear
        return cross_entropy(output, y)


class FailingNoise(SeededGenerator):
    """Noise that cannot be drawn on the last rank in the third step."""

    def source(self, step: int, *, purpose: str) -> Any:
        if purpose == "noise" and step == 2 and RANK == WORLD - 1:
            raise OSError("a private value")
        return super().source(step, purpose=purpose)


def failed() -> dict[str, Any]:
    kinds: dict[str, Any] = {
        "normal": None, "grid": GridNoise(), "shares": NoiseShares(WORLD, 0), "correlated": STRATEGIES["banded"],
    }  # fmt: skip
    return {
        f"{name}, {where}": third_step_failed(noise, where)
        for name, noise in kinds.items()
        for where in ("loss", "noise")
    }


def third_step_failed(noise: Any, where: str) -> dict[str, Any]:
    """The third step fails on the last rank; all of them hear of it, and go on with the fourth."""
    loss, model = Failing(), replicated(network())
    generator = FailingNoise(7) if where == "noise" else SeededGenerator(7)
    trainer = Trainer(model, sgd(model), loss, plan(noise=noise, batch=50), generator=generator)
    said, parameters, remembered = [], [], ""
    for batch in trainer.batches(table()):
        loss.on = where == "loss" and batch.step == 3
        said.append(attempt(lambda batch=batch: trainer.step(batch)))  # type: ignore[misc]
        parameters.append(whole(model))
        if batch.step == 4:
            remembered = attempt(lambda: trainer._workers.gathered(trainer._noising.state()))
    return {"said": said, "parameters": parameters, "steps": trainer.progress.step, "remembered": remembered}


def failed_on_a_device(folder: Path) -> dict[str, Any]:
    return {when: failed_late(folder / f"late-{when}.pt", when) for when in ("draw", "save", "end")}


def failed_late(path: Path, when: str) -> dict[str, Any]:
    """As on a GPU, where the host does not wait for sums: the others hear of it at the next wait for all ranks."""
    last = STEPS if when == "end" else 3
    loss, model = Failing(), replicated(network())
    trainer = Trainer(model, sgd(model), loss, plan(batch=50), generator=SeededGenerator(7))
    trainer._workers._at_once = False  # type: ignore[attr-defined]
    trainer.save(path)
    before = path.read_bytes()

    def run() -> None:
        for batch in trainer.batches(table()):
            loss.on = batch.step == last
            trainer.step(batch)
            if when == "save" and batch.step == last:
                trainer.save(path)

    said = attempt(run)
    distributed.barrier()
    kept = path.read_bytes() == before
    return {"said": said, "steps": trainer.progress.step, "parameters": whole(model), "kept": kept}


def main(job: str, folder: Path) -> None:
    torch.set_num_threads(1)
    distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=RANK, world_size=WORLD, timeout=timedelta(seconds=60)
    )
    drawn = noise_drawn()
    found = {
        "equal": equal_to_one_process(),
        "drawn": drawn,
        "measured": noise_measured(),
        "broken": broken(),
        "resumed": resumed(folder, drawn),
        "other": other_checkpoint(folder),
        "one": one_number(folder),
        "failed": failed(),
        "late": failed_on_a_device(folder),
    }
    torch.save(found, folder / f"{job}-{RANK}.pt")
    distributed.destroy_process_group()
