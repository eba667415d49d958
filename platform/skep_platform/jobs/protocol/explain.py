"""From pydantic's errors to troubles that the author of a job file understands."""

from __future__ import annotations

import types
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import ValidationError

from skep_platform.jobs.protocol.part import Part
from skep_platform.jobs.protocol.problems import Path, Trouble

Model = TypeVar("Model", bound=Part)

CODES = {
    "missing": "missing_field",
    "extra_forbidden": "unknown_field",
    "not_supported_yet": "not_supported_yet",
}
OTHER_PREREQUISITES = ("script", "output", "data")


def explain(model: type[Model], data: Mapping[str, Any]) -> tuple[Model | None, list[Trouble]]:
    """The validated model, or all that is wrong with the data."""
    try:
        return model.model_validate(data), []
    except ValidationError as error:
        found = [_trouble(model, data, e) for e in error.errors(include_url=False)]
        once = {(t.path, t.code): t for t in found if not _within_refused(data, t.path)}
        return None, list(once.values())


def _trouble(model: type[Part], data: Any, error: Any) -> Trouble:
    path = _within(data, error["loc"])
    if error["type"] == "extra_forbidden":
        return _strange_key(model, path)
    if error["type"] == "missing":
        return Trouble("missing_field", f"{path[-1]} is required.", path)
    if path and error["loc"][-1] == "[key]":
        return Trouble("invalid_name", f"{_value(path[-1])}: {_sentence(error)}", path, True)
    if path[-1:] == ("type",) and error.get("input") in OTHER_PREREQUISITES:
        message = f"prerequisites of type {error['input']} are not supported yet"
        return Trouble("not_supported_yet", message, path)
    code = CODES.get(error["type"], "invalid_value")
    return Trouble(code, _sentence(error), path)


def _within_refused(data: Mapping[str, Any], path: Path) -> bool:
    """A prerequisite of another type has other fields: it is refused by its type alone."""
    if len(path) < 3 or path[0] != "prerequisites" or path[2] == "type":
        return False
    item = data["prerequisites"][path[1]]
    return isinstance(item, dict) and item.get("type") in OTHER_PREREQUISITES


def _within(data: Any, loc: tuple[Any, ...]) -> Path:
    """The part of pydantic's location that is in the data: it also names members of unions."""
    path: list[str | int] = []
    for step in loc:
        if isinstance(data, list) and isinstance(step, int) and step < len(data):
            data = data[step]
        elif isinstance(data, dict) and isinstance(step, str):
            if step == "[key]":
                break
            data = data.get(step)
        else:
            break
        path.append(step)
    return tuple(path)


def _strange_key(model: type[Part], path: Path) -> Trouble:
    part, key = _part_at(model, path[:-1]), str(path[-1])
    if part is not None and key in part.NOT_YET:
        return Trouble("not_supported_yet", f"{key} is not supported yet.", path, True)
    near = get_close_matches(key[:100], _known(part), n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    return Trouble("unknown_field", f"There is no field {_value(key)} here.{hint}", path, True)


def _known(part: type[Part] | None) -> list[str]:
    if part is None:
        return []
    return [field.alias or name for name, field in part.model_fields.items()] + list(part.NOT_YET)


def _part_at(model: type[Part], path: Path) -> type[Part] | None:
    """The model of the object at `path`."""
    kind: Any = model
    for step in path:
        if isinstance(kind, type) and issubclass(kind, Part):
            fields = {f.alias or name: f.annotation for name, f in kind.model_fields.items()}
            kind = _plain(fields.get(str(step)))
        else:
            kind = _plain(get_args(kind)[-1]) if get_args(kind) else None
    return kind if isinstance(kind, type) and issubclass(kind, Part) else None


def _plain(kind: Any) -> Any:
    """Without Annotated[...] and `| None`."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return _plain(next(a for a in get_args(kind) if a is not type(None)))
    return kind


def _sentence(error: Any) -> str:
    message = str(error["msg"])
    return f"{message[:1].upper()}{message[1:300]}."


def _value(key: object) -> str:
    return str(key)[:100]
