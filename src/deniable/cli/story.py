"""The Python of the demo: each piece is printed as a person would type it, and then run as it stands."""

from __future__ import annotations

MODEL = """\
from pathlib import Path
import numpy as np
import deniable as dn
from sklearn.linear_model import LogisticRegression

table = np.loadtxt("patients.csv", delimiter=",", skiprows=1)
X = dn.learning.RangeScaler(bounds=[(18, 90), (15, 40), (0, 1)]).fit_transform(table[:, :3])
y = table[:, 3].astype(int)

private = dn.learning.LogisticRegression(
    epsilon=0.5, delta=1e-6, data_norm=3**0.5, classes=[0, 1], ledger="hospital.ledger", unit="patient_id"
).fit(X[:3000], y[:3000])
plain = LogisticRegression().fit(X[:3000], y[:3000])
print(f"right about patients it has not seen: {private.score(X[3000:], y[3000:]):.1%} with privacy,"
      f" {plain.score(X[3000:], y[3000:]):.1%} without")
print(private.profile_.cost(delta=1e-6))
"""

AUDIT = """\
few = np.column_stack([X, y])[:60]
one_more = np.vstack([few, [1, 1, 1, 1]])  # the same patients, and one who stands out

def train(patients):
    model = dn.learning.LogisticRegression(
        epsilon=0.5, delta=1e-6, data_norm=3**0.5, classes=[0, 1], size=60, solver="output")
    return model.fit(patients[:, :3], patients[:, 3].astype(int)).coef_.ravel()

honest = dn.audit(train, neighbours=(few, one_more), claim=dn.ApproxDP(0.5, 1e-6), runs=600)
print(honest)
Path("audit.json").write_text(honest.to_json(), encoding="utf-8")
"""

BROKEN = """\
generator = np.random.default_rng()

def train_wrongly(patients):  # noise for a mean of n patients, added to a model that one patient can move much further
    model = LogisticRegression().fit(patients[:, :3], patients[:, 3].astype(int))
    return model.coef_.ravel() + generator.normal(scale=1 / (0.5 * len(few)), size=3)

broken = dn.audit(train_wrongly, neighbours=(few, one_more), claim=dn.ApproxDP(0.5, 1e-6), runs=600)
print(broken)
Path("broken.json").write_text(broken.to_json(), encoding="utf-8")
"""
