"""An object of a manifest, read key by key. A note reports the keys that are not read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skep_jobfile.document import Document
from skep_jobfile.importers.result import Note
from skep_jobfile.problems import InvalidJobFile, Issue, Path


class View:
    """Raises InvalidJobFile, with the place, for a value of another type than asked for."""

    def __init__(self, document: Document, data: Any, path: Path, notes: list[Note]) -> None:
        self._document, self._path, self._notes = document, path, notes
        if not isinstance(data, dict):
            raise self._wrong((), "an object")
        self.data: dict[str, Any] = data
        self._taken: set[str] = set()

    def take(self, key: str) -> Any:
        """As written; None where it is missing."""
        self._taken.add(key)
        return self.data.get(key)

    def text(self, key: str) -> str:
        value = self.take(key)
        if value is None:
            return ""
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise self._wrong((key,), "text")
        return str(value)

    def whole(self, key: str) -> int | None:
        value = self.take(key)
        if value is None or (type(value) is int and 0 <= value < 10**9):
            return value
        raise self._wrong((key,), "a whole number")

    def child(self, key: str) -> View:
        """Empty where it is missing."""
        value = self.take(key)
        path = (*self._path, key)
        return View(self._document, {} if value is None else value, path, self._notes)

    def children(self, key: str) -> list[View]:
        return [
            View(self._document, value, (*self._path, key, index), self._notes)
            for index, value in enumerate(self._list(key))
        ]

    def texts(self, key: str) -> list[str]:
        values = self._list(key)
        for index, value in enumerate(values):
            if not isinstance(value, str | int | float):
                raise self._wrong((key, index), "text")
        return [str(value) for value in values]

    def skip(self, *keys: str) -> None:
        """Mark keys as read that mean nothing outside of Kubernetes."""
        self._taken.update(keys)

    def note(self, code: str, message: str, *below: str | int) -> None:
        self._notes.append(Note(code, message, self.line(*below)))

    def rest(self, hints: Mapping[str, str]) -> None:
        """A note for each key that was not taken; `hints` say what to do instead."""
        for key in self.data:
            if key not in self._taken and self.data[key] not in (None, {}, [], ""):
                hint = hints.get(key, "it has no counterpart here and was left out.")
                self.note("not_carried_over", f"{key[:100]}: {hint}", key)

    def line(self, *below: str | int) -> int:
        issue = Issue("", "", (*self._path, *below), at_key=True)
        return self._document.locate(issue).line

    def wrong(self, key: str, expected: str) -> InvalidJobFile:
        return self._wrong((key,), expected)

    def _list(self, key: str) -> list[Any]:
        value = self.take(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong((key,), "a list")
        return value

    def _wrong(self, below: Path, expected: str) -> InvalidJobFile:
        path = (*self._path, *below)
        issue = Issue("invalid_value", f"Here stands {expected}.", path)
        return InvalidJobFile([self._document.locate(issue)])
