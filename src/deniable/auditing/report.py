"""What an audit found: a lower bound next to a claim.

The verdict is "refuted" or "consistent", never "proved private". `lower` and `curve` are confidence bounds that hold
whenever the audit stopped; `claimed` is the claim's own ε.

>>> report = AuditReport(claim="ε ≤ 1.00, δ = 0, one record added or removed", relation="add_remove", confidence=0.99,
...     verdict="consistent", by=None, delta=0.0, claimed=1.0, lower=0.8, curve=(), mu=None, attack="4 bins",
...     evidence=0.3, runs=500, seconds=1.0)
>>> AuditReport.from_json(report.to_json()) == report
True
>>> print(report)
consistent with ε ≤ 1.00, δ = 0, one record added or removed
No attack told these neighbours apart better than the claim allows. That is evidence, and no proof.
measured  ε ≥ 0.80 at δ = 0 (99 % confidence)
runs      500 in 1.0 s
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

from deniable._escapes import printable
from deniable._forms import Plain
from deniable._notebook import Shown
from deniable.auditing.replay import Finding
from deniable.descriptions import Description
from deniable.errors import InvalidArgument
from deniable.guarantees import ApproxDP, Guarantee
from deniable.guarantees.printing import small
from deniable.units import Relation

FORMAT = 1


class Point(NamedTuple):
    """A lower bound on ε at one δ, and the claim there."""

    delta: float
    lower: float
    claimed: float


@dataclass(frozen=True)
class ChannelReport:
    """The verdict on something that a claim about values does not cover: running times, or low bits of floats."""

    verdict: str
    """"leaks" or "nothing seen": whether this channel alone breaks the claim's bounds."""

    lower: float
    evidence: float
    runs: int
    channel: str = "running times"

    def __str__(self) -> str:
        return f"{self.verdict} ({self.channel} alone: ε ≥ {_down(self.lower)}, {self.runs} runs)"


