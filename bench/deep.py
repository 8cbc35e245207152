"""One private training step against a plain one, time and memory: `make bench ROOM=deep`, on a GPU `python
bench/deep.py`.

Every method does the same work: forward, backward, clip to norm 1, Gaussian noise from torch's own generator, one
step of SGD. Ours runs eagerly and compiled, in the fast and in the two-pass mode; Opacus runs with hooks and with
ghost clipping if it can be imported (`--peers FOLDER` names a folder with the unpacked wheels of opacus and
opt_einsum; see bench/peers/opacus.txt). Ratios are to the plain step of the same model in the same run. On a CPU times
are process time, and the methods of a case take turns step by step: a machine whose speed drifts drifts for all.

Compiling takes longer than measuring. `--parallel` compiles every method in a process of its own, all at once, and
then lets them measure one after the other, each alone on the device.

The noise here is the fast generator that every peer uses, so that the figures compare clipping; what the secure
generator costs on top is measured where it lives.
"""

from __future__ import annotations

import argparse
import datetime
import gc
import itertools
import multiprocessing
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import history
import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from bench.deep_models import (  # noqa: E402
    Recurrent,
    Stepper,
    Transformer,
    lenet,
    perceptron,
    transformers_model,
    wide_resnet,
)

Step = Callable[[Tensor, Tensor], None]


@dataclass(frozen=True)
class Case:
    name: str
    model: Callable[[], nn.Module]
    inputs: Callable[[], Tensor]
    rows: int
    classes: int | None
    """None for a language model: every token is predicted from those before it."""

    def batch(self) -> tuple[Tensor, Tensor]:
        x = self.inputs()
        return x, x if self.classes is None else torch.randint(0, self.classes, (self.rows,))

    def losses(self, made: Tensor, y: Tensor) -> Tensor:
        """One loss per row."""
        if self.classes is not None:
            return F.cross_entropy(made, y, reduction="none")
        rows, tokens, words = made.shape
        flat = F.cross_entropy(made[:, :-1].reshape(-1, words).float(), y[:, 1:].reshape(-1), reduction="none")
        return flat.view(rows, tokens - 1).mean(1)


def _layer(kind: Callable[..., nn.RNNBase], into: int, width: int, layers: int = 1) -> nn.Module:
    return Recurrent(kind(into, width, layers, batch_first=True))


def _tokens(rows: int, length: int) -> Callable[[], Tensor]:
    return lambda: torch.randint(0, 32_000, (rows, length))


GPU = (
    Case("transformer 12x768, T=128 B=64", lambda: Transformer(12, 768, 12), _tokens(64, 128), 64, 2),
    Case("transformer 12x768, T=512 B=32", lambda: Transformer(12, 768, 12), _tokens(32, 512), 32, 2),
    Case("WRN-16-4, 32x32 B=256", wide_resnet, lambda: torch.randn(256, 3, 32, 32), 256, 10),
)
FINE_TUNED = (
    Case("GPT-2, T=512 B=16", partial(transformers_model, "gpt2"), _tokens(16, 512), 16, None),
    Case("RoBERTa base, T=128 B=64", partial(transformers_model, "roberta"), _tokens(64, 128), 64, 3),
    Case("ViT-B/16, B=64", partial(transformers_model, "vit"), lambda: torch.randn(64, 3, 224, 224), 64, 100),
    Case("Llama 1.1B by LoRA, T=512 B=16", partial(transformers_model, "llama_lora"), _tokens(16, 512), 16, None),
    Case("Llama 1.1B, T=512 B=8", partial(transformers_model, "llama"), _tokens(8, 512), 8, None),
)
"""Models of transformers, as people fine-tune them (random weights): `--group fine-tuned`, on a GPU."""
CPU = (
    Case("LeNet, 28x28 B=128", lenet, lambda: torch.randn(128, 1, 28, 28), 128, 10),
    Case("MLP 784-1000-1000-10, B=256", perceptron, lambda: torch.randn(256, 784), 256, 10),
    Case("transformer 4x256, T=128 B=32", lambda: Transformer(4, 256, 4), _tokens(32, 128), 32, 2),
    Case("LSTM 64-128, T=50 B=64", lambda: _layer(nn.LSTM, 64, 128), lambda: torch.randn(64, 50, 64), 64, 2),
    Case("LSTM 64-256x2, T=100 B=32", lambda: _layer(nn.LSTM, 64, 256, 2), lambda: torch.randn(32, 100, 64), 32, 2),
    Case("GRU 64-128, T=50 B=64", lambda: _layer(nn.GRU, 64, 128), lambda: torch.randn(64, 50, 64), 64, 2),
    Case("RNN 64-128, T=50 B=64", lambda: _layer(nn.RNN, 64, 128), lambda: torch.randn(64, 50, 64), 64, 2),
    Case("LSTM cell 64-128, T=50 B=64", lambda: Stepper(64, 128), lambda: torch.randn(64, 50, 64), 64, 2),
)

