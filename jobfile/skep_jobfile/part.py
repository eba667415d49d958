"""What all objects of a job file have in common."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

CONFIG = ConfigDict(
    extra="forbid",
    strict=True,
    frozen=True,
    allow_inf_nan=False,
    alias_generator=to_camel,
    serialize_by_alias=True,
)


class _Shared(BaseModel):
    """An object that can be the default of a field without a copy of it for each job. Pydantic
    copies a default deeply where it has no hash, as that of an object with a list."""

    def __hash__(self) -> int:
        return hash(type(self))


class Part(_Shared):
    """An object of the protocol. Values are taken as written: no text becomes a number."""

    model_config = CONFIG


class OpenPart(_Shared):
    """An object in which the protocol allows fields that it does not know."""

    model_config = {**CONFIG, "extra": "allow"}


def _given(value: Any) -> Any:
    if value is None:
        raise PydanticCustomError("invalid_value", "null is no value here; leave the field out")
    return value


# For fields that may be left out, but not be null.
NotNull = BeforeValidator(_given)
# Patterns mean the same here and in JavaScript: `$` is the end of the text in both.
NAME = r"^[a-zA-Z0-9_-]+$"
IDENTIFIER = r"^[a-zA-Z_][a-zA-Z0-9_]*$"
Name = Annotated[str, Field(pattern=NAME, max_length=255)]
Identifier = Annotated[str, Field(pattern=IDENTIFIER)]
RoleName = Identifier
CellType = Annotated[str, Field(min_length=1, max_length=200)]

SPAN = r"^([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$"
_SECONDS = (86400, 3600, 60, 1)
MAX_DIGITS = 9


def _seconds(value: Any) -> Any:
    """From `2h30m`; numbers stay as they are."""
    if not isinstance(value, str):
        return value
    found = re.fullmatch(SPAN, value) if value and len(value) <= 40 else None
    if found is None:
        raise PydanticCustomError("invalid_value", "a number of seconds, or text such as 2h30m")
    counts = [part[:-1] if part else "0" for part in found.groups()]
    if any(len(count) > MAX_DIGITS for count in counts):
        raise PydanticCustomError("invalid_value", "this is too long")
    return sum(int(n) * unit for n, unit in zip(counts, _SECONDS, strict=True))


# Seconds, written as a number or as `2h30m`.
Seconds = Annotated[
    int,
    BeforeValidator(_seconds),
    WithJsonSchema(
        {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": SPAN}]}
    ),
]
