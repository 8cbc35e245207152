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
    loss: str
    loss_axis: str
    loss_line: str
    loss_normal: str
    loss_alt: str
    density: str
    threshold: str
    threshold_axis: str
    threshold_without: str
    threshold_with: str
    threshold_line: str
    threshold_alt: str
    promise_response: str
    promise_laplace: str
    promise_gaussian: str
    promise_sampled: str
    forms: str
    forms_alt: str
    accuracy: str
    accuracy_axis: str
    accuracy_line: str
    accuracy_alt: str
    accuracy_alt_line: str
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
    loss="The privacy loss and its normal limit",
    loss_axis="privacy loss ln P/Q",
    loss_line="privacy loss",
    loss_normal="normal law with its mean and variance (estimate)",
    loss_alt=(
        "The density of the privacy loss, with mean {mean} and standard deviation {deviation}, beside the normal law."
    ),
    density="density",
    threshold="A test that decides by a threshold",
    threshold_axis="what the test sees, in standard deviations of the noise",
    threshold_without="without you",
    threshold_with="with you",
    threshold_line="threshold at {at}",
    threshold_alt=(
        "Two normal laws that are {mu} apart. Above the threshold {at} the test says that you took part:"
        " false positives {positives}, false negatives {negatives}."
    ),
    promise_response="randomized response",
    promise_laplace="Laplace noise",
    promise_gaussian="Gaussian noise",
    promise_sampled="1,000 Gaussian steps on a hundredth",
    forms="What {count} steps cost, each {step}",
    forms_alt="ε under each theorem.",
    accuracy="Accuracy against privacy",
    accuracy_axis="error, at most",
    accuracy_line="{many} people",
    accuracy_alt="The promised error against ε, one line per number of people.",
    accuracy_alt_line="{many} people: {error} at ε = {epsilon}.",
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