GROUPS = {"gpu": GPU, "fine-tuned": FINE_TUNED, "cpu": CPU}


def plain(model: nn.Module, optimizer: Any, case: Case, narrow: bool) -> Step:
    def step(x: Tensor, y: Tensor) -> None:
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=narrow):
            loss = case.losses(model(x), y).mean()
        loss.backward()
        optimizer.step()

    return step


def plain_compiled(model: nn.Module, optimizer: Any, case: Case, narrow: bool) -> Step:
    return plain(torch.compile(model), optimizer, case, narrow)  # type: ignore[arg-type]


def _ours(mode: str, compile: bool | str, parts: int = 1) -> Callable[..., Step]:
    def method(model: nn.Module, optimizer: Any, case: Case, narrow: bool) -> Step:
        from deniable.deep.clipping import ClippingEngine
        from deniable.deep.randomness import PhiloxGenerator

        generator, steps = PhiloxGenerator(0), itertools.count()
        engine = ClippingEngine(
            model,
            case.losses,
            mode=mode,
            compile=compile,
            microbatch=None if parts == 1 else case.rows // parts,
            autocast=torch.bfloat16 if narrow else None,
        )

        def step(x: Tensor, y: Tensor) -> None:
            optimizer.zero_grad(set_to_none=True)
            sums = engine((x, y), clip=1.0).sums
            gradients = list(sums.values())
            generator.add("normal", gradients, scale=1.0, step=next(steps))
            torch._foreach_div_(gradients, case.rows)
            for parameter, gradient in zip(engine.parameters.values(), gradients, strict=True):
                parameter.grad = gradient
            optimizer.step()

        return step

    return method


def guard_alone(model: nn.Module, optimizer: Any, case: Case, narrow: bool) -> Step:
    """What every step asks before it trusts a proof (clipping/guards.py), and nothing else."""
    from deniable.deep.clipping.guards import Guard

    guard = Guard(model)

    def step(x: Tensor, y: Tensor) -> None:
        guard()

    return step


def opacus_hooks(model: nn.Module, optimizer: Any, case: Case, narrow: bool) -> Step:
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    inner = GradSampleModule(model)
    outer = DPOptimizer(optimizer, noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=case.rows)
    return plain(inner, outer, case, narrow)


def opacus_ghost(model: nn.Module, optimizer: Any, case: Case, narrow: bool) -> Step:
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping

    inner = GradSampleModuleFastGradientClipping(model, max_grad_norm=1.0, use_ghost_clipping=True, strict=False)
    options = {"noise_multiplier": 1.0, "max_grad_norm": 1.0, "expected_batch_size": case.rows}
    outer = DPOptimizerFastGradientClipping(optimizer, **options)

    def step(x: Tensor, y: Tensor) -> None:
        outer.zero_grad(set_to_none=True)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=narrow):
            losses = case.losses(inner(x), y)
        losses.mean().backward(retain_graph=True)
        outer.zero_grad(set_to_none=True)
        factors = inner.get_clipping_coef()
        inner.disable_hooks()
        (factors * losses).sum().backward()
        inner.enable_hooks()
        outer.step()

    return step


METHODS: dict[str, Callable[..., Step]] = {
    "plain": plain,
    "plain, compiled": plain_compiled,
    "ours, fast": _ours("fast", False),
    "ours, fast, graph": _ours("fast", "graph"),
    "ours, fast, compiled": _ours("fast", True),
    "ours, fast, compiled, in halves": _ours("fast", True, parts=2),
    "ours, two-pass": _ours("two_pass", False),
    "ours, two-pass, compiled": _ours("two_pass", True),
    "ours, guard alone": guard_alone,
    "Opacus hooks": opacus_hooks,
    "Opacus ghost": opacus_ghost,
}


