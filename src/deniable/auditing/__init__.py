"""Attacks on what is claimed: a lower bound next to a claim, and a verdict that never cries wolf.

`audit` follows the noise through both neighbours (`tracing`, `replay`), which is a proof or a lead, then bets against
the claim in a game that a true claim loses with probability at most α, whenever one looks (`betting`). `statistics`
holds the fixed-sample tests. The verdict is "refuted" or "consistent", never "proved private".
"""

from deniable.auditing import statistics
from deniable.auditing.auditor import audit, audit_scores
from deniable.auditing.betting import AuditProgress, Wealth
from deniable.auditing.claims import Claim, Line
from deniable.auditing.detectors import Atoms, Bins, Detector, LogisticScore, RegionTree, bit_detectors, value_detectors
from deniable.auditing.neighbours import Pair, neighbours_of
from deniable.auditing.replay import Finding
from deniable.auditing.report import AuditReport, ChannelReport, Point
from deniable.auditing.search import Booleans, Categories, Numbers, Search, TableRows

__all__ = [
    "Atoms",
    "AuditProgress",
    "AuditReport",
    "Bins",
    "Booleans",
    "Categories",
    "ChannelReport",
    "Claim",
    "Detector",
    "Finding",
    "Line",
    "LogisticScore",
    "Numbers",
    "Pair",
    "Point",
    "RegionTree",
    "Search",
    "TableRows",
    "Wealth",
    "audit",
    "audit_scores",
    "bit_detectors",
    "neighbours_of",
    "statistics",
    "value_detectors",
]
