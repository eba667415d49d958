"""The API's schema is a file: nothing is rendered for whoever asks."""

from __future__ import annotations

import json

import pytest
import yaml
from django.test import Client
from drf_spectacular import generators

from skep_platform.core.schema import SCHEMA


@pytest.fixture(autouse=True)
def _no_rendering(monkeypatch):
    def rendered(*_: object, **__: object) -> None:
        raise AssertionError("the schema was rendered for a request")

    monkeypatch.setattr(generators.SchemaGenerator, "get_schema", rendered)


def test_finding_s7_the_schema_is_served_as_it_was_built():
    answer = Client().get("/api/v1/openapi")
    assert answer.status_code == 200
    assert answer.content == SCHEMA.read_bytes()
    assert answer.headers["Content-Type"].startswith("application/vnd.oai.openapi")
    assert "max-age" in answer.headers["Cache-Control"]


def test_finding_s7_who_has_it_gets_no_body():
    etag = Client().get("/api/v1/openapi").headers["ETag"]
    again = Client().get("/api/v1/openapi", headers={"If-None-Match": etag})
    assert (again.status_code, again.content) == (304, b"")


def test_the_schema_is_also_json():
    answer = Client().get("/api/v1/openapi", headers={"Accept": "application/json"})
    assert json.loads(answer.content) == yaml.load(SCHEMA.read_bytes(), yaml.CSafeLoader)
    assert answer.headers["ETag"] != Client().get("/api/v1/openapi").headers["ETag"]
