"""The client's models of what the server answers, from the OpenAPI schema.

What names a thing is required; everything else has a default, so that a client understands servers
that are older or newer than itself. For the same reason words of an enumeration are plain text.
"""

from __future__ import annotations

import keyword
import subprocess
import textwrap
from typing import Any

import generated

MODELS = generated.ROOT / "client/skep_client/models.py"
HEADER = '''"""What the server answers. Written from its OpenAPI schema by scripts/openapi."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from skep_client.model import MayFinish, Model

'''
NAMES = frozenset({"code", "id", "name", "sha256", "token", "type", "username", "uuid", "valid"})
# Bases of models, where a flat schema does not tell.
BASES = {"JobSummary": "MayFinish, Model", "Job": "JobSummary"}
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
EMPTY = {"str": '""', "int": "0", "float": "0", "bool": "False"}


def source(schema: dict[str, Any]) -> str:
    """The text of the module."""
    return formatted(written(schema["components"]["schemas"]))


def written(schemas: dict[str, Any]) -> str:
    answers = {
        name: schema
        for name, schema in schemas.items()
        if "properties" in schema and not name.endswith(("Request", "Page"))
    }
    return HEADER + "\n".join(model(name, answers, schemas) for name in ordered(answers))


def ordered(answers: dict[str, Any]) -> list[str]:
    """By name, but a base before what is built on it."""
    return sorted(answers, key=lambda name: (BASES.get(name) in answers, name))


def model(name: str, answers: dict[str, Any], schemas: dict[str, Any]) -> str:
    base = BASES.get(name, "Model")
    known = answers[base]["properties"] if base in answers else {}
    schema = answers[name]
    lines = [f"class {name}({base}):"]
    if doc := schema.get("description", "").strip():
        lines.append(textwrap.indent(f'"""{doc}"""', "    "))
    fields = [
        field(key, value, key in schema.get("required", []), schemas)
        for key, value in schema["properties"].items()
        if known.get(key) != value
    ]
    return "\n".join([*lines, *(f"    {line}" for line in fields or ["pass"])]) + "\n"


def field(key: str, schema: dict[str, Any], required: bool, schemas: dict[str, Any]) -> str:
    kind, nullable = kind_of(schema, schemas)
    assert not keyword.iskeyword(key), key
    if required and key in NAMES and not nullable:
        return f"{key}: {kind}"
    if kind == "Any":
        return f"{key}: Any = None"
    default = default_of(kind)
    if nullable or not (required or default):
        return f"{key}: {kind} | None = None"
    return f"{key}: {kind} = {default}" if default else f"{key}: {kind}"


def default_of(kind: str) -> str:
    """ "" for a model, or a moment: there is no empty one."""
    if kind.startswith(("list[", "dict[")):
        return "[]" if kind.startswith("list[") else "{}"
    return EMPTY.get(kind, "")


def kind_of(schema: dict[str, Any], schemas: dict[str, Any]) -> tuple[str, bool]:
    """The annotation, and whether there may be null."""
    nullable = bool(schema.get("nullable"))
    for key in ("allOf", "oneOf", "anyOf"):
        if key in schema:
            parts = [part for part in schema[key] if part.get("enum") not in ([None], [""])]
            kinds = [kind_of(part, schemas) for part in parts]
            names = list(dict.fromkeys(kind for kind, _ in kinds))
            return " | ".join(names), nullable or any(null for _, null in kinds)
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return ("str" if "enum" in schemas[name] else name), nullable
    kind = schema.get("type")
    if isinstance(kind, list):
        nullable, kind = nullable or "null" in kind, next(k for k in kind if k != "null")
    if kind == "array":
        return f"list[{kind_of(schema.get('items', {}), schemas)[0]}]", nullable
    if kind == "object":
        of = schema.get("additionalProperties")
        value = kind_of(of, schemas)[0] if isinstance(of, dict) and of else "Any"
        return f"dict[str, {value}]", nullable
    if schema.get("format") == "date-time":
        return "datetime", nullable
    return PLAIN.get(str(kind), "Any"), nullable


def formatted(text: str) -> str:
    command = ["ruff", "format", "--quiet", "--stdin-filename", str(MODELS), "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    return done.stdout
