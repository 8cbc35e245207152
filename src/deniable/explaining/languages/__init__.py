"""Explanations in other languages than English: each is one more `Texts`, with all its sentences and labels.

>>> from deniable.explaining import Participant, explain
>>> from deniable.guarantees import PureDP
>>> print(explain(PureDP(0.5, unit="patient_id"), reader=Participant(texts=texts_in("fr"))).sections[0].heading)
Ce que cela signifie pour vous
"""

from __future__ import annotations

from importlib import import_module

from deniable.errors import InvalidArgument
from deniable.explaining.texts import ENGLISH, Texts

LANGUAGES = ("en", "de", "fr")


def texts_in(language: str) -> Texts:
    """The sentences of a language: "en", "de" or "fr"."""
    if language not in LANGUAGES:
        raise InvalidArgument("language", language, f"one of {', '.join(LANGUAGES)}")
    if language == "en":
        return ENGLISH
    texts: Texts = import_module(f"deniable.explaining.languages.{language}").TEXTS
    return texts