@dataclass
class Trial:
    """One method on one model, ready to be measured."""

    case: Case
    method: str
    device: str
    narrow: bool

    def __post_init__(self) -> None:
        gc.collect()
        torch._dynamo.reset()
        torch.manual_seed(0)
        if self.device != "cpu":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        model = self.case.model().to(self.device)
        optimizer = torch.optim.SGD([each for each in model.parameters() if each.requires_grad], lr=1e-3)
        self._step = METHODS[self.method](model, optimizer, self.case, self.narrow)
        self._batches = [tuple(each.to(self.device) for each in self.case.batch()) for _ in range(4)]
        self._ready = 0.0
        if COMPILED in self.method:
            self.warm()

    def warm(self) -> None:
        start = time.perf_counter()
        for batch in self._batches:
            self._step(*batch)
        if self.device != "cpu":
            torch.cuda.synchronize()
        self._ready = self._ready or time.perf_counter() - start

    def measure(self, repeats: int) -> Found:
        """Median milliseconds of a step, peak GiB of device memory since the model was made (0 on a CPU), and the
        seconds that the first four steps took: proof, trace and compilation."""
        self.warm()
        times = [self.once(at) for at in range(repeats)]
        peak = 0.0 if self.device == "cpu" else torch.cuda.max_memory_allocated() / 2**30
        return sorted(times)[repeats // 2], peak, self._ready

    def once(self, at: int) -> float:
        """Milliseconds of one step."""
        batch = self._batches[at % 4]
        return _cpu_time(self._step, batch) if self.device == "cpu" else _gpu_time(self._step, batch)


Found = tuple[float, float, float]
"""Milliseconds of a step, GiB of memory, seconds of the first four steps."""
COMPILED = ", compiled"


def _cpu_time(step: Step, batch: Any) -> float:
    before = time.process_time()
    step(*batch)
    return (time.process_time() - before) * 1000


def _gpu_time(step: Step, batch: Any) -> float:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    step(*batch)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end)


@dataclass(frozen=True)
class Job:
    """Methods of one case and precision that are measured in one process: a compiled one, or all that are not."""

    group: str
    case: int
    precision: str
    methods: tuple[str, ...]

    def trial(self, method: str, device: str) -> Trial:
        return Trial(GROUPS[self.group][self.case], method, device, self.precision == "bf16")


def jobs(given: argparse.Namespace) -> list[Job]:
    """What was asked for: first what is compiled, which holds memory while it waits for its turn."""
    chosen = [each.strip() for each in given.methods.split(";") if each.strip()] or list(METHODS)
    groups = [(each,) for each in chosen if COMPILED in each] + [tuple(each for each in chosen if COMPILED not in each)]
    precisions = ["fp32"] if given.device == "cpu" else given.precisions.split(",")
    wanted = given.cases.split(";")
    places = [at for at, case in enumerate(cases(given)) if any(each in case.name for each in wanted)]
    found = [
        Job(given.group, at, precision, group) for at in places for precision in precisions for group in groups if group
    ]
    return sorted(found, key=lambda job: COMPILED not in job.methods[0])


def cases(given: argparse.Namespace) -> tuple[Case, ...]:
    return GROUPS[given.group]


Row = tuple[Job, str, Found | str]
"""A method and what was found, or why nothing was."""


def in_turn(given: argparse.Namespace) -> Iterator[Row]:
    """Everything in this process."""
    _prepare(given)
    for job in jobs(given):
        for method in job.methods:
            yield job, method, _attempt(partial(job.trial, method, given.device), given.repeats)


