"""Covariance, components, scaling, naive Bayes and k-means: sensitivities by brute force, and what they find."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP
from deniable.learning import PCA, Covariance, GaussianNB, KMeans, StandardScaler
from deniable.learning.estimators import direct
from deniable.learning.privacy import largest_mu
from deniable.noise import InsecureSource
from deniable.units import ADD_REMOVE, REPLACE

GENERATOR = np.random.default_rng(9)
MIXED = GENERATOR.normal(size=(5000, 3)) @ np.array([[1.0, 0.8, 0.0], [0.0, 0.6, 0.0], [0.0, 0.0, 0.3]])
KNOWN = {"epsilon": 3, "delta": 1e-6, "source": InsecureSource(3)}


class Plain(direct.NoisySums):
    """Sums without noise, in the coordinates in which a record's length is bounded."""

    def add(self, sums: Any, *, unit: int, factor: Fraction | int = 1) -> np.ndarray:
        return np.asarray(sums, dtype=np.float64) / unit / math.sqrt(factor)


def records(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Corners, the middle and points between; weights of 0, 1 and between."""
    rows = np.vstack([np.ones((1, 3)), -np.ones((1, 3)), np.zeros((1, 3)), GENERATOR.uniform(-1, 1, size=(count, 3))])
    rows[3::2] = np.sign(rows[3::2])
    return rows, np.where(np.arange(len(rows)) % 4 == 3, 0.5, 1.0)


def test_sums_by_group_move_no_further_than_declared() -> None:
    rows, weights = records(24)
    plain = Plain(Fraction(1), None)

    def vector(i: int, group: int) -> np.ndarray:
        found = direct.GroupSums.measure(rows[i : i + 1], np.array([group]), weights[i : i + 1], 2, plain)
        return np.concatenate([found.counts.ravel(), found.sums.ravel(), found.squares.ravel()])

    vectors = [vector(i, group) for i in range(len(rows)) for group in (0, 1)]
    assert 0.999 < max(map(np.linalg.norm, vectors)) <= 1 + 1e-12
    apart = max(np.linalg.norm(one - two) for one in vectors for two in vectors)
    assert 0.9 * direct.GROUP_APART < apart <= direct.GROUP_APART


def test_a_step_of_k_means_moves_no_further_than_declared() -> None:
    rows, weights = records(24)
    centers = np.array([[0.2, 0.2, 0.2], [-0.2, -0.2, -0.2]])
    model, plain = KMeans(n_clusters=2), Plain(Fraction(1), None)

    def vector(i: int) -> np.ndarray:
        counts, moves = model._step(rows[i : i + 1], weights[i : i + 1], centers, 0.5, plain)
        return np.concatenate([counts, moves.ravel()])

    vectors = [vector(i) for i in range(len(rows))]
    assert 0.999 < max(map(np.linalg.norm, vectors)) <= 1 + 1e-12
    assert max(np.linalg.norm(one - two) for one in vectors for two in vectors) <= math.sqrt(4 * direct.STEP[1])


@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("kind", [Covariance, StandardScaler, GaussianNB, KMeans])
def test_the_events_add_up_to_the_target(kind: type, relation: str) -> None:
    known = {"classes": [0, 1]} if kind is GaussianNB else {}
    model = kind(epsilon=1, delta=1e-6, bounds=(-1, 1), relation=relation, **known).fit(MIXED[:50], np.arange(50) % 2)
    target = ApproxDP(1, 1e-6, relation=REPLACE if relation == "replace" else ADD_REMOVE)
    square = 0.0
    for part in getattr(model.event_, "parts", (model.event_,)):
        step, times = getattr(part, "event", part), getattr(part, "count", 1)
        square += times * float(step.sensitivity / step.scale) ** 2
    assert 0.99999 < math.sqrt(square) / largest_mu(target) <= 1


def test_covariances_are_found_with_their_noise() -> None:
    model = Covariance(**KNOWN, bounds=(-4, 4)).fit(MIXED)
    away = np.abs(model.covariance_ - np.cov(MIXED.T)) / model.deviation_
    assert away.max() < 5  # nine draws: above 5 deviations once in 200,000
    assert model.correlation_[0, 1] == pytest.approx(0.8, abs=0.1)
    assert np.abs(model.location_).max() < 0.1
    assert abs(model.size_ - 5000) < 50
    assert (np.linalg.eigvalsh(model.covariance_) >= -1e-9).all()


def test_components_are_those_of_the_covariance() -> None:
    model = PCA(n_components=2, **KNOWN, bounds=(-4, 4)).fit(MIXED)
    exact = PCA(n_components=2, epsilon=math.inf, bounds=(-4, 4)).fit(MIXED)
    assert np.abs(np.sum(model.components_ * exact.components_, axis=1)) == pytest.approx(np.ones(2), abs=0.05)
    assert model.transform(MIXED).shape == (5000, 2)
    assert model.explained_variance_ratio_.sum() == pytest.approx(exact.explained_variance_ratio_.sum(), abs=0.05)


def test_scales_are_found() -> None:
    model = StandardScaler(**KNOWN, bounds=[(-4, 4), (-4, 4), (-2, 2)]).fit(MIXED)
    assert model.scale_ == pytest.approx(MIXED.std(axis=0), rel=0.15)
    assert model.transform(MIXED).std(axis=0) == pytest.approx(np.ones(3), rel=0.15)


def test_classes_of_normal_columns_are_told_apart() -> None:
    labels = np.where(MIXED[:, 0] > 0, "high", "low")
    model = GaussianNB(**KNOWN, bounds=(-4, 4), classes=["low", "high"]).fit(MIXED, labels)
    assert model.score(MIXED, labels) > 0.9
    assert np.exp(model.predict_log_proba(MIXED[:9])).sum(axis=1) == pytest.approx(np.ones(9))
    assert model.class_prior_ == pytest.approx([0.5, 0.5], abs=0.05)
    hopeless = GaussianNB(epsilon=1e-3, delta=1e-6, bounds=(-4, 4), classes=["low", "high"]).fit(MIXED[:9], labels[:9])
    assert np.isfinite(hopeless.predict_proba(MIXED)).all()


def test_clusters_are_found() -> None:
    centers = np.array([[-0.7, 0.5], [0.7, 0.5], [0.0, -0.7]])
    points = centers[np.arange(3000) % 3] + 0.1 * GENERATOR.normal(size=(3000, 2))
    model = KMeans(n_clusters=3, **KNOWN, bounds=(-1, 1)).fit(points)
    found = model.cluster_centers_[np.argsort(model.cluster_centers_ @ [1, 0.1])]
    assert found == pytest.approx(centers[np.argsort(centers @ [1, 0.1])], abs=0.15)
    assert len(np.unique(model.predict(points))) == 3
    assert (model.transform(points).argmin(axis=1) == model.predict(points)).all()


def test_what_is_refused_is_public() -> None:
    for kind in (Covariance, KMeans):
        with pytest.raises(InvalidArgument, match="bounds"):
            kind(epsilon=1, delta=1e-6).fit(MIXED)
        with pytest.raises(InvalidArgument, match="delta"):
            kind(epsilon=1, bounds=(-1, 1)).fit(MIXED)
    with pytest.raises(InvalidArgument, match="n_components"):
        PCA(n_components=0, epsilon=1, delta=1e-6, bounds=(-1, 1)).fit(MIXED)
