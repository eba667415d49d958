"""The client's models of what the server answers, by datamodel-code-generator.

The generator reads a tolerant copy of the OpenAPI schema that is made here, so that a client
understands servers that are older or newer than itself: only what a model cannot do without is
required and everything else has a default, words of an enumeration are plain text, and a union is
read as what its variants have in common.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import generated

Schema = dict[str, Any]

MODELS = generated.ROOT / "client/skep_client/models.py"
HEADER = '"""What the server answers. Written from its OpenAPI schema by scripts/openapi."""\n'
REFERENCE = "#/components/schemas/"
# Properties without which an object makes no sense: what names it, and when it happened.
REQUIRED = frozenset({
    "at", "code", "created_at", "expires_at", "id", "job", "name", "placed_at", "sha256", "start",
    "submitted_at", "token", "type", "username", "uuid", "valid",
})  # fmt: skip
# A flat schema does not show which model extends which.
EXTENDED = {"Job": "JobSummary", "ArchivedJob": "ArchivedJobSummary"}
BASE_CLASSES = {"JobSummary": "skep_client.model.JobModel"}
UNIONS = {"WaitReason": "Reason", "ForecastReason": "Reason"}
DEFAULTS: dict[str, Schema] = {
    "string": {"default": ""},
    "integer": {"default": 0},
    "number": {"default": 0},
    "boolean": {"default": False},
    "array": {"default_factory": "list"},
    "object": {"default_factory": "dict"},
}
HAS_DEFAULT = frozenset({"default", "default_factory"})


def source(schema: Schema) -> str:
    """Return the text of the module."""
    return formatted(generate(tolerant(schema["components"]["schemas"])))


def generate(schemas: Schema) -> str:
    """Return the models of the schemas as the generator writes them."""
    try:
        import datamodel_code_generator as dcg
        from datamodel_code_generator.format import DatetimeClassType
    except ModuleNotFoundError:
        sys.exit("datamodel-code-generator is not installed here. Run: scripts/bootstrap python")

    document = {
        "openapi": "3.1.0",
        "info": {"title": "Skep", "version": "1"},
        "paths": {},
        "components": {"schemas": schemas},
    }
    text = dcg.generate(
        json.dumps(document),
        input_file_type=dcg.InputFileType.OpenAPI,
        output_model_type=dcg.DataModelType.PydanticV2BaseModel,
        target_python_version=dcg.PythonVersion.PY_311,
        base_class="skep_client.model.Model",
        custom_file_header=HEADER,
        formatters=[],
        output_datetime_class=DatetimeClassType.Datetime,
        strict_nullable=True,  # what has a default is not None for that
        use_schema_description=True,
        use_standard_collections=True,
        use_union_operator=True,
    )
    assert isinstance(text, str)
    return text


def tolerant(schemas: Schema) -> Schema:
    """Return the schemas of answers, such that they fit older and newer servers, too."""
    left_out = variants(schemas)
    answers = {
        name: schema
        for name, schema in schemas.items()
        if "properties" in schema
        and not name.endswith(("Request", "Page"))
        and name not in left_out
    }
    return {name: model(name, answers, schemas) for name in sorted(answers)}


def variants(schemas: Schema) -> set[str]:
    """Return the variants of the unions that the client reads as what they have in common, and
    what is part of nothing else."""
    refs = {name: set(references(schema)) for name, schema in schemas.items()}
    found = set(UNIONS).union(*(refs[name] for name in UNIONS))
    while more := {
        name
        for name in schemas.keys() - found
        if (users := {user for user, used in refs.items() if name in used}) and users <= found
    }:
        found |= more
    return found


def references(schema: Any) -> Iterator[str]:
    """Yield the names of the schemas that one refers to."""
    if isinstance(schema, dict):
        if isinstance(ref := schema.get("$ref"), str):
            yield ref.rpartition("/")[2]
        for value in schema.values():
            yield from references(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from references(value)


def model(name: str, answers: Schema, schemas: Schema) -> Schema:
    """Return the tolerant schema of one model."""
    schema, extended = answers[name], EXTENDED.get(name)
    known = answers[extended]["properties"] if extended else {}
    always = set(schema.get("required", []))
    properties = {
        key: with_default(key, *kind_of(value, schemas), always=key in always)
        for key, value in schema["properties"].items()
        if known.get(key) != value
    }
    made: Schema = {
        "type": "object",
        "properties": properties,
        "required": [key for key, kind in properties.items() if not HAS_DEFAULT & kind.keys()],
    }
    made |= {"description": doc.strip()} if (doc := schema.get("description")) else {}
    made |= {"customBasePath": BASE_CLASSES[name]} if name in BASE_CLASSES else {}
    return {"allOf": [{"$ref": REFERENCE + extended}, made]} if extended else made


def with_default(key: str, kind: Schema, nullable: bool, *, always: bool) -> Schema:
    """Return the property with a default, unless it is required."""
    if always and key in REQUIRED and not nullable:
        return kind
    empty = None if kind.get("format") == "date-time" else DEFAULTS.get(kind.get("type", ""))
    if empty and not nullable:
        return kind | empty
    # There is no empty moment, and no empty model.
    return {"anyOf": [kind, {"type": "null"}], "default": None} if kind else {"default": None}


def kind_of(schema: Schema, schemas: Schema) -> tuple[Schema, bool]:
    """Return the type without limits of its values, and whether there may be null."""
    nullable = bool(schema.get("nullable"))
    for key in ("allOf", "oneOf", "anyOf"):
        if key in schema:
            parts = [part for part in schema[key] if part.get("enum") not in ([None], [""])]
            kinds: list[Schema] = []
            for kind, null in (kind_of(part, schemas) for part in parts):
                nullable |= null
                kinds += [] if kind in kinds else [kind]
            return (kinds[0] if len(kinds) == 1 else {"anyOf": kinds}), nullable
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if "enum" in schemas[name]:
            return {"type": "string"}, nullable
        return {"$ref": REFERENCE + UNIONS.get(name, name)}, nullable
    name = schema.get("type")
    if isinstance(name, list):
        nullable, name = nullable or "null" in name, next(n for n in name if n != "null")
    kind: Schema = {"type": name} if name else {}
    if schema.get("format") == "date-time":
        kind["format"] = "date-time"
    if name == "array":
        kind["items"] = or_null(*kind_of(schema.get("items", {}), schemas))
    elif name == "object":
        of = schema.get("additionalProperties")
        kind["additionalProperties"] = (
            isinstance(of, dict) and or_null(*kind_of(of, schemas))
        ) or True
    return kind, nullable


def or_null(kind: Schema, nullable: bool) -> Schema:
    """Return the type of an item of a list or an object, which may be null."""
    return {"anyOf": [kind, {"type": "null"}]} if kind and nullable else kind


def formatted(text: str) -> str:
    """Return the text as `make format` leaves it."""
    for command in (["check", "--fix", "--select", "I"], ["format"]):
        arguments = ["ruff", *command, "--quiet", "--stdin-filename", str(MODELS), "-"]
        done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True)
        text = done.stdout
    return text
