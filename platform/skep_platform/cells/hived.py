"""A HiveD file between its text and plain data: YAML 1.2 or JSON, bounded, and told what is wrong
with it all at once."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from skep_jobfile import InvalidJobFile, json_text, yaml_text
from skep_platform.cells.assignment import Error

MAX_DEPTH = 64
MAX_VALUES = 500_000


def read(text: str) -> tuple[dict[str, Any], list[Error]]:
    """The data, and why there is none."""
    if not text.strip():
        return {}, [Error("empty", "The file is empty.", "", {"line": 1, "column": 1})]
    try:
        data = _json(text)
        if data is None:
            data = yaml_text.construct(yaml_text.compose(text, MAX_DEPTH, MAX_VALUES))
    except InvalidJobFile as error:
        return {}, [
            Error(p.code, p.message, p.path, {"line": p.line, "column": p.column})
            for p in error.problems
        ]
    if not isinstance(data, dict):
        message = "A HiveD file is an object with physicalCluster and virtualClusters."
        return {}, [Error("not_an_object", message, "", {"line": 1, "column": 1})]
    return data, []


def write(data: Mapping[str, Any]) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    text = io.StringIO()
    yaml.dump(dict(data), text)
    return text.getvalue()


def _json(text: str) -> Any:
    """None for what is no JSON: it may be YAML in braces. Fast, where YAML takes minutes."""
    if text.lstrip()[:1] != "{":
        return None
    try:
        return json_text.load(text)
    except (ValueError, RecursionError):
        return None
