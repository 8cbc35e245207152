"""Every word inside a picture, and its text alternatives. Another language is another `Labels`.

Names in braces are filled in by the figures; a test draws every picture with marks around each text.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Labels:
    """The words of pictures in one language."""

    guessing: str
    false_positives: str
    false_negatives: str
    odds: str
    odds_without: str
    odds_with: str
    odds_count: str
    odds_alt: str
    tradeoff: str
    tradeoff_alt: str
    tradeoff_alt_line: str
    profile: str
    profile_alt: str
    profile_alt_line: str
    belief: str
    belief_before: str
    belief_after: str
    belief_most: str
    belief_almost: str
    belief_same: str
    belief_alt: str
    comparison: str
    comparison_steps: str
    comparison_cost: str
    comparison_estimate: str
    comparison_alt: str
    comparison_alt_line: str
    charges: str
    charges_day: str
    charges_alt: str
    charges_alt_bar: str
    values_intervals: str
    values_first: str
    values_alt_row: str
    audit: str
    verdicts: dict[str, str]
    audit_claimed: str
    audit_measured: str
    audit_alt: str
    audit_alt_point: str
    audit_alt_verdict: str
    audit_finding: str
    audit_above: str
    audit_below: str
    audit_tradeoff_alt: str


ENGLISH_LABELS = Labels(
    guessing="guessing",
    false_positives="false positives",
    false_negatives="false negatives",
    odds="Reports that would point at you",
    odds_without="without you",
    odds_with="with you",
    odds_count="{name}: {many} of {of}",
    odds_alt="Two arrays of 100 figures. {without} of {of} are dark without you, {with_you} of {of} with you.",
    tradeoff="What a test about one person can achieve",
    tradeoff_alt="False negatives against false positives; nearer to the guessing line is more private.",
    tradeoff_alt_line="{name}: at 10 % false positives at least {missed} % are missed.",
    profile="The privacy curve",
    profile_alt="δ against ε; lower is more private.",
    profile_alt_line="{name}: ε is {epsilon} at δ = {delta}.",
    belief="From belief before to belief after",
    belief_before="belief before",
    belief_after="belief after",
    belief_most="after, at most",
    belief_almost="after, at most, but for {failure} of the outputs",
    belief_same="nothing learned",
    belief_alt="Belief after against belief before. A belief of 10 % grows to at most {most} %.",
    comparison="What k steps cost, each {step}",
    comparison_steps="number of steps k",
    comparison_cost="ε at δ = {delta}",
    comparison_estimate="{theorem} (estimate)",
    comparison_alt="ε against the number of steps, one line per theorem.",
    comparison_alt_line="{theorem}: {epsilon} at k = {count}.",
    charges="Charges over time",
    charges_day="charges a day (UTC)",
    charges_alt="Charges per day.",
    charges_alt_bar="{day}: {many}.",
    values_intervals="with {confidence} % intervals",
    values_first="{name} (the first {shown} of {all})",
    values_alt_row="{name}: {value}, from {low} to {high}.",
    audit="An audit: {verdict}",
    verdicts={"refuted": "refuted", "consistent": "consistent"},
    audit_claimed="claimed",
    audit_measured="measured, at least",
    audit_alt="ε at several δ.",
    audit_alt_point="At δ = {delta}: claimed {claimed}, measured at least {lower}.",
    audit_alt_verdict="Verdict: {verdict}.",
    audit_finding="audited: ε ≥ {lower} at δ = {delta}",
    audit_above="claimed: every test is on or above",
    audit_below="{finding}: some test is on or below",
    audit_tradeoff_alt=(
        "False negatives against false positives of tests about one person. At δ = {delta} the claim is ε ≤ {claimed};"
        " {finding}."
    ),
)
