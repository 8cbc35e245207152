"""`deniable account` and `deniable calibrate`: figures of peers' tasks, and wrong input."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import pytest

from deniable.accounting import account
from deniable.events import Gaussian

RUN = ["--noise-multiplier", "1.1", "--batch", "256", "--size", "60000", "--epochs", "60"]
MNIST = 2.3816897261  # 14,063 steps at δ = 1e-5, from an independent high-precision integral


def test_account_prints_the_cost_and_its_bracket(run: Callable) -> None:
    ran = run("account", *RUN, "--delta", "1e-5")
    assert ran.out.splitlines()[0] == "ε ≤ 2.39, δ = 1e-5, one record added or removed"
    assert "Gaussian(scale=1.1).sampled(rate=8/1875) * 14063" in ran.out


def test_rate_and_steps_say_the_same_as_batch_and_epochs(run: Callable) -> None:
    one = json.loads(run("account", *RUN, "--delta", "1e-5", "--json").out)
    rate = str(256 / 60000)
    two = json.loads(
        run("account", "--noise-multiplier", "1.1", "--rate", rate, "--steps", "14063", "--delta", "1e-5", "--json").out
    )
    for found in (one, two):
        assert found["epsilon_lower"] <= MNIST + 1e-9
        assert found["epsilon"] >= MNIST - 1e-9
        assert found["epsilon"] - found["epsilon_lower"] < 1e-6


def test_an_event_in_a_file(run: Callable) -> None:
    from deniable.events import Laplace

    Path("event.json").write_text((Laplace(scale=10) * 1000).to_json(), encoding="utf-8")
    found = json.loads(run("account", "--from", "event.json", "--delta", "1e-6", "--json").out)
    assert found["epsilon"] == pytest.approx(18.9502873675, rel=1e-6)


def test_the_history_of_an_opacus_run(run: Callable) -> None:
    Path("run.json").write_text(f"[[1.1, {256 / 60000}, 14063]]", encoding="utf-8")
    found = json.loads(run("account", "--from", "run.json", "--delta", "1e-5", "--json").out)
    assert found["epsilon"] == pytest.approx(MNIST, abs=1e-6)


def test_shuffled_epochs_are_not_accounted_for_as_samples(run: Callable) -> None:
    Path("run.json").write_text("[[4.0, 0.01, 300]]", encoding="utf-8")
    found = json.loads(run("account", "--from", "run.json", "--shuffled", "--delta", "1e-5", "--json").out)
    assert found["relation"] == "zero_out"
    assert found["epsilon"] == pytest.approx(account(Gaussian(scale=4) * 3).epsilon(1e-5), rel=1e-9)


def test_compare_lists_every_theorem_and_marks_the_estimate(run: Callable) -> None:
    found = json.loads(run("account", "--compare", "--epsilon", "0.1", "--delta", "1e-6", "--json").out)
    lines = {line["theorem"]: line for line in found["theorems"]}
    assert lines["basic"]["epsilon"][2] == pytest.approx(10, rel=1e-12)
    assert lines["accountant"]["epsilon"][2] <= lines["Rényi"]["epsilon"][2] < lines["basic"]["epsilon"][2]
    assert [name for name, line in lines.items() if line["estimate"]] == ["central limit"]


def test_compare_draws(run: Callable) -> None:
    ran = run("account", "--compare", "--epsilon", "0.1", "--delta", "1e-6", "--plot", "compare.svg")
    assert ran.code == 0
    assert "<svg" in Path("compare.svg").read_text(encoding="utf-8")
    assert run("account", "--compare", "--epsilon", "0.1", "--delta", "1e-6", "--plot", "compare.xyz").code == 1


def test_calibrate_finds_the_noise_of_the_peers_case(run: Callable) -> None:
    words = ["calibrate", "--epsilon", "1", "--delta", "1e-5", "--rate", "0.01", "--steps", "10000", "--json"]
    found = json.loads(run(*words).out)
    assert 0 <= found["noise_multiplier"] - 3.8128168 < 1e-5
    assert found["epsilon"] <= 1


WRONG = {
    "nothing to account": (["account", "--delta", "1e-5"], "--noise-multiplier"),
    "no steps": (["account", "--noise-multiplier", "1", "--rate", "0.1", "--delta", "1e-5"], "--steps"),
    "rate above 1": (
        ["account", "--noise-multiplier", "1", "--rate", "2", "--steps", "5", "--delta", "1e-5"],
        "rate=2.0",
    ),
    "no noise": (
        ["account", "--noise-multiplier", "0", "--rate", "0.1", "--steps", "5", "--delta", "1e-5"],
        "noise_multiplier=0.0",
    ),
    "delta above 1": (
        ["account", "--noise-multiplier", "1", "--rate", "0.1", "--steps", "5", "--delta", "2"],
        "delta=2.0",
    ),
    "zero steps": (
        ["account", "--noise-multiplier", "1", "--rate", "0.1", "--steps", "0", "--delta", "1e-5"],
        "steps=0",
    ),
    "no such file": (["account", "--from", "none.json", "--delta", "1e-5"], "none.json"),
    "shuffled without a file": (["account", *RUN, "--shuffled", "--delta", "1e-5"], "--from"),
    "compare nothing": (["account", "--compare", "--delta", "1e-5"], "--epsilon"),
    "epsilon without compare": (["account", *RUN, "--epsilon", "1", "--delta", "1e-5"], "--compare"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_gets_one_sentence(run: Callable, case: str) -> None:
    words, expected = WRONG[case]
    ran = run(*words)
    assert ran.code == 1
    assert ran.err.startswith("deniable: ")
    assert expected in ran.err
    assert "Traceback" not in ran.err


OPTIONS = {"--rate": "0.1", "--steps": "5", "--batch": "10", "--size": "100", "--epochs": "2"}
SUBSETS = [names for size in range(6) for names in combinations(OPTIONS, size)]


@pytest.mark.parametrize("rate", ["0.1", "2"])
@pytest.mark.parametrize("names", SUBSETS, ids=" ".join)
def test_calibrate_refuses_what_account_refuses_in_the_same_words(
    run: Callable, names: tuple[str, ...], rate: str
) -> None:
    """Whether a training run is described well does not depend on its noise."""
    words = [word for name in names for word in (name, rate if name == "--rate" else OPTIONS[name])]
    accounted = run("account", "--noise-multiplier", "1", "--delta", "1e-5", *words)
    calibrated = run("calibrate", "--epsilon", "1", "--delta", "1e-5", *words)
    assert (calibrated.code, calibrated.err) == (accounted.code, accounted.err)
    assert "lambda" not in calibrated.err
