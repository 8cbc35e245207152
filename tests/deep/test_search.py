"""Searching over trainings: one charge, before the first trial, for all of them. 3 s."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import deniable as dn
from deniable.deep import Plan, Trainer, search
from deniable.errors import BudgetExceeded, InvalidArgument, LedgerError, UnitMismatch
from tests.deep.models import cross_entropy, ledger, network, plan, sgd, table


def trained(stated: Plan) -> Any:
    model = network()
    Trainer(model, sgd(model, lr=float(stated.clip)), cross_entropy, stated).fit(table())
    return stated, model


def public_accuracy(found: Any) -> float:
    x, y = table(seed=9)
    return float((found[1](x).argmax(1) == y).float().mean())


def test_the_best_of_some_plans(tmp_path: Path) -> None:
    plans = [plan(clip=clip, noise_multiplier=6) for clip in (0.1, 1, 3)]
    book = ledger(tmp_path / "run.ledger")
    best = search(plans, trained, score=public_accuracy, trials=3, delta=1e-5, ledger=book, run="search")
    assert best.output[0] == plans[best.candidate]
    assert best.score == public_accuracy(best.output)
    with pytest.raises(LedgerError, match="already paid"):
        search(plans, trained, score=public_accuracy, trials=3, delta=1e-5, ledger=book, run="search")


def test_nothing_runs_when_the_ledger_refuses(tmp_path: Path) -> None:
    book = ledger(tmp_path / "run.ledger", epsilon=0.01)
    calls: list[object] = []
    with pytest.raises(BudgetExceeded):
        search([plan()], calls.append, score=lambda _: 0.0, trials=3, delta=1e-5, ledger=book)
    assert not calls


def test_plans_under_correlated_noise() -> None:
    stated = [plan(noise=dn.strategies.Tree(12), clip=clip, noise_multiplier=20) for clip in (1, 2)]
    best = search(stated, trained, score=public_accuracy, trials=2, delta=1e-5)
    assert torch.isfinite(best.output[1][0].weight).all()


def test_refusals(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="Plan"):
        search([], trained, score=public_accuracy, trials=3, delta=1e-5)
    with pytest.raises(UnitMismatch, match="same unit"):
        search([plan(), plan(unit="user")], trained, score=public_accuracy, trials=3, delta=1e-5)
    book = ledger(tmp_path / "run.ledger", unit="user")
    with pytest.raises(UnitMismatch, match="ledger protects"):
        search([plan()], trained, score=public_accuracy, trials=3, delta=1e-5, ledger=book)
