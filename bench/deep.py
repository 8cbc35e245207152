"""One private training step against a plain one, time and memory: `make bench ROOM=deep`, on a GPU `python
bench/deep.py`.

Every method does the same work: forward, backward, clip to norm 1, Gaussian noise from torch's own generator, one
step of SGD. Ours runs eagerly and compiled, in the fast and in the two-pass mode; Opacus runs with hooks and with
ghost clipping if it can be imported (`--peers FOLDER` names a folder with the unpacked wheels of opacus and
opt_einsum; see bench/peers/opacus.txt). Ratios are to the plain step of the same model in the same run; on a CPU
times are process time.

The noise here is the fast generator that every peer uses, so that the figures compare clipping; what the secure
generator costs on top is measured where it lives.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

Step = Callable[[Tensor, Tensor], None]


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        rows, tokens, width = x.shape
        shape = (rows, tokens, 3, self.heads, width // self.heads)
        q, k, v = self.qkv(self.before(x)).view(shape).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(rows, tokens, width))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Transformer(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, vocabulary: int = 32_000) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.norm(self.blocks(self.table(x))).mean(1))


class Residual(nn.Module):
    def __init__(self, into: int, out: int, stride: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(16, into), nn.Conv2d(into, out, 3, stride, 1)
        self.norm2, self.conv2 = nn.GroupNorm(16, out), nn.Conv2d(out, out, 3, 1, 1)
        self.skip = nn.Conv2d(into, out, 1, stride) if into != out or stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        inner = self.conv1(F.relu(self.norm1(x)))
        return self.skip(x) + self.conv2(F.relu(self.norm2(inner)))


def wide_resnet(width: int = 4, depth: int = 2) -> nn.Module:
    sizes = [16, 16 * width, 32 * width, 64 * width]
    layers: list[nn.Module] = [nn.Conv2d(3, 16, 3, 1, 1)]
    for group in range(3):
        for at in range(depth):
            into = sizes[group] if at == 0 else sizes[group + 1]
            layers.append(Residual(into, sizes[group + 1], 2 if at == 0 and group else 1))
    end = [nn.GroupNorm(16, sizes[3]), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(sizes[3], 10)]
    return nn.Sequential(*layers, *end)


def lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(6, 16, 5), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip


def perceptron() -> nn.Module:
    return nn.Sequential(
        nn.Linear(784, 1000), nn.ReLU(), nn.Linear(1000, 1000), nn.ReLU(), nn.Linear(1000, 10)
    )  # fmt: skip


@dataclass(frozen=True)
class Case:
    name: str
    model: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    rows: int
    classes: int

    def batch(self) -> tuple[Tensor, Tensor]:
        return self.inputs(), torch.randint(0, self.classes, (self.rows,))


def _tokens(rows: int, length: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(0, 32_000, (rows, length))


GPU = (
    Case("transformer 12x768, T=128 B=64", lambda: Transformer(12, 768, 12), _tokens(64, 128), 64, 2),
    Case("transformer 12x768, T=512 B=32", lambda: Transformer(12, 768, 12), _tokens(32, 512), 32, 2),
    Case("WRN-16-4, 32x32 B=256", wide_resnet, lambda: torch.randn(256, 3, 32, 32), 256, 10),
)
CPU = (
    Case("LeNet, 28x28 B=128", lenet, lambda: torch.randn(128, 1, 28, 28), 128, 10),
    Case("MLP 784-1000-1000-10, B=256", perceptron, lambda: torch.randn(256, 784), 256, 10),
    Case("transformer 4x256, T=128 B=32", lambda: Transformer(4, 256, 4), _tokens(32, 128), 32, 2),
)


def plain(model: nn.Module, optimizer: Any, rows: int, narrow: bool) -> Step:
    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=narrow):
            loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()

    return step


def plain_compiled(model: nn.Module, optimizer: Any, rows: int, narrow: bool) -> Step:
    return plain(torch.compile(model), optimizer, rows, narrow)  # type: ignore[arg-type]


def _ours(mode: str, compile: bool, parts: int = 1) -> Callable[..., Step]:
    def method(model: nn.Module, optimizer: Any, rows: int, narrow: bool) -> Step:
        from deniable.deep.clipping import ClippingEngine

        engine = ClippingEngine(
            model,
            lambda made, y: F.cross_entropy(made, y, reduction="none"),
            mode=mode,
            compile=compile,
            microbatch=rows // parts,
            autocast=torch.bfloat16 if narrow else None,
        )

        def step(x: Tensor, y: Tensor) -> None:
            optimizer.zero_grad(set_to_none=True)
            sums = engine((x, y), clip=1.0).sums
            sizes = [each.numel() for each in sums.values()]
            noise = torch.empty(sum(sizes), device=x.device).normal_(0, 1 / rows).split(sizes)
            gradients = [part.view_as(each) for part, each in zip(noise, sums.values(), strict=True)]
            torch._foreach_add_(gradients, list(sums.values()), alpha=1 / rows)
            for parameter, gradient in zip(engine.parameters.values(), gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()

        return step

    return method


def opacus_hooks(model: nn.Module, optimizer: Any, rows: int, narrow: bool) -> Step:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    inner = GradSampleModule(model)
    outer = DPOptimizer(optimizer, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=rows)
    return plain(inner, outer, rows, narrow)


def opacus_ghost(model: nn.Module, optimizer: Any, rows: int, narrow: bool) -> Step:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    inner = GradSampleModuleFastGradientClipping(model, max_grad_norm=1.0, use_ghost_clipping=True)
    options = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": rows}
    outer = DPOptimizerFastGradientClipping(optimizer, **options)
    criterion = DPLossFastGradientClipping(inner, outer, nn.CrossEntropyLoss())

    def step(x: Tensor, y: Tensor) -> None:
        outer.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=narrow):
            loss = criterion(inner(x), y)
        loss.backward()
        outer.step()

    return step


METHODS: dict[str, Callable[..., Step]] = {
    "plain": plain,
    "plain, compiled": plain_compiled,
    "ours, fast": _ours("fast", False),
    "ours, fast, compiled": _ours("fast", True),
    "ours, fast, compiled, in halves": _ours("fast", True, parts=2),
    "ours, two-pass": _ours("two_pass", False),
    "ours, two-pass, compiled": _ours("two_pass", True),
    "Opacus hooks": opacus_hooks,
    "Opacus ghost": opacus_ghost,
}


def measure(case: Case, method: Callable[..., Step], *, device: str, narrow: bool, repeats: int) -> tuple[float, float]:
    """Median milliseconds of a step, and peak GiB of device memory since the model was made (0 on a CPU)."""
    gc.collect()
    torch._dynamo.reset()
    torch.manual_seed(0)
    if device != "cpu":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    model = case.model().to(device)
    step = method(model, torch.optim.SGD(model.parameters(), lr=1e-3), case.rows, narrow)
    batches = [tuple(each.to(device) for each in case.batch()) for _ in range(4)]
    for at in range(4):
        step(*batches[at % 4])
    times = []
    if device == "cpu":
        for at in range(repeats):
            before = time.process_time()
            step(*batches[at % 4])
            times.append((time.process_time() - before) * 1000)
        return sorted(times)[repeats // 2], 0.0
    torch.cuda.synchronize()
    for at in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        step(*batches[at % 4])
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[repeats // 2], torch.cuda.max_memory_allocated() / 2**30


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--peers", type=Path, help="a folder with unpacked wheels of opacus and opt_einsum")
    options.add_argument("--cases", default="", help="only cases whose name contains this")
    options.add_argument("--methods", default="", help="separated by semicolons; default all")
    options.add_argument("--precisions", default="tf32,bf16", help="GPU only")
    options.add_argument("--repeats", type=int, default=15)
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    warnings.filterwarnings("ignore")
    if given.peers:
        sys.path.insert(0, str(given.peers))
    lines = [f"# Private training steps, {datetime.date.today()}", ""]
    lines += [f"torch {torch.__version__}, {_machine(given.device)}", ""]
    lines += ["| case | precision | method | ms per step | / plain | GiB | / plain |", "|---|---|---|---|---|---|---|"]
    print(*lines, sep="\n")
    if given.device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    chosen = [each.strip() for each in given.methods.split(";") if each.strip()] or list(METHODS)
    precisions = given.precisions.split(",") if given.device == "cuda" else ["fp32"]
    for case in GPU if given.device == "cuda" else CPU:
        for precision in precisions:
            if given.cases not in case.name:
                continue
            base: tuple[float, float] | None = None
            for name in chosen:
                line, found = _row(case, precision, name, base, given)
                base = base or found
                lines.append(line)
                print(line, flush=True)
    if given.out:
        given.out.write_text("\n".join(lines) + "\n")


def _row(case: Case, precision: str, name: str, base: tuple[float, float] | None, given: Any) -> tuple[str, Any]:
    start = time.perf_counter()
    try:
        found = measure(
            case, METHODS[name], device=given.device, narrow=precision == "bf16", repeats=given.repeats
        )  # fmt: skip
    except Exception as error:  # noqa: BLE001  a peer that fails is a result
        reason = f"{type(error).__name__}: {str(error)[:90]}".replace("\n", " ").replace("|", "/")
        gc.collect()
        return f"| {case.name} | {precision} | {name} | fails: {reason} | | | |", None
    first = base or found
    memory = f"{found[1]:.2f} | {found[1] / first[1]:.2f}" if found[1] else " | "
    took = time.perf_counter() - start
    print(f"<!-- {took:.0f} s -->", end=" ", file=sys.stderr, flush=True)
    return f"| {case.name} | {precision} | {name} | {found[0]:.2f} | {found[0] / first[0]:.2f} | {memory} |", found


def _machine(device: str) -> str:
    if device == "cpu":
        return f"CPU, {torch.get_num_threads()} threads, process time"
    major, minor = torch.cuda.get_device_capability()
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return f"{torch.cuda.get_device_name()} (sm_{major}{minor}), driver {driver}, CUDA {torch.version.cuda}"


if __name__ == "__main__":
    main()