@dataclass(frozen=True)
class AuditReport(Shown, Plain):
    """A verdict on a claim, and what it rests on."""

    claim: str
    relation: str
    confidence: float
    verdict: str
    by: str | None
    """What refuted the claim: "replay" (a proof) or "testing" (a confidence statement)."""

    delta: float
    claimed: float
    """The claimed ε at `delta`."""

    lower: float
    """ε is at least this at `delta`, with the stated confidence."""

    curve: tuple[Point, ...]
    """Lower bounds at several δ, all at once with the stated confidence."""

    mu: float | None
    """A lower bound on μ where the claim is Gaussian."""

    attack: str
    """The detector and the line that won most."""

    evidence: float
    """log10 of the e-value against the claim: at α, log10(1/α) refutes it."""

    runs: int
    seconds: float
    pair: str = "the given pair"
    findings: tuple[Finding, ...] = ()
    crashes: tuple[tuple[str, int, int], ...] = ()
    """Exceptions by name, with how often they were raised on D and on D′."""

    timing: ChannelReport | None = None
    """Running times, where they were judged."""

    low_bits: ChannelReport | None = None
    """The low bits of floats, where outputs had floats. Floating-point noise often keeps a claim in its values only."""

    guarantee: Guarantee | None = field(default=None, compare=False, repr=False)

    @property
    def refuted(self) -> bool:
        """Whether the claim is refuted."""
        return self.verdict == "refuted"

    def to_dict(self) -> dict[str, Any]:
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "guarantee"}
        plain["findings"] = [asdict(finding) for finding in self.findings]
        plain["curve"] = [point._asdict() for point in self.curve]
        plain["timing"] = None if self.timing is None else asdict(self.timing)
        plain["low_bits"] = None if self.low_bits is None else asdict(self.low_bits)
        return {"deniable": FORMAT, **plain}

    @staticmethod
    def from_json(text: str) -> AuditReport:
        """The report that `to_json` wrote."""
        try:
            found = _infinite(json.loads(text))
            if not isinstance(found, dict) or found.pop("deniable") != FORMAT:
                raise KeyError("deniable")
            found["findings"] = tuple(Finding(**finding) for finding in found["findings"])
            found["curve"] = tuple(Point(**point) for point in found["curve"])
            found["crashes"] = tuple((str(name), int(one), int(two)) for name, one, two in found["crashes"])
            for channel in ("timing", "low_bits"):
                seen = found.get(channel)  # reports of earlier versions have no low bits
                found[channel] = None if seen is None else ChannelReport(**seen)
            return AuditReport(**found)
        except (ValueError, TypeError, KeyError):
            raise InvalidArgument("text", "…", "an audit's JSON, as report.to_json() writes it") from None

    def describe(self) -> Description:
        """The claim with what was measured against it."""
        # Read back from JSON the claim is known at one point of its curve, which it implies.
        claim = self.guarantee or ApproxDP(self.claimed, self.delta, relation=Relation(self.relation))
        facts = [("verdict", self.verdict), ("measured", self._measured()), ("runs", str(self.runs))]
        facts += [(finding.kind, finding.text) for finding in self.findings]
        channels = (("low bits", self.low_bits), ("timing", self.timing))
        facts += [(name, str(seen)) for name, seen in channels if seen is not None]
        return Description("audit", claim, tuple(facts))

    def plot(self, axes: Any) -> None:
        """Draw the curve of lower bounds next to the claimed one on Matplotlib axes that the caller made."""
        deltas = [max(point.delta, 1e-12) for point in self.curve]
        for label, style, values in (
            ("claimed", "-", [point.claimed for point in self.curve]),
            ("measured, at least", "o--", [point.lower for point in self.curve]),
        ):
            axes.plot(deltas, [value if math.isfinite(value) else math.nan for value in values], style, label=label)
        axes.set(xscale="log", xlabel="δ", ylabel="ε", title=self.verdict)
        axes.legend()

    def _measured(self) -> str:
        share = f"{100 * self.confidence:.6g} % confidence" if self.by != "replay" else "by replay, no chance involved"
        return f"ε ≥ {_down(self.lower)} at δ = {small(self.delta)} ({share})"

    def __repr__(self) -> str:
        return str(self)  # what a shell shows

    @property
    def meaning(self) -> str:
        """The verdict in a sentence."""
        if self.by == "replay":
            return (
                "The claim is false for this mechanism: its noise was followed through every operation, and the two"
                " laws that it gives are further apart than the claim allows."
            )
        if self.refuted:
            return (
                "Somebody who sees the output tells these neighbours apart better than the claim allows. A true claim"
                f" would be refuted in at most {100 * (1 - self.confidence):.3g} % of such audits."
            )
        said = "No attack told these neighbours apart better than the claim allows. That is evidence, and no proof."
        if self.low_bits is not None and self.low_bits.verdict == "leaks":
            said += " The low bits of its floats do: as numbers in floating point, the answers break the claim."
        return said

    def __str__(self) -> str:
        lines = [f"{'REFUTED:' if self.refuted else 'consistent with'} {printable(self.claim)}", self.meaning]
        rows = [("measured", self._measured())]
        if self.mu is not None:
            rows.append(("", f"μ ≥ {_down(self.mu)}"))
        if self.refuted:
            rows.append(("attack", self.attack))
        rows.append(("runs", f"{self.runs} in {self.seconds:.1f} s"))
        if self.pair != "the given pair":
            rows.append(("pair", self.pair))
        rows += [("raised", f"{name}: {one} times on D, {two} times on D′") for name, one, two in self.crashes]
        rows += [("found", str(finding)) for finding in self.findings]
        if self.low_bits is not None and not self.refuted:
            rows.append(("low bits", str(self.low_bits)))
        if self.timing is not None:
            rows.append(("timing", str(self.timing)))
        width = max(len(name) for name, _ in rows) + 2
        return "\n".join(lines + [f"{name:<{width}}{printable(text)}" for name, text in rows])


def _down(value: float) -> str:
    """A lower bound with two decimals, cut; a rounding error below a whole cent is forgiven."""
    return "∞" if math.isinf(value) else f"{math.floor(value * 100 + 1e-6) / 100:.2f}"


def _infinite(value: Any) -> Any:
    if value in ("inf", "-inf", "nan"):
        return float(value)
    if isinstance(value, dict):
        return {name: _infinite(each) for name, each in value.items()}
    return [_infinite(each) for each in value] if isinstance(value, list) else value
