"""Rows that are made without the initialiser of their model are as it makes them."""

from __future__ import annotations

from typing import Any

import pytest
from django.db.models import Model

from skep_platform.accounts.models import User
from skep_platform.audit.models import AuditEntry
from skep_platform.core.bulk import loaded, new
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job, TaskRole


def _values(row: Model) -> dict[str, Any]:
    """What two rows share: not their keys and times."""
    own = {"_state", "id", "at"}
    return {name: value for name, value in vars(row).items() if name not in own}


@pytest.mark.parametrize("model", [Job, TaskRole, Event, AuditEntry])
def test_a_new_row_has_the_defaults_of_its_model(model: type[Model]) -> None:
    made = new(model)
    assert _values(made) == _values(model())
    assert set(vars(made)) == set(vars(model()))
    assert made._state.adding
    assert new(model).pk is None or new(model).pk != made.pk, "each row has a key of its own"


def test_a_new_row_holds_what_its_foreign_keys_name() -> None:
    owner = User(pk=7, username="alice")
    job = new(Job, name="train", owner=owner, parent=None, vc_id=None)
    assert (job.owner, job.owner_id, job.parent) == (owner, 7, None)
    assert job.tags is not new(Job).tags, "a list is not shared"
    with pytest.raises(TypeError):
        new(Job, nane="train")


def test_a_loaded_row_is_as_the_database_has_it() -> None:
    names = [field.attname for field in Event._meta.concrete_fields]
    values = [getattr(Event(id=5, message="Done."), name) for name in names]
    row = loaded(Event, names, values)
    assert _values(row) == _values(Event.from_db("default", names, values))
    assert not row._state.adding
    with pytest.raises(ValueError, match="shorter"):
        loaded(Event, names, values[:-1])
