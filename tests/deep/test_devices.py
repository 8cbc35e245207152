"""The same promises on every device that is there: compiled steps, half precision, memory, noise, checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from deniable.deep import SecureGenerator, SeededGenerator, Trainer
from deniable.deep.clipping import ClippingEngine, kernels
from deniable.deep.randomness.generators import chacha_noise, laws
from deniable.noise import InsecureSource
from tests.deep.clipping.test_kernels import LAYOUTS
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
@pytest.mark.parametrize("compile", [True, "graph"])
def test_a_compiled_run_is_the_eager_run(device: str, compile: bool | str) -> None:
    """Poisson batches of many sizes, one compiled shape, which is also the one that is checked."""
    eager, _ = trained(device, compile=False)
    fast, trainer = trained(device, compile=compile)
    torch.testing.assert_close(flat(fast), flat(eager), atol=2e-4, rtol=1e-3)
    assert len(trainer._sums._engine._graphs) == 1


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
            observers=[lambda each, name=name: seen.setdefault(name, []).append(each)],  # type: ignore[misc]
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


@pytest.mark.parametrize("compile", [False, "graph"] + [True] * torch.cuda.is_available())
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.filterwarnings("ignore")
def test_a_resumed_run_equals_an_uninterrupted_one(device: str, compile: bool | str, tmp_path: Any) -> None:
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

    @pytest.mark.parametrize("compile", [False, True, "graph", "auto"])
    def test_real_memory_runs_out(compile: bool | str) -> None:
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

    def test_a_long_run_replays_a_graph_by_itself() -> None:
        model = network().cuda()
        long = plan(steps=40)
        trainer = Trainer(model, sgd(model), cross_entropy, long, generator=SeededGenerator(1))
        trainer.fit(table())
        assert len(trainer._sums._engine._graphs) == 1
        assert all(trainer._sums._engine._graphs.values())
        other = network().cuda()
        Trainer(other, sgd(other), cross_entropy, long, generator=SeededGenerator(1), compile=False).fit(table())
        torch.testing.assert_close(flat(model), flat(other), atol=2e-4, rtol=1e-3)

    @pytest.mark.parametrize("compile", ["graph", True])
    def test_a_replayed_graph_draws_dropout_anew(compile: bool | str) -> None:
        model = nn.Sequential(nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 3)).cuda().train()
        engine = ClippingEngine(model, cross_entropy, mode="fast", compile=compile)
        batch = torch.randn(16, 4, device="cuda"), torch.randint(0, 3, (16,), device="cuda")
        norms = [engine(batch, clip=1.0).norms.clone() for _ in range(4)]
        for at, one in enumerate(norms):
            for other in norms[:at]:
                assert not torch.equal(one, other)

    def test_the_compiled_kernel_makes_the_words_of_the_reference() -> None:
        from deniable.deep.randomness.generators import on_device

        found = on_device("normal", 5000, scale=2.0, source=InsecureSource(5), device=torch.device("cuda")).cpu()
        key = torch.from_numpy(InsecureSource(5).words(4).view("int32"))
        torch.testing.assert_close(found, chacha_noise(key, laws.normal, 500, 2.0)[:5000], atol=1e-6, rtol=1e-6)

    @pytest.mark.parametrize("dtype", kernels.TYPES)
    @pytest.mark.parametrize("layout", LAYOUTS)
    @pytest.mark.parametrize(
        ("units", "shape"), [(1, (1, 1, 1)), (7, (3, 5, 17)), (8, (16, 8, 32)), (33, (2, 64, 129))]
    )
    def test_the_weighted_sum_is_exact_but_for_its_roundings(
        units: int, shape: tuple[int, ...], layout: str, dtype: torch.dtype
    ) -> None:
        """Against fp64, number by number, within γ of a rounding per unit and one more. Dead units hold inf and nan."""
        values = LAYOUTS[layout](torch.randn(units, *shape, device="cuda").to(dtype))
        factors, alive = torch.rand(units, device="cuda"), torch.rand(units, device="cuda") < 0.7
        alive[0] = True
        if layout != "expanded":
            values[~alive] = torch.inf
            values[~alive, 0] = torch.nan
        made = kernels.weighted_sum(values, factors, alive)
        shares = values[alive].double() * factors[alive].double().view(-1, 1, 1, 1)
        bound = (units + 1) * 2.0**-24 / (1 - (units + 1) * 2.0**-24)
        assert made.dtype == torch.float32
        assert bool(((made - shares.sum(0)).abs() <= bound * shares.abs().sum(0)).all())

    def test_the_weighted_sum_of_nobody_is_zero() -> None:
        values = torch.full((3, 1000), torch.nan, device="cuda")
        nobody = torch.zeros(3, dtype=torch.bool, device="cuda")
        assert kernels.weighted_sum(values, torch.ones(3, device="cuda"), nobody).tolist() == [0.0] * 1000

    class Twins(nn.Module):
        """Two large layers with equal gradients, finished per unit and summed by the kernel."""

        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = (nn.Linear(512, 513) for _ in range(2))

        def forward(self, x: Tensor) -> Tensor:
            return (self.one(x) + self.two(x)).mean(2)

    @pytest.mark.filterwarnings("ignore")
    @pytest.mark.parametrize("autocast", [None, torch.bfloat16])
    def test_compiled_sums_of_large_layers_are_the_eager_ones(
        autocast: torch.dtype | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The kernel is in both. An example that is not finite is left out, one alone stays within the clip, and no two
        sums share memory."""
        calls, kernel = [], kernels._kernel
        monkeypatch.setattr(kernels, "_kernel", lambda: calls.append(1) or kernel())
        torch.manual_seed(0)
        model, x = Twins().cuda(), torch.randn(6, 200, 512, device="cuda")
        x[2, 5] = torch.inf
        engine = ClippingEngine(
            model, lambda made, y: (made * y).sum(1), mode="fast", compile=True, autocast=autocast
        )  # fmt: skip
        data = x, torch.randn(6, 200, device="cuda")
        plain = engine.eager()
        plain(data, clip=0.1)  # proved and checked
        calls.clear()
        eager = plain(data, clip=0.1)
        assert len(calls) == 2
        made = engine(data, clip=0.1)
        assert len(calls) > 2
        assert bool(torch.isinf(made.norms[2]))
        assert len({each.data_ptr() for each in made.sums.values()}) == len(made.sums) == 4
        for name, each in eager.sums.items():
            assert bool(each.isfinite().all())
            assert bool(each.any())
            torch.testing.assert_close(made.sums[name], each, rtol=1e-2 if autocast else 1e-4, atol=1e-5)
        alone = torch.arange(6, device="cuda") == 4
        for run in (engine, engine.eager()):
            share = run(data, clip=0.1, mask=alone).sums.values()
            assert 0.09 < float(torch.cat([each.double().flatten() for each in share]).norm()) <= 0.1
