"""What secure noise costs: AES-CTR on the CPU and ChaCha20 on a GPU, beside torch's own generator."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import history
import torch

from deniable.deep.randomness import PhiloxGenerator, SecureGenerator


def nanoseconds(make: Callable[[], object], size: int, device: str) -> float:
    """Per number, the best of five after a warm-up."""
    clock = time.process_time if device == "cpu" else time.perf_counter
    best = float("inf")
    for turn in range(6):
        start = clock()
        make()
        if device == "cuda":
            torch.cuda.synchronize()
        if turn:
            best = min(best, clock() - start)
    return best / size * 1e9


def main() -> None:
    torch.set_num_threads(1)
    print(f"torch {torch.__version__}; nanoseconds per number")
    for device, size in (("cpu", 1 << 20), ("cuda", 85_000_000)):
        if device == "cuda" and not torch.cuda.is_available():
            continue
        for law in ("normal", "laplace"):
            ours, peer = (
                nanoseconds(partial(g.noise, law, size, scale=1.0, step=0, device=device), size, device)
                for g in (SecureGenerator(), PhiloxGenerator(1))
            )
            where = torch.cuda.get_device_name() if device == "cuda" else "CPU"
            history.add("deep_noise", f"{law}, {where}", ours, "ns", peer="torch", ratio=peer / ours)
            print(f"{device:5} {law:8} secure {ours:8.3f}   torch {peer:8.3f}   ratio {ours / peer:.1f}")


if __name__ == "__main__":
    main()
