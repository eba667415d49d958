"""Queries that are compiled once."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.models import Q
from django.test.utils import CaptureQueriesContext
from tests.support.jobs_world import placed
from tests.support.platform_factories import make_node

from skep_platform.core.compiled import Among, Compiled, Given
from skep_platform.jobs.models import Job, TaskAttempt

pytestmark = pytest.mark.django_db

COLUMNS = ("id", "owner__username", "spec", "spec__extras", "wait_reason", "created_at", "gpus")


@pytest.fixture
def jobs(alice, vc):
    make_node("gpu-1", gpus=8)
    return [placed(alice, vc, name=f"job-{number}") for number in range(3)]


def test_it_returns_what_django_returns(jobs):
    compiled = Compiled(lambda: Job.objects.filter(Among("pk", "jobs")).order_by("pk"), *COLUMNS)
    wanted = [job.pk for job in jobs[:2]]
    rows = Job.objects.filter(pk__in=wanted).order_by("pk")
    for _ in range(2):
        assert compiled.rows(jobs=wanted) == list(rows.values_list(*COLUMNS))
        assert compiled.dicts(jobs=wanted) == list(rows.values(*COLUMNS))
    assert compiled.rows(jobs=[]) == []


def test_its_text_is_the_same_for_any_number_of_rows(jobs):
    attempts = Compiled(lambda: TaskAttempt.objects.filter(Among("job", "jobs")), "pk")
    found, texts = [], set()
    for number in range(4):
        with CaptureQueriesContext(connection) as sent:
            found.append(len(attempts.rows(jobs=[job.pk for job in jobs[:number]])))
        texts |= {query["sql"].partition("ANY(")[0] for query in sent}
    assert found == [0, 1, 2, 3]
    assert len(texts) == 1


def test_values_are_given_with_each_run(jobs):
    named = Compiled(lambda: Job.objects.filter(Q(name=Given("name")) | Q(gpus__gt=Given("most"))))
    assert named.finds(name="job-1", most=100)
    assert not named.finds(name="nothing", most=100)
    assert named.finds(name="nothing", most=0)
    with pytest.raises(KeyError):
        named.finds(name="job-1")
