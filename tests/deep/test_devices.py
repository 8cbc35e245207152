"""The same promises on every device that is there: compiled steps, half precision, memory, noise, checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from deniable.deep import SecureGenerator, SeededGenerator, Trainer
from deniable.deep.clipping import ClippingEngine
from deniable.deep.randomness.generators import chacha_noise, laws
from deniable.noise import InsecureSource
from tests.deep.models import cross_entropy, flat, network, plan, sgd, table

DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()
ALARM = 1e-7


def trained(device: str, **settings: Any) -> tuple[nn.Module, Trainer]:
    """Twelve steps of the usual plan, with randomness that repeats."""
    model = network().to(device)
    trainer = Trainer(model, sgd(model, momentum=0.9), cross_entropy, plan(), generator=SeededGenerator(1), **settings)
    trainer.fit(table())
    return model, trainer


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("device", DEVICES)
def test_a_compiled_run_is_the_eager_run(device: str) -> None:
    """Poisson batches of many sizes, one compiled shape (and one for the self-check's few rows)."""
    eager, _ = trained(device)
    fast, trainer = trained(device, compile=True)
    torch.testing.assert_close(flat(fast), flat(eager), atol=2e-4, rtol=1e-3)
    assert len(trainer._sums._engine._compiled) == 2


@pytest.mark.parametrize("mode", ["fast", "two_pass"])
@pytest.mark.parametrize("device", DEVICES)
def test_half_precision_with_a_static_scale(device: str, mode: str) -> None:
    """The scale cancels; an example that overflows under it is left out, and nothing else changes."""
    model, (x, y) = network(width=32).to(device), tuple(each.to(device) for each in table(16))
    whole = ClippingEngine(model, cross_entropy, mode=mode)((x, y), clip=0.5)
    options: dict[str, Any] = {"mode": mode, "autocast": torch.float16, "loss_scale": 2.0**10}
    half = ClippingEngine(model, cross_entropy, **options)((x, y), clip=0.5)
    torch.testing.assert_close(half.norms, whole.norms, rtol=1e-2, atol=1e-3)
    for name, each in whole.sums.items():
        torch.testing.assert_close(half.sums[name], each, rtol=2e-2, atol=2e-2)
    weights = torch.ones(16, device=device)
    weights[3] = 1e6  # under the scale its output gradients are beyond fp16
    heavy = ClippingEngine(model, lambda made, given: cross_entropy(made, given[0]) * given[1], **options)
    data = x, (y, weights)
    with_it, without = heavy(data, clip=0.5), heavy(data, clip=0.5, mask=weights == 1)
    assert bool(torch.isinf(with_it.norms[3]))
    assert not bool(with_it.factors[3])
    for name, each in without.sums.items():
        torch.testing.assert_close(with_it.sums[name], each)


class Greedy(nn.Module):
    """Two layers that run out of memory on more than five rows."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.seen = network(), list[int]()

    def forward(self, x: Tensor) -> Tensor:
        self.seen.append(len(x))
        if len(x) > 5:
            raise torch.OutOfMemoryError("out of memory")
        return self.inner(x)


@pytest.mark.parametrize("device", DEVICES)
def test_a_batch_that_does_not_fit_is_halved_and_nobody_is_left_out(device: str) -> None:
    """32 at a time, then 16, 8, 4. The sums are those of a model that fits."""
    seen: dict[str, Any] = {}
    for name, model in (("greedy", Greedy()), ("modest", network())):
        model = model.to(device)
        trainer = Trainer(
            model, sgd(model), cross_entropy, plan(steps=3), generator=SeededGenerator(2), sample=None,
            observers=[lambda each, name=name: seen.setdefault(name, []).append(each)],
        )  # fmt: skip
        trainer._checked = True  # the self-check has four rows, and would pass
        trainer.fit(table())
        if isinstance(model, Greedy):
            assert max(model.seen) > 5
            assert set(model.seen[-3:]) <= {1, 2, 3, 4}
    for one, two in zip(seen["greedy"], seen["modest"], strict=True):
        assert one.units == two.units
        for name, each in two.clipped.items():
            torch.testing.assert_close(one.clipped[f"inner.{name}"], each, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("device", DEVICES)
def test_secure_noise_has_its_law(device: str, law: str) -> None:
    """A Kolmogorov-Smirnov test of 200,000 numbers of scale 3, and no two calls alike."""
    one, two = (SecureGenerator().noise(law, 200_000, scale=3.0, step=0, device=device) for _ in range(2))
    assert one.device.type == device
    assert not bool((one == two).double().mean() > 0.01)
    exact = stats.norm(scale=3) if law == "normal" else stats.laplace(scale=3)
    assert stats.kstest(one.double().cpu().numpy(), exact.cdf).pvalue > ALARM


@pytest.mark.parametrize("compile", [False] + [True] * torch.cuda.is_available())
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.filterwarnings("ignore")
def test_a_resumed_run_equals_an_uninterrupted_one(device: str, compile: bool, tmp_path: Any) -> None:
    whole, _ = trained(device, compile=compile)
    options: dict[str, Any] = {"generator": SeededGenerator(1), "compile": compile}
    model = network().to(device)
    first = Trainer(model, sgd(model, momentum=0.9), cross_entropy, plan(), **options)
    for batch in first.batches(table()):
        if first.step(batch).step == 5:
            break
    first.save(tmp_path / "run.pt")
    first.close()
    other = network(seed=9).to(device)
    resumed = Trainer.resume(tmp_path / "run.pt", other, sgd(other, momentum=0.9), cross_entropy, **options)
    resumed.fit(table())
    assert resumed.progress.step == 12
    torch.testing.assert_close(flat(other), flat(whole), atol=1e-6, rtol=1e-6)


if torch.cuda.is_available():

    @pytest.mark.parametrize("compile", [False, True])
    def test_real_memory_runs_out(compile: bool) -> None:
        """48 MiB of activations per row under a ceiling of a few GiB: halved until it fits, then through."""

        class Wide(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.first, self.last = nn.Linear(4, 2048), nn.Linear(2048, 3)

            def forward(self, x: Tensor) -> Tensor:
                wide = self.first(x.unsqueeze(1).expand(-1, 2048, -1))
                return self.last(torch.tanh(wide)).mean(1)

        model = Wide().cuda()
        torch.cuda.empty_cache()
        total = torch.cuda.get_device_properties(0).total_memory
        torch.cuda.set_per_process_memory_fraction((torch.cuda.memory_reserved() + 6 * 2**30) / total)
        try:
            trainer = Trainer(model, sgd(model), cross_entropy, plan(batch=200, steps=2), compile=compile)
            trainer.fit(table())
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
            torch.cuda.empty_cache()
        assert trainer._sums._units < 200
        assert trainer.progress.step == 2
        assert bool(torch.isfinite(flat(model)).all())

    def test_the_compiled_kernel_makes_the_words_of_the_reference() -> None:
        from deniable.deep.randomness.generators import on_device

        found = on_device("normal", 5000, scale=2.0, source=InsecureSource(5), device=torch.device("cuda")).cpu()
        key = torch.from_numpy(InsecureSource(5).words(4).view("int32"))
        torch.testing.assert_close(found, chacha_noise(key, laws.normal, 500, 2.0)[:5000], atol=1e-6, rtol=1e-6)
