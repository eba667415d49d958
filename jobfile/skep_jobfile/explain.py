"""From pydantic's errors to issues that the author of a job file understands."""

from __future__ import annotations

import types
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from skep_jobfile.part import IDENTIFIER, NAME
from skep_jobfile.problems import Issue, Path, named
from skep_jobfile.raw import did_you_mean
from skep_limits import METRIC_NAME

Model = TypeVar("Model", bound=BaseModel)

CODES = {
    "missing": "missing_field",
    "extra_forbidden": "unknown_field",
    "metric_pattern": "metric_pattern",
}
PATTERNS = {
    NAME: "A name has letters, digits, - and _.",
    IDENTIFIER: "A name begins with a letter or _, and has letters, digits and _.",
    METRIC_NAME: "A metric begins with a lower-case letter, and has such letters, digits and _.",
}
TAG = ("union_tag_not_found", "union_tag_invalid")


def explain(model: type[Model], data: Mapping[str, Any]) -> tuple[Model | None, list[Issue]]:
    """The validated model, or all that is wrong with the data."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        found = [_trouble(model, data, e) for e in error.errors(include_url=False)]
        return None, list({(t.path, t.code): t for t in found}.values())


def _trouble(model: type[BaseModel], data: Any, error: Any) -> Issue:
    path = _within(data, error["loc"])
    if error["type"] == "extra_forbidden":
        return _strange_key(model, path)
    if error["type"] in TAG:
        return _strange_type(path, error)
    if error["type"] == "missing":
        return Issue("missing_field", f"{path[-1]} is required.", path)
    if path and error["loc"][-1] == "[key]":
        return Issue("invalid_name", f"{named(str(path[-1]))}: {_sentence(error)}", path, True)
    return Issue(CODES.get(error["type"], "invalid_value"), _sentence(error), path)


def _strange_type(path: Path, error: Any) -> Issue:
    path = (*path, "type")
    if error["type"] == "union_tag_not_found":
        return Issue("missing_field", f"type is required: {_TYPES}.", path)
    return Issue("invalid_value", f"The type is one of {_TYPES}.", path)


_TYPES = "dockerimage, script, output, data"


def _within(data: Any, loc: tuple[Any, ...]) -> Path:
    """The part of pydantic's location that is in the data: it also names members of unions."""
    path: list[str | int] = []
    for place, step in enumerate(loc):
        if isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        elif isinstance(data, dict) and step == "[key]":
            break
        elif isinstance(data, dict) and (step in data or place == len(loc) - 1):
            data = data.get(step)
        elif isinstance(data, dict | list):
            continue
        else:
            break
        path.append(step)
    return tuple(path)


def _strange_key(model: type[BaseModel], path: Path) -> Issue:
    part, key = _part_at(model, path[:-1]), str(path[-1])
    hint = did_you_mean(key, _known(part))
    return Issue("unknown_field", f"There is no field {named(key)} here.{hint}", path, True)


def _known(part: type[BaseModel] | None) -> list[str]:
    return [f.alias or name for name, f in part.model_fields.items()] if part else []


def _part_at(model: type[BaseModel], path: Path) -> type[BaseModel] | None:
    """Return the model of the object at `path`."""
    kind: Any = model
    for step in path:
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            fields = {f.alias or name: f.annotation for name, f in kind.model_fields.items()}
            kind = _plain(fields.get(str(step)))
        else:
            kind = _plain(get_args(kind)[-1]) if get_args(kind) else None
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _plain(kind: Any) -> Any:
    """Return the type without Annotated[...] and `| None`."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return _plain(next(a for a in get_args(kind) if a is not type(None)))
    return kind


def _sentence(error: Any) -> str:
    if error["type"] == "string_pattern_mismatch":
        return PATTERNS.get(error["ctx"]["pattern"], "It has characters that are not allowed.")
    message = str(error["msg"])
    return f"{message[:1].upper()}{message[1:300]}."
