"""The JSON form: versioned, exact, and the same for ever."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import pytest

from deniable.errors import InvalidArgument
from deniable.events import (
    Claimed,
    DiscreteGaussian,
    DiscreteLaplace,
    Event,
    ExponentialMechanism,
    Gaussian,
    GaussianMixture,
    Laplace,
    MatrixGaussian,
    RandomizedResponse,
    Selected,
    TreeGaussian,
)
from deniable.guarantees import FDP, ApproxDP, TradeOff
from deniable.units import Relation

# These lines were written by version 1 of the form. A change that cannot read one of them breaks every stored ledger.
WRITTEN = {
    '{"coordinates":1,"deniable":1,"kind":"Gaussian","relation":"add_remove","scale":"1.1",'
    '"sensitivity":"1"}': Gaussian(1.1),
    '{"count":1000,"deniable":1,"event":{"event":{"coordinates":1,"kind":"Gaussian","reach":"1","relation":"replace",'
    '"scale":"1e-3","sensitivity":"2"},"kind":"Sampled","rate":"8/1875"},"kind":"Repeated"}': Gaussian(
        0.001, 2, Relation.REPLACE, reach=1
    ).sampled(rate=Fraction(8, 1875))
    * 1000,
    '{"deniable":1,"event":{"categories":4,"epsilon":"0.5","kind":"RandomizedResponse","relation":"replace"},'
    '"kind":"Shuffled","population":1000}': RandomizedResponse(0.5, 4).shuffled(size=1000),
    '{"deniable":1,"guarantee":{"delta":"1e-06","epsilon":"3","kind":"ApproxDP","relation":"add_remove","unit":{"column":'
    '"patient_id","noun":"patient"}},"kind":"Claimed"}': Claimed(ApproxDP(3, 1e-6, unit="patient_id")),
    '{"deniable":1,"guarantee":{"kind":"FDP","relation":"add_remove","tradeoff":{"corners":[["0","1"],["1/3","1/3"],["1","0"]]'
    ',"kind":"TradeOff"}},"kind":"Claimed"}': Claimed(FDP(TradeOff.of_lines([(2, 0)]))),
    '{"deniable":1,"kind":"TreeGaussian","participations":3,"relation":"zero_out","scale":"2",'
    '"steps":512}': TreeGaussian(2, 512, 3),
    '{"deniable":1,"kind":"MatrixGaussian","participations":2,"relation":"zero_out","scale":"2","sensitivity":"1.5",'
    '"separation":10,"steps":100}': MatrixGaussian(2, 1.5, 100, 2, 10),
    '{"deniable":1,"kind":"Composed","parts":[{"event":{"coordinates":1,"kind":"Laplace","relation":"add_remove","scale":"2",'
    '"sensitivity":"1"},"kind":"ForGroup","size":3},{"coordinates":1,"kind":"DiscreteGaussian","relation":"add_remove",'
    '"scale":"5","sensitivity":"1"}]}': Laplace(2).for_group(3) + DiscreteGaussian(5),
    '{"deniable":1,"event":{"coordinates":1,"kind":"DiscreteLaplace","relation":"add_remove","scale":"2.5",'
    '"sensitivity":"2"},"kind":"ToReplace"}': DiscreteLaplace(2.5, 2).to_replace(),
    '{"batch":10,"deniable":1,"event":{"coordinates":1,"kind":"Laplace","relation":"replace","scale":"1",'
    '"sensitivity":"1"},"kind":"SampledWithoutReplacement","population":100}': Laplace(
        1, relation=Relation.REPLACE
    ).sampled_without_replacement(batch=10, size=100),
    '{"deniable":1,"epsilon":"0.1","kind":"ExponentialMechanism","relation":"add_remove"}': ExponentialMechanism(0.1),
    '{"deniable":1,"kind":"GaussianMixture","probabilities":["0.81","0.18","0.01"],"relation":"add_remove","scale":"2",'
    '"sensitivities":["0","1","2"]}': GaussianMixture(2, (0, 1, 2), (0.81, 0.18, 0.01)),
    '{"deniable":1,"event":{"coordinates":1,"kind":"Gaussian","relation":"add_remove","scale":"1","sensitivity":"1"},'
    '"kind":"RandomAllocation","participations":2,"steps":100}': Gaussian(1).allocated(steps=100, participations=2),
    '{"capacity":150,"deniable":1,"event":{"coordinates":1,"kind":"Gaussian","relation":"add_remove","scale":"1",'
    '"sensitivity":"1"},"kind":"TruncatedSampled","rate":"0.01","size":10000}': Gaussian(1).truncated(
        rate=0.01, capacity=150, size=10_000
    ),
    '{"deniable":1,"eta":"1","event":{"coordinates":1,"kind":"Laplace","relation":"add_remove","scale":"2",'
    '"sensitivity":"1"},"gamma":"0.1","kind":"Selected"}': Selected(Laplace(2), 0.1, 1),
}


@pytest.mark.parametrize(("text", "event"), WRITTEN.items(), ids=[type(e).__name__ for e in WRITTEN.values()])
def test_what_was_written_stays_readable(text: str, event: Event) -> None:
    assert Event.from_json(text) == event
    assert Event.from_json(event.to_json()) == event


def test_every_kind_was_written_once() -> None:
    """A new kind of event adds its line when it is new; from then on the line stays."""
    written = {kind for text in WRITTEN for kind in re.findall(r'"kind":"(\w+)"', text)}
    assert set(Event.registry) <= written


def test_one_line_the_same_for_equal_events() -> None:
    assert Gaussian(1.0).to_json() == Gaussian(1).to_json()
    assert "\n" not in Gaussian(1).to_json()
    assert Gaussian(0.1).to_dict()["scale"] == 0.1
    assert json.loads(Gaussian(0.1).to_json()) == Gaussian(0.1).to_dict()


def test_a_number_without_a_short_decimal_is_a_fraction_in_text() -> None:
    event = Gaussian(1).sampled(rate=Fraction(8, 1875))
    assert event.to_dict()["rate"] == "8/1875"
    assert Event.from_json(event.to_json()) == Event.from_dict(event.to_dict()) == event


@pytest.mark.parametrize("text", WRITTEN)
def test_what_ledgers_keep_is_spelt_as_it_was_first_written(text: str) -> None:
    """A ledger compares texts: an event that was written before is written the same way now."""
    again = json.dumps(WRITTEN[text].to_record(), separators=(",", ":"))
    assert again == text.replace('"1e-3"', '"0.001"')  # a number that was not spelt as it is written


@pytest.mark.parametrize("number", ["1e999999999", "1e-999999999", '"1e999999999"', "1" * 5000])
def test_numbers_without_end_are_refused_at_once(number: str) -> None:
    with pytest.raises(InvalidArgument):
        Event.from_json(f'{{"deniable":1,"kind":"Gaussian","scale":{number}}}')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "JSON"),
        ("[]", "version 1"),
        ('{"deniable":2,"kind":"Gaussian","scale":"1"}', "version 1"),
        ('{"kind":"Gaussian","scale":"1"}', "version 1"),
        ('{"deniable":1,"kind":"Cauchy","scale":"1"}', "kind must be a known kind"),
        ('{"deniable":1,"kind":["Gaussian"],"scale":"1"}', "kind"),
        ('{"deniable":1,"kind":"Noise","scale":"1"}', "kind"),
        ('{"deniable":1,"kind":"Gaussian","scale":"1","colour":"red"}', "colour must be left out"),
        ('{"deniable":1,"kind":"Gaussian"}', "all fields of Gaussian"),
        ('{"deniable":1,"kind":"Gaussian","scale":"one"}', "exact decimal"),
        ('{"deniable":1,"kind":"Gaussian","scale":"1/0"}', "exact decimal"),
        ('{"deniable":1,"kind":"Gaussian","scale":NaN}', "scale must be"),
        ('{"deniable":1,"kind":"Gaussian","scale":"-1"}', "scale must be"),
        ('{"deniable":1,"kind":"Gaussian","scale":"1","relation":"swap"}', "relation must be one of"),
        ('{"deniable":1,"kind":"PureDP","epsilon":"1"}', "not a guarantee"),
        ('{"deniable":1,"kind":"Claimed","guarantee":{"kind":"PureDP","epsilon":"1","unit":{"a":"b"}}}', "all fields"),
    ],
)
def test_what_is_not_an_event_is_refused(text: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Event.from_json(text)
    assert said in str(caught.value)
