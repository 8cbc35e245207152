"""A linear model on fixed features of Fashion-MNIST, by noisy gradient descent on all of the data.

    DENIABLE_DATA=data python examples/fashion_features.py --epsilon 3

The features, scattering coefficients and histograms of gradients, are computed from each image alone and learn nothing,
so they cost no privacy (Tramèr and Boneh 2021, "Differentially private learning needs better features"). Settings were
chosen on the last 10,000 training images, never on the test images. Every seed is a run of its own: whoever published
all of them would pay for all of them. On a GPU a run takes seconds.
"""

from __future__ import annotations

import argparse
import statistics
import time

import fashion
import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

import deniable as dn

SETTINGS = {True: (500, 2.5, 0.2), False: (140, 2.5, 0.4)}
"""Steps, clip and learning rate for ε of 2 and more, and for less."""


def features(part: str, device: str) -> tuple[Tensor, Tensor]:
    """Features of one length with a constant, and labels."""
    pixels, labels = (each.to(device) for each in fashion.images(part))
    histograms = fashion.gradients(pixels)
    histograms = 20 * histograms / histograms.norm(dim=1, keepdim=True).clamp_min(1e-6)
    constant = torch.full((len(pixels), 1), 3.0, device=device)
    return torch.cat([fashion.scattering(pixels), histograms, constant], dim=1), labels


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--epsilon", type=float, default=3)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--settings", type=float, nargs=3, metavar=("STEPS", "CLIP", "RATE"))
    chosen = options.parse_args()
    (x, y), (test, labels) = features("train", chosen.device), features("t10k", chosen.device)
    steps, clip, rate = chosen.settings or SETTINGS[chosen.epsilon >= 2]
    target = dn.ApproxDP(chosen.epsilon, 1e-5)
    plan = dn.deep.Plan(size=60_000, batch=60_000, steps=int(steps), clip=clip, target=target)
    print(plan)
    found = []
    for seed in range(chosen.seeds):
        model = nn.Linear(x.shape[1], 10, bias=False, device=chosen.device)
        nn.init.zeros_(model.weight)  # the problem is convex; only the noise differs between seeds
        optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
        averaged = AveragedModel(model)
        loss = nn.CrossEntropyLoss(reduction="none")
        trainer = dn.deep.Trainer(model, optimizer, loss, plan, microbatch=15_000)
        start = time.perf_counter()
        for batch in trainer.batches((x, y)):
            if trainer.step(batch).step > 0.6 * plan.steps:
                averaged.update_parameters(model)
        with torch.no_grad():
            found.append(float((averaged(test).argmax(1) == labels).double().mean()))
        print(f"seed {seed}: {found[-1]:.4f} after {time.perf_counter() - start:.0f} s; {trainer.progress}", flush=True)
    print(f"test accuracy, mean of {len(found)}: {statistics.mean(found):.4f}")


if __name__ == "__main__":
    main()