def by_turns(given: argparse.Namespace) -> Iterator[Row]:
    """The methods of a case in this process, one step of each after the other."""
    _prepare(given)
    for case, group in itertools.groupby(sorted(jobs(given), key=lambda job: job.case), key=lambda job: job.case):
        methods = [method for job in group for method in job.methods]
        job = Job(given.group, case, "fp32", tuple(sorted(methods, key=list(METHODS).index)))
        trials: dict[str, Trial] = {}
        for method in job.methods:
            try:
                trials[method] = job.trial(method, given.device)
                trials[method].warm()
            except Exception as error:  # noqa: BLE001  a peer that fails is a result
                yield job, method, _said(error)
        times: dict[str, list[float]] = {method: [] for method in trials}
        for at in range(given.repeats):
            for method, trial in trials.items():
                times[method].append(trial.once(at))
        for method, found in times.items():
            yield job, method, (sorted(found)[given.repeats // 2], 0.0, trials[method]._ready)


def in_parallel(given: argparse.Namespace) -> Iterator[Row]:
    """One process for each job: they compile together and measure one after the other."""
    context = multiprocessing.get_context("spawn")
    running = []
    for job in jobs(given):
        here, there = context.Pipe()
        process = context.Process(target=_worker, args=(given, job, there))
        process.start()
        there.close()
        running.append((job, process, here))
    end = time.monotonic() + given.patience
    ready = [pipe.poll(max(0.0, end - time.monotonic())) for _, _, pipe in running]
    for (job, process, _), on_time in zip(running, ready, strict=True):
        if not on_time:
            process.kill()
            yield job, job.methods[0], f"not compiled after {given.patience:.0f} s"
    print("measuring", file=sys.stderr, flush=True)
    for (job, process, pipe), on_time in zip(running, ready, strict=True):
        if on_time:
            try:
                pipe.recv()
                pipe.send(None)
                for method in job.methods:
                    yield job, method, pipe.recv()
            except EOFError:
                yield job, job.methods[0], "its process ended"
        process.join()


def _worker(given: argparse.Namespace, job: Job, pipe: Connection) -> None:
    """Compile, say so, wait for its turn, measure."""
    _prepare(given)
    made: dict[str, Trial | Exception] = {}
    if COMPILED in job.methods[0]:
        try:
            made[job.methods[0]] = job.trial(job.methods[0], given.device)
        except Exception as error:  # noqa: BLE001  what fails is a result
            made[job.methods[0]] = error
    pipe.send("ready")
    pipe.recv()

    def trial(method: str) -> Trial:
        found = made.pop(method, None) or job.trial(method, given.device)
        if isinstance(found, Exception):
            raise found
        return found

    for method in job.methods:
        pipe.send(_attempt(lambda method=method: trial(method), given.repeats))  # type: ignore[misc]


def _prepare(given: argparse.Namespace) -> None:
    warnings.filterwarnings("ignore")
    if given.peers:
        sys.path.insert(0, str(given.peers))
    if given.device == "cuda":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
        torch.zeros(1, device="cuda")  # takes seconds the first time


def _attempt(trial: Callable[[], Trial], repeats: int) -> Found | str:
    try:
        return trial().measure(repeats)
    except Exception as error:  # noqa: BLE001  a peer that fails is a result
        return _said(error)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:90]}".replace("\n", " ").replace("|", "/")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--peers", type=Path, help="a folder with unpacked wheels of opacus and opt_einsum")
    options.add_argument("--group", choices=list(GROUPS), help="which models; default by the device")
    options.add_argument(
        "--cases", default="", help="only cases whose name contains one of these, separated by semicolons"
    )
    options.add_argument("--methods", default="", help="separated by semicolons; default all")
    options.add_argument("--precisions", default="tf32,bf16", help="GPU only")
    options.add_argument("--repeats", type=int, default=15)
    options.add_argument("--parallel", action="store_true", help="compile everything at once, then measure in turn")
    options.add_argument("--patience", type=float, default=600.0, help="seconds that --parallel waits for compilers")
    options.add_argument("--out", type=Path)
    given = options.parse_args()
    given.group = given.group or ("cpu" if given.device == "cpu" else "gpu")
    found: dict[tuple[int, str, int], Found | str] = {}
    run = in_parallel if given.parallel else by_turns if given.device == "cpu" else in_turn
    for job, method, result in run(given):
        found[job.case, job.precision, list(METHODS).index(method)] = result
        print(cases(given)[job.case].name, job.precision, method, result, sep=" | ", file=sys.stderr, flush=True)
    _remember(found, given)
    text = "\n".join(_table(found, given)) + "\n"
    print(text)
    if given.out:
        given.out.write_text(text)


def _remember(found: dict[tuple[int, str, int], Found | str], given: argparse.Namespace) -> None:
    """What is ours goes to the history, beside plain training of the same case where that was measured."""
    names, plain = list(METHODS), list(METHODS).index("plain")
    for (case, precision, method), result in found.items():
        base = found.get((case, precision, plain))
        if not isinstance(result, str) and names[method].startswith("ours"):
            against = {} if base is None or isinstance(base, str) else {"peer": "plain", "ratio": base[0] / result[0]}
            metric = f"{cases(given)[case].name}, {precision}, {names[method].removeprefix('ours, ')}"
            history.add("deep", metric, result[0], "ms a step", machine=_machine(given.device), **against)


def _table(found: dict[tuple[int, str, int], Found | str], given: argparse.Namespace) -> Iterator[str]:
    yield from (f"# Private training steps, {datetime.date.today()}", "")
    yield from (f"torch {torch.__version__}, {_machine(given.device)}", "")
    yield "| case | precision | method | ms per step | / plain | GiB | / plain | s of the first four |"
    yield "|---|---|---|---|---|---|---|---|"
    bases: dict[tuple[int, str], Found] = {}
    for (case, precision, method), result in sorted(found.items(), key=lambda each: each[0]):
        shown = f"fails: {result} | | | |"
        if not isinstance(result, str):
            base = bases.setdefault((case, precision), result)
            memory = f"{result[1]:.2f} | {result[1] / base[1]:.2f}" if result[1] else " | "
            shown = f"{result[0]:.2f} | {result[0] / base[0]:.2f} | {memory} | {result[2]:.0f}"
        yield f"| {cases(given)[case].name} | {precision} | {list(METHODS)[method]} | {shown} |"


def _machine(device: str) -> str:
    if device == "cpu":
        return f"CPU, {torch.get_num_threads()} threads, process time"
    major, minor = torch.cuda.get_device_capability()
    asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    return f"{torch.cuda.get_device_name()} (sm_{major}{minor}), driver {driver}, CUDA {torch.version.cuda}"


if __name__ == "__main__":
    main()
