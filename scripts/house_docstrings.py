"""Guess by word lists whether the first sentence of a docstring has a verb."""

from __future__ import annotations

import re
from collections.abc import Mapping

WORD = re.compile(r"[a-z]+(?:'t)?", re.I)
# What may stand before an imperative: "X" is code in backticks.
SKIPPED = frozenset({"x", "and", "then", "also", "never"})


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring, on one line."""
    paragraph = " ".join(docstring.strip().split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph, maxsplit=1)[0]


class Verbs:
    """The lists of verbs of house.toml."""

    def __init__(self, lists: Mapping[str, str]) -> None:
        self._finite = frozenset(lists["finite"].split())
        self._imperative = frozenset(lists["imperative"].split())
        self._nouns = frozenset(lists["nouns"].split())

    def in_sentence(self, sentence: str) -> bool:
        """Return whether the sentence has a finite verb or starts with an imperative."""
        bare = re.sub(r"`[^`]*`", "X", sentence)
        words = [word.lower() for word in WORD.findall(bare)]
        while words and (words[0].endswith("ly") or words[0] in SKIPPED):
            words.pop(0)
        if not words or words[0] in self._finite or self._is_verb(words[0]):
            return True
        return any(
            word in self._finite
            or (word.endswith("s") and word not in self._nouns and self._is_verb(word))
            for word in words[1:]
        )

    def is_third_person(self, word: str) -> bool:
        """Return whether the word is a verb with the ending of the third person, e.g. "adds"."""
        return word not in self._imperative and _base(word) in self._imperative

    def _is_verb(self, word: str) -> bool:
        return word in self._imperative or _base(word) in self._imperative


def _base(word: str) -> str:
    """Return a third person's base form: "copies" -> "copy", "matches" -> "match"."""
    if word.endswith("ies"):
        return word[:-3] + "y"
    if word.endswith(("ches", "shes", "sses", "xes", "zes", "oes")):
        return word[:-2]
    return word.removesuffix("s")
