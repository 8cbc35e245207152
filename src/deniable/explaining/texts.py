"""Every sentence that `explain` and a report can say, in one place. Another language is another `Texts`; a missing one
fails. The words inside pictures are its `labels`.

Names in braces are filled in by the writers; a test checks that every sentence has its names and no others. A promise
about a group has sentences of its own, `groups`: they speak of "your group" where the others speak of "you".
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from deniable.explaining.labels import ENGLISH_LABELS, Labels
from deniable.guarantees import Guarantee
from deniable.units import Relation, Unit


@dataclass(frozen=True)
class Texts:
    """The sentences of one language."""

    language: str
    units: dict[str, str]
    """How one unit is called: by its noun, "" for every other noun, "group" for several at once."""
    changes: dict[Relation, str]
    statistics: dict[str, str]
    """What a query asks for, in the plural."""
    one_in: str
    someone: str
    belief: dict[Relation, str]
    odds: dict[Relation, str]
    odds_rest: str
    odds_about: str
    odds_own: str
    odds_any: str
    odds_most: str
    prior: str
    prior_almost: str
    prior_falls: str
    no_bound: str
    unit_row: str
    unit_person: str
    relation: dict[Relation, str]
    delta_zero: str
    delta: str
    refuted: str
    covers_budget: str
    covers_this: str
    not_population: str
    not_told: str
    not_true: str
    advantage: str
    caught: str
    method: str
    heading_refuted: str
    heading_promise: str
    heading_you: str
    heading_numbers: str
    heading_delta: str
    heading_not: str
    heading_scope: str
    heading_facts: str
    page_title: str
    page_intro: str
    page_refuted: str
    page_released: str
    page_releases: str
    page_release: str
    page_statistics: str
    page_and: str
    page_question: str
    page_redacted: str
    page_technical: str
    page_facts: str
    page_datasheet: str
    page_attacker: str
    page_promise: str
    page_done: str
    page_charged: str
    page_each: str
    page_earlier: str
    page_columns: tuple[str, str, str, str, str, str]
    page_audits: str
    page_claimed: str
    page_edges: str
    page_curator: str
    page_use: str
    page_footer: str
    edge_row: str
    edge_claimed: str
    edge_sampled: str
    edge_shuffled: str
    edge_floats: str
    edge_local: str
    edge_size: str
    sheet: dict[str, tuple[str, str]]
    """The datasheet: a question and its answer, by what it is about."""
    sheet_none: str
    sheet_tested: str
    labels: Labels
    groups: Texts | None
    """The same sentences about a group; None in these themselves."""

    def one(self, unit: Unit) -> str:
        """A unit in a sentence: "one patient", or "a group of 3 patients"."""
        many = "people" if unit.noun == "person" else f"{unit.noun}s"
        name = "group" if unit.members > 1 else unit.noun if unit.noun in self.units else ""
        return self.units[name].format(noun=unit.noun, nouns=many, members=unit.members)

    def promise(self, guarantee: Guarantee) -> str:
        """A promise in one line: its numbers, and what may change."""
        numbers = str(guarantee).removesuffix(f", {guarantee.neighbours}")
        return f"{numbers}, {self.changes[guarantee.relation].format(unit=self.one(guarantee.unit))}"

    def about(self, unit: Unit) -> Texts:
        """The sentences that fit a unit: those about groups, if it is one."""
        return self if unit.members == 1 or self.groups is None else self.groups


_SINGLE = Texts(
    language="en",
    units={"": "one {noun}", "group": "a group of {members} {nouns}"},
    changes={
        Relation.ADD_REMOVE: "{unit} added or removed",
        Relation.REPLACE: "{unit} replaced by another",
        Relation.ZERO_OUT: "{unit} blanked out",
    },
    statistics={
        "count": "counts",
        "sum": "sums",
        "average": "averages",
        "quantile": "quantiles",
        "spread": "measures of spread",
    },
    one_in="one in {many}",
    someone="someone who knows everything else",
    belief={
        Relation.ADD_REMOVE: "you took part",
        Relation.REPLACE: "your answer is the one they suspect",
        Relation.ZERO_OUT: "your data were used",
    },
    odds={
        Relation.ADD_REMOVE: (
            "If you do not take part, {without} of {of} possible reports would lead {observer} to believe {belief};"
            " if you do, {with_you} of {of}."
        ),
        Relation.REPLACE: (
            "If it is not so, {without} of {of} possible reports would lead {observer} to believe {belief};"
            " if it is, {with_you} of {of}."
        ),
        Relation.ZERO_OUT: (
            "If your data are left blank, {without} of {of} possible reports would lead {observer} to believe {belief};"
            " if they are not, {with_you} of {of}."
        ),
    },
    odds_rest="Such a report raises the belief, the others lower it or leave it as it was.",
    odds_about="Each of the two numbers may be off by {give_or_take}.",
    odds_own="These numbers are those of the noise that is really added.",
    odds_any=(
        "They are the numbers of the worst method that keeps the promise. The method in use may have others; no"
        " method's two numbers lie further apart."
    ),
    odds_most="Before rounding: at most {most} in 100 guesses are right, where a coin gives 50.",
    prior=(
        "Whoever starts out {prior} % sure about {unit} ends between {least} % and {most} % sure, whatever is"
        " published."
    ),
    prior_almost=(
        "Whoever starts out {prior} % sure about {unit} ends at most {most} % sure,"
        " except for at most {failure} of the reports that could come out."
    ),
    prior_falls="It may fall as well, to {least} % at the least, with as many exceptions.",
    no_bound="For every single report no certainty below 100 % can be promised; it can for all but a few.",
    unit_row="Every row is protected on its own. A person with many rows is protected less.",
    unit_person="The promise is about everything that {unit} contributes, all rows together.",
    relation={
        Relation.ADD_REMOVE: "It compares the data with the same data without {unit}; even how many there are is"
        " private.",
        Relation.REPLACE: "It compares the data with the same data where {unit} is replaced by another; how many there"
        " are is public.",
        Relation.ZERO_OUT: "It compares the data with the same data where {unit} is blanked out; how many there are is"
        " public.",
    },
    delta_zero="δ = 0: the promise holds for every single output.",
    delta=(
        "δ = {delta} is not the chance of a leak. It says how far a test may exceed the bound that ε sets. Read as a"
        " chance: with probability at least {kept}, no attacker's odds about {unit} grow by more than a factor of"
        " {factor}."
    ),
    refuted="An audit has refuted this promise. What follows is what was claimed, and it does not hold.",
    covers_budget="It covers whatever is released under this promise, all together, and nothing else.",
    covers_this="It covers this one thing. Whatever else is published about the same people adds up with it.",
    not_population=(
        "What is true of people in general is not hidden. A study can find that smoking harms, and that tells"
        " something about every smoker, whether they took part or not."
    ),
    not_told="What somebody says, posts, or lets others keep outside these data is not protected by it.",
    not_true="It says nothing about whether the published numbers are right. The intervals beside them do.",
    advantage="No test tells the two cases apart with an advantage (true minus false positive rate) above {advantage}.",
    caught="A test that accuses {false} of those who are not in finds at most {true} of those who are.",
    method="ε and δ come from the accountant's proven upper end: {method}.",
    heading_refuted="Refuted",
    heading_promise="What is promised",
    heading_you="What it means for you",
    heading_numbers="In numbers",
    heading_delta="What δ means",
    heading_not="What is not promised",
    heading_scope="Who is protected, against what",
    heading_facts="Facts",
    page_title="How {unit} is protected in what is published",
    page_intro=(
        "What is published here was computed with random noise, which limits what anybody can learn about {unit}. This"
        " page says how much that is, for whom, and what else there is to know."
    ),
    page_refuted="Refuted: {promise}",
    page_released="The released numbers",
    page_releases="What was published",
    page_release="{day}: {what}",
    page_statistics="{statistics} from a table",
    page_and="{first} and {last}",
    page_question="the question",
    page_redacted="the question, without names and values",
    page_technical="Technical details",
    page_facts="facts",
    page_datasheet="Datasheet: what NIST SP 800-226 tells readers to ask",
    page_attacker="What an attacker can do at most",
    page_promise="this promise",
    page_done="what was done",
    page_charged="What was charged for what",
    page_each=(
        "Each line says what one charge would cost on its own. The budget above covers all of them together; the lines"
        " do not add up to it, and need not."
    ),
    page_earlier="The first {less} charges are left out here; the ledger has them.",
    page_columns=("time (UTC)", "who", "purpose", "event", "on its own", "by"),
    page_audits="Audits",
    page_claimed="claimed: {promise}",
    page_edges="Sharp edges met",
    page_curator="curator",
    page_use="use",
    page_footer="Written by deniable {version} on {when}. No value on this page is private.",
    edge_row="The unit is a row. A person with many rows is protected less, row by row.",
    edge_claimed=(
        "Part of the record is entered as a promise, not as the noise that was drawn; it rests on whoever made it."
    ),
    edge_sampled="Sampling is counted as protection. Which records were sampled must stay secret.",
    edge_shuffled="A shuffle is counted as protection. Whoever shuffles must not tell who sent which report.",
    edge_floats=(
        "Continuous noise is computed in floating point. Its stated law is that of real numbers; see the sharp edges."
    ),
    edge_local=(
        "Randomized responses protect against whoever collects them, as long as the truth never leaves the person."
    ),
    edge_size="How many people there are is treated as public.",
    sheet={
        "parameters": ("Which promise, with which parameters?", "{promise}."),
        "unit": ("Whom does it protect: what is one unit?", "{scope}"),
        "neighbours": ("What is hidden about a unit: which data sets are neighbours?", "{neighbours}"),
        "meaning": (
            "What does the parameter mean for a person?",
            "Somebody who finds it equally likely that {unit} is in or out is right at most {most} times in 100.",
        ),
        "composition": ("Does it cover everything that is released from these data?", "{covers}"),
        "releases": ("How many releases does it cover so far?", "{releases}, each charged before it was computed."),
        "algorithms": ("Which mechanisms were used?", "{mechanisms}"),
        "sensitivity": (
            "How is the influence of one unit limited?",
            "By limits that do not depend on the data: how much of one unit counts, and ranges of values. What exceeds"
            " them is left out or clamped, and the noise covers what is left.",
        ),
        "numbers": (
            "Are the noise and the arithmetic right on a computer?",
            "Answers to questions are exact integers with exact discrete noise; randomness comes from the operating"
            " system's secure source. {floats}",
        ),
        "channels": (
            "What do other channels tell: time, errors, files?",
            "Refusals and messages do not depend on the data. How long an answer took is not covered by the promise.",
        ),
        "utility": (
            "How accurate are the results, and how is that known?",
            "Every released number has an interval, computed from the noise and from nothing private.",
        ),
        "bias": (
            "Can the results be biased?",
            "Limits and ranges cut what exceeds them; a release says what its intervals cover.",
        ),
        "trust": (
            "Who must be trusted: the central or the local model?",
            "The central one: the curator holds the data and is trusted with them ({curator}).{local}",
        ),
        "access": (
            "Who can reach the data and the ledger?",
            "Whoever can read the files. Access is the curator's to control; it is not recorded here.",
        ),
        "collection": ("How were the data collected?", "Not recorded here; ask the curator ({curator})."),
        "audits": ("Was the claim tested?", "{audits}"),
        "software": ("With which software?", "deniable {version}. {method}."),
    },
    sheet_none="None is recorded here.",
    sheet_tested="Audits on this page: {many}, of which refuted: {refuted}.",
    labels=ENGLISH_LABELS,
    groups=None,
)

_GROUPS = replace(
    _SINGLE,
    changes={**_SINGLE.changes, Relation.REPLACE: "{unit} replaced by others"},
    belief={
        Relation.ADD_REMOVE: "your group took part",
        Relation.REPLACE: "your group's answers are the ones they suspect",
        Relation.ZERO_OUT: "your group's data were used",
    },
    odds={
        Relation.ADD_REMOVE: (
            "If nobody in your group takes part, {without} of {of} possible reports would lead {observer} to believe"
            " {belief}; if all of you do, {with_you} of {of}."
        ),
        Relation.REPLACE: _SINGLE.odds[Relation.REPLACE],
        Relation.ZERO_OUT: (
            "If your group's data are left blank, {without} of {of} possible reports would lead {observer} to believe"
            " {belief}; if they are not, {with_you} of {of}."
        ),
    },
    unit_row="Any rows that make up {unit} are protected together. A person with more rows is protected less.",
    unit_person="The promise is about everything that {unit} contributes, all rows together. It holds for each smaller"
    " group too, and for one {noun} alone.",
    caught="A test that accuses {false} of the groups that are not in finds at most {true} of those that are.",
    heading_you="What it means for you and your group",
    edge_row="The unit is a group of rows. A person with more rows than the group is protected less.",
    labels=replace(
        ENGLISH_LABELS,
        odds="Reports that would point at your group",
        odds_without="without your group",
        odds_with="with your group",
        odds_alt="Two arrays of 100 figures. {without} of {of} are dark without them, {with_you} of {of} with them.",
        tradeoff="What a test about a group can achieve",
        audit_tradeoff_alt=ENGLISH_LABELS.audit_tradeoff_alt.replace("one person", "a group"),
    ),
)

ENGLISH = replace(_SINGLE, groups=_GROUPS)
