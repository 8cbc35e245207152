"""Attacks on what is claimed: a lower bound next to a claim, and a verdict that never cries wolf.

`audit` replays both neighbours on the same randomness, then plays a betting game that a true claim loses with
probability at most α, whenever one looks. `statistics` holds the fixed-sample tests. The verdict is "refuted" or
"consistent", never "proved private".
"""

from deniable.auditing import statistics
from deniable.auditing.auditor import audit, audit_scores
from deniable.auditing.betting import Progress, Wealth
from deniable.auditing.claims import Claim, Line
from deniable.auditing.detectors import Atoms, Bins, Detector, Logistic, Tree, default_detectors, value_detectors
from deniable.auditing.neighbours import Pair
from deniable.auditing.replay import Finding
from deniable.auditing.report import AuditReport, Point, TimingReport
from deniable.auditing.search import Booleans, Categories, Numbers, Rows, Search

__all__ = [
    "Atoms",
    "AuditReport",
    "Bins",
    "Booleans",
    "Categories",
    "Claim",
    "Detector",
    "Finding",
    "Line",
    "Logistic",
    "Numbers",
    "Pair",
    "Point",
    "Progress",
    "Rows",
    "Search",
    "TimingReport",
    "Tree",
    "Wealth",
    "audit",
    "audit_scores",
    "default_detectors",
    "statistics",
    "value_detectors",
]
