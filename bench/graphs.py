"""The trainer's default on a GPU: the private step as a replayed graph, beside plain eager steps of the same models.

    python bench/graphs.py        # needs a CUDA device and transformers

Three models of the transformers library, as it builds them, with random weights, in bf16. For every model: plain eager
steps, private eager steps, and private steps as the trainer runs them (`compile="auto"`, `compile="graph"`), in
milliseconds and by ratio, with the seconds of the first 25 passes (proof, checks and tracing included) and the memory
that was reserved. Medians of 15 passes.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import history
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from deniable.deep.clipping import ClippingEngine

FIRST, REPEATS = 25, 15
Case = tuple[str, nn.Module, Callable[[Any, Tensor], Tensor], tuple[Tensor, Tensor]]


def next_token(output: Any, y: Tensor) -> Tensor:
    return F.cross_entropy(output.logits.transpose(1, 2).float(), y, reduction="none").mean(1)


def label(output: Any, y: Tensor) -> Tensor:
    return F.cross_entropy(output.logits.float(), y, reduction="none")


def cases() -> Iterator[Case]:
    import transformers as hf

    words = torch.randint(5, 50_000, (32, 256), device="cuda")
    classes = torch.randint(0, 2, (32,), device="cuda")
    language = hf.GPT2LMHeadModel(hf.GPT2Config())
    yield "GPT-2, 8 × 256 tokens", language, next_token, (words[:8], words[:8].clone())
    sentences = hf.RobertaForSequenceClassification(
        hf.RobertaConfig(vocab_size=50_265, max_position_embeddings=514, type_vocab_size=1)
    )
    yield "RoBERTa, 32 × 128 tokens", sentences, label, (words[:, :128].contiguous(), classes)
    images = hf.ViTForImageClassification(hf.ViTConfig(num_labels=2))  # type: ignore[call-arg]
    yield "ViT-B, 32 images", images, label, (torch.randn(32, 3, 224, 224, device="cuda"), classes)


def milliseconds(step: Callable[[], object]) -> float:
    for _ in range(3):
        step()
    times = []
    for _ in range(REPEATS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


def main() -> None:
    print("| model | step | ms | / plain eager | first 25 passes, s | reserved, GiB |\n|---|---|---|---|---|---|")
    for name, model, loss, batch in cases():
        network: nn.Module = model.cuda().train()

        def plain(network: nn.Module = network, loss: Any = loss, batch: Any = batch) -> None:
            network.zero_grad()
            with torch.autocast("cuda", torch.bfloat16):
                total = loss(network(batch[0]), batch[1]).sum()
            total.backward()

        base = milliseconds(plain)
        print(f"| {name} | plain eager | {base:.1f} | 1.00 | | |", flush=True)
        for compile in (False, "auto", "graph"):
            network.zero_grad()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            start = time.perf_counter()
            engine = ClippingEngine(network, loss, autocast=torch.bfloat16, compile=compile)
            for _ in range(FIRST):
                engine(batch, clip=1.0)
            torch.cuda.synchronize()
            first = time.perf_counter() - start
            ours = milliseconds(lambda engine=engine, batch=batch: engine(batch, clip=1.0))  # type: ignore[misc]
            memory = torch.cuda.max_memory_reserved() / 2**30
            kind = compile or "eager"
            history.add("graphs", f"{name}, private, {kind}", ours, "ms a step", peer="plain eager", ratio=base / ours)
            print(
                f"| {name} | private, {kind} | {ours:.1f} | {ours / base:.2f} | {first:.1f} | {memory:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    if torch.cuda.is_available():
        main()
    else:
        print("bench/graphs.py needs a CUDA device")
