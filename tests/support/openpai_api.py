"""A client of OpenPAI's REST API for tests: each answer is held against OpenPAI's own swagger."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from rest_framework.test import APIClient
from ruamel.yaml import YAML
from tests.support.openpai import reference

from skep_platform.accounts.models import User
from skep_platform.accounts.services import create_token

ROOT = "/rest-server/api/v2"
DIFFERENCES = Path(__file__).parents[1] / "data" / "openpai_differences.json"


@cache
def swagger() -> Any:
    """OpenPAI's description as JSON Schema. Skips where the recorded data is absent."""
    return _json_schema(YAML(typ="safe").load(reference("openpai_swagger.yaml").read_text()))


def _json_schema(node: Any) -> Any:
    """OpenAPI 3.0 marks what may be null by `nullable`."""
    if isinstance(node, list):
        return [_json_schema(part) for part in node]
    if not isinstance(node, dict):
        return node
    plain = {key: _json_schema(value) for key, value in node.items() if key != "nullable"}
    if node.get("nullable") and isinstance(plain.get("type"), str):
        plain["type"] = [plain["type"], "null"]
    return plain


@cache
def known_differences() -> list[dict[str, str]]:
    return json.loads(DIFFERENCES.read_text())["differences"]


# Codes of OpenPAI's server that its swagger does not list (`utils/error.d.ts`).
UNLISTED = {"InvalidProtocolError", "NoTaskError", "NoTaskLogError", "NoTagError"}
UNLISTED |= {"NoStorageError", "NoSupportedLogServer"}


def codes() -> set[str]:
    """All codes that OpenPAI's clients know."""
    listed = swagger()["components"]["schemas"]["Response"]["properties"]["code"]["enum"]
    return set(listed) | UNLISTED


def differences(method: str, path: str, status: int, body: Any) -> list[tuple[str, str]]:
    """(operation, what differs) of an answer, by the swagger."""
    known = swagger()
    for pattern, operations in known["paths"].items():
        expression = re.sub(r"\{\w+\}", "[^/~]+", pattern.rstrip("/"))
        if method.lower() in operations and re.fullmatch(expression, "/api/v2" + path.rstrip("/")):
            operation = f"{method} {pattern.removeprefix('/api/v2')}"
            return [(operation, what) for what in _checked(operations, method, status, body)]
    return []  # served by OpenPAI, and not described


def _checked(operations: Any, method: str, status: int, body: Any) -> list[str]:
    known = swagger()
    answer = operations[method.lower()]["responses"].get(str(status))
    if status == 401:  # of every route, also where the swagger has forgotten it
        return [] if body["code"] == "UnauthorizedUserError" else [f"code {body['code']}"]
    if answer is None:
        return [f"status {status}"]
    if "$ref" in answer:
        answer = known["components"]["responses"][answer["$ref"].rpartition("/")[2]]
    schema = answer.get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        return []
    if status >= 400:
        return [] if body["code"] in codes() else [f"code {body['code']}"]
    found = jsonschema.Draft7Validator({**schema, "components": known["components"]})
    errors = sorted(found.iter_errors(body), key=str)
    return [f"{_where(error.absolute_path)}: {error.validator}" for error in errors]


def _where(path: Any) -> str:
    return ".".join("*" if isinstance(part, int) else str(part) for part in path) or "."


class Pai:
    """`Pai(user).get("/jobs")`; `Pai()` is anonymous. `check=False`: not against the swagger."""

    def __init__(self, user: User | None = None, *, scope: str = "admin") -> None:
        self.client = APIClient()
        self.user, self.token = user, ""
        if user is not None:
            self.token = create_token(user, "pai", scope=scope)[1]
            self.client.credentials(HTTP_AUTHORIZATION=f"Bearer {self.token}")

    def get(self, path: str, **query: Any) -> Any:
        return self._checked("GET", path, self.client.get(ROOT + path, query))

    def post(self, path: str, body: Any = None, form: str = "json") -> Any:
        if form == "yaml":
            sent = self.client.generic("POST", ROOT + path, body, content_type="text/yaml")
        elif form == "form":
            kind = "application/x-www-form-urlencoded"
            sent = self.client.generic("POST", ROOT + path, body, content_type=kind)
        else:
            sent = self.client.post(ROOT + path, body, format="json")
        return self._checked("POST", path, sent)

    def put(self, path: str, body: Any) -> Any:
        return self._checked("PUT", path, self.client.put(ROOT + path, body, format="json"))

    def delete(self, path: str, body: Any = None) -> Any:
        return self._checked("DELETE", path, self.client.delete(ROOT + path, body, format="json"))

    def _checked(self, method: str, path: str, answer: Any) -> Any:
        assert answer.status_code < 500, answer.content
        kind = answer.headers.get("Content-Type", "")
        body = answer.json() if kind.startswith("application/json") else None
        if answer.status_code >= 400:
            assert set(body) == {"code", "message"}, body
        known = {(one["operation"], one["what"]) for one in known_differences()}
        new = set(differences(method, path, answer.status_code, body)) - known
        if new:
            pytest.fail(f"{new} differ from OpenPAI's swagger: {answer.content[:2000]!r}")
        return answer


def refused(answer: Any) -> tuple[int, str]:
    """(status, code of OpenPAI) of an error."""
    body = answer.json()
    assert set(body) == {"code", "message"}, body
    assert body["message"]
    return answer.status_code, body["code"]
