"""The client's models are written from the schema that the server publishes."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ruamel.yaml import YAML

from skep_client.model import Page
from skep_client.models import Event, Job, JobSummary

ROOT = Path(__file__).resolve().parents[3]


def test_they_are_what_the_schema_says(monkeypatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")  # as when it runs by itself
    spec = importlib.util.spec_from_file_location("models", ROOT / "scripts/client_models.py")
    assert spec
    assert spec.loader
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    schema = YAML(typ="safe").load(ROOT / "platform/skep_platform/openapi.yaml")
    text = generator.source(schema)
    assert (ROOT / "client/skep_client/models.py").read_text() == text, "run make openapi"


def test_a_job_is_a_summary_with_more() -> None:
    assert issubclass(Job, JobSummary)
    known = {"id": "1", "name": "a", "submitted_at": "2026-11-21T08:00:00Z"}
    assert Job.model_validate({**known, "state": "FAILED"}).is_finished
    assert not JobSummary.model_validate({**known, "state": "RUNNING"}).is_finished


def test_fields_of_newer_and_of_older_servers_are_no_trouble() -> None:
    page = Page[Event].model_validate({
        "results": [{"id": 1, "at": "2026-11-21T08:00:00Z", "colour": "red"}],
        "total": 4,
    })  # fmt: skip
    assert page.results[0].message == ""
