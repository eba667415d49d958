"""The client's models are written from the schema that the server publishes, and are read from
servers of another version, too."""

from __future__ import annotations

import importlib.util
import inspect
from pathlib import Path

import pytest
import yaml
from pydantic import BaseModel

from skep_client import models
from skep_client.model import Model, Page
from skep_client.models import Event, Job, JobSummary

ROOT = Path(__file__).resolve().parents[3]
SCHEMA = ROOT / "platform/skep_platform/openapi.yaml"
ALL = [one for _, one in inspect.getmembers(models, inspect.isclass) if issubclass(one, Model)]
# What each model cannot do without. An addition is an answer that older servers do not give: leave
# it out of REQUIRED in scripts/client_models.py.
REQUIRED = Path(__file__).with_name("required_fields.txt")
VALUES = {"float": 0.0, "str": "x", "int": 1, "bool": True, "datetime": "2026-11-21T08:00:00Z"}


def test_they_are_what_the_schema_says(monkeypatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")  # as when it runs by itself
    spec = importlib.util.spec_from_file_location("models", ROOT / "scripts/client_models.py")
    assert spec
    assert spec.loader
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    schema = yaml.load(SCHEMA.read_bytes(), yaml.CSafeLoader)
    text = generator.source(schema)
    assert (ROOT / "client/skep_client/models.py").read_text() == text, "run make openapi"


def test_a_point_may_lack_what_was_not_measured() -> None:
    gpu = {"uuid": "GPU-1", "points": [[1_764_000_000, 12.5, 200, None]]}
    task = {"points": [[1_764_000_000, 12.5, 200, None, None, None, None]]}
    metrics = models.JobMetrics.model_validate({"step_s": 10, "gpus": [gpu], "tasks": [task]})
    assert metrics.gpus[0].points[0] == [1_764_000_000, 12.5, 200, None]
    assert metrics.tasks[0].points[0][3] is None


def test_a_job_is_a_summary_with_more() -> None:
    assert issubclass(Job, JobSummary)
    known = {"id": "1", "name": "a", "submitted_at": "2026-11-21T08:00:00Z"}
    assert Job.model_validate({**known, "state": "FAILED"}).is_finished
    assert not JobSummary.model_validate({**known, "state": "RUNNING"}).is_finished


def test_fields_of_newer_and_of_older_servers_are_accepted() -> None:
    page = Page[Event].model_validate({
        "results": [{"id": 1, "at": "2026-11-21T08:00:00Z", "colour": "red"}],
        "total": 4,
    })  # fmt: skip
    assert page.results[0].message == ""


def least(model: type[BaseModel]) -> dict[str, object]:
    """Return an answer with nothing but what the model requires."""
    found: dict[str, object] = {}
    for name, field in model.model_fields.items():
        kind = field.annotation
        if field.is_required() and kind is not None:
            is_model = inspect.isclass(kind) and issubclass(kind, BaseModel)
            found[name] = least(kind) if is_model else VALUES[kind.__name__]
    return found


@pytest.mark.parametrize("model", ALL, ids=lambda model: model.__name__)
def test_an_answer_of_an_older_or_newer_server_is_read(model: type[Model]) -> None:
    older = model.model_validate(least(model))
    newer = model.model_validate({**least(model), "added_later": {"unknown": [1]}})
    assert older == newer
    assert "added_later" not in newer.model_dump()


def test_no_field_becomes_required_that_older_servers_do_not_send() -> None:
    required = [
        f"{model.__name__}.{name}"
        for model in ALL
        for name, field in model.model_fields.items()
        if field.is_required()
    ]
    assert sorted(required) == REQUIRED.read_text().split()
