"""Strict JSON: duplicate keys and NaN are refused. Costs some ten microseconds for a job file."""

from __future__ import annotations

import json
from typing import Any, NoReturn

from skep_jobfile.scalars import whole


class DuplicateKey(ValueError):
    pass


def load(text: str) -> Any:
    """Raises ValueError, or RecursionError for what is nested too deep."""
    return _decoder.decode(text)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise DuplicateKey
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _float(text: str) -> int | float:
    return whole(float(text))


_decoder = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_float
)
