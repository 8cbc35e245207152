"""A small convolutional network on Fashion-MNIST, trained end to end at ε = 2.7, δ = 1e-5.

    DENIABLE_DATA=data python examples/fashion_cnn.py

The network and its settings are those of Papernot et al. 2021 ("Tempered sigmoid activations for deep learning with
differential privacy"); what is reported is the average of the weights over the last steps, which costs nothing. Every
seed is a run of its own: whoever published all of them would pay for all of them. On a GPU a run takes seconds.
"""

from __future__ import annotations

import argparse
import statistics
import time

import fashion
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import deniable as dn


def network() -> nn.Module:
    """26,010 parameters, with bounded activations."""
    return nn.Sequential(
        nn.Conv2d(1, 16, 8, stride=2, padding=2), nn.Tanh(), nn.MaxPool2d(2, stride=1),
        nn.Conv2d(16, 32, 4, stride=2), nn.Tanh(), nn.MaxPool2d(2, stride=1),
        nn.Flatten(), nn.Linear(512, 32), nn.Tanh(), nn.Linear(32, 10),
    )  # fmt: skip


def accuracy(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    with torch.no_grad():
        return float((torch.cat([model(part) for part in x.split(1000)]).argmax(1) == y).double().mean())


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--epsilon", type=float, default=2.7)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--batch", type=int, default=2048)
    options.add_argument("--epochs", type=float, default=40)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = options.parse_args()
    (x, y), (test, labels) = (
        tuple(part.to(chosen.device) for part in (2 * pixels - 1, classes))
        for pixels, classes in (fashion.images("train"), fashion.images("t10k"))
    )
    target = dn.ApproxDP(chosen.epsilon, 1e-5)
    plan = dn.deep.Plan(size=60_000, batch=chosen.batch, epochs=chosen.epochs, clip=0.1, target=target)
    print(plan)
    found = []
    for seed in range(chosen.seeds):
        torch.manual_seed(seed)  # the first weights; noise and sampling are never seeded
        model = network().to(chosen.device)
        optimizer = torch.optim.SGD(model.parameters(), lr=4, momentum=0.9)
        averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.99))
        trainer = dn.deep.Trainer(model, optimizer, nn.CrossEntropyLoss(reduction="none"), plan)
        start = time.perf_counter()
        trainer.fit((x, y), on_step=lambda _, m=model, a=averaged: a.update_parameters(m))  # type: ignore[misc]
        found.append(accuracy(averaged, test, labels))
        print(f"seed {seed}: {found[-1]:.4f} after {time.perf_counter() - start:.0f} s; {trainer.progress}", flush=True)
    print(f"test accuracy, mean of {len(found)}: {statistics.mean(found):.4f}")


if __name__ == "__main__":
    main()
