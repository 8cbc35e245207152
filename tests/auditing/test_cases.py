"""The examples of known bugs and their right twins, on a small scale. About 6 seconds."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

import deniable as dn


def example(name: str) -> Any:
    """A script of examples/, as a module."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[2] / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_clipping_inside_backpropagation_after_the_mean_is_proved_wrong() -> None:
    """The twin's claim is exactly tight; it is refuted with probability at most 1e-6."""
    case = example("audit_backprop_clipping")

    claim = dn.Gaussian(scale=case.SCALE)
    wrong = dn.audit(case.clipped_after_the_mean, neighbours=case.neighbours(), claim=claim)
    assert (wrong.verdict, wrong.by) == ("refuted", "replay")
    right = dn.audit(
        case.clipped_before_the_mean, neighbours=case.neighbours(), claim=claim, runs=200, confidence=1 - 1e-6
    )
    assert right.verdict == "consistent"


def test_the_case_of_2022_in_small() -> None:
    """The bound is wrong with probability at most 1e-4. The scores of the buggy training are six deviations apart."""
    torch = pytest.importorskip("torch", reason="needs torch; run: pip install 'deniable[deep]'")
    case = example("audit_case_2022")

    torch.manual_seed(2)
    claimed = float(case.CLAIM.epsilon)
    buggy = case.attack(24, noise=case.MULTIPLIER / case.BATCH, confidence=1 - 1e-4)
    assert buggy.value > claimed
    assert case.attack(12, noise=case.MULTIPLIER, confidence=1 - 1e-4).value <= claimed
