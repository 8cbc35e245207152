"""The network of `fashion_cnn.py` under Opacus, with the same budget, batch, clip and learning rate, for comparison.

pip install opacus
DENIABLE_DATA=data python examples/fashion_cnn_opacus.py
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings

import fashion
import torch
from fashion_cnn import accuracy, network
from opacus import PrivacyEngine
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--epsilon", type=float, default=3)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--first", type=int, default=0, help="the first seed")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    chosen = options.parse_args()
    warnings.simplefilter("ignore")
    (x, y), (test, labels) = (
        tuple(part.to(chosen.device) for part in (2 * pixels - 1, classes))
        for pixels, classes in (fashion.images("train"), fashion.images("t10k"))
    )
    accuracies = []
    for seed in range(chosen.first, chosen.first + chosen.seeds):
        torch.manual_seed(seed)
        plain = network().to(chosen.device)
        averaged = AveragedModel(plain, multi_avg_fn=get_ema_multi_avg_fn(0.99))
        model, optimizer, loader = PrivacyEngine(accountant="prv").make_private_with_epsilon(
            module=plain,
            optimizer=torch.optim.SGD(plain.parameters(), lr=4),
            data_loader=DataLoader(TensorDataset(x, y), batch_size=4096),
            target_epsilon=chosen.epsilon,
            target_delta=1e-5,
            epochs=27,
            max_grad_norm=1.0,
        )
        start = time.perf_counter()
        for _ in range(27):
            for inputs, classes in loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(inputs), classes).backward()
                optimizer.step()
                averaged.update_parameters(plain)
        accuracies.append(accuracy(averaged, test, labels))
        print(f"seed {seed}: {accuracies[-1]:.4f} after {time.perf_counter() - start:.0f} s", flush=True)
    print(f"test accuracy, mean of {len(accuracies)}: {statistics.mean(accuracies):.4f}")


if __name__ == "__main__":
    main()
