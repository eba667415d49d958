"""Queries that are planned for their own values."""

from __future__ import annotations

import pytest
from django.db import connection
from tests.support.platform_factories import make_user

from skep_platform.accounts.models import User
from skep_platform.core.database.plans import fetch_planned

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("text", ["100%", "%s", "it's", "'; DROP TABLE accounts_user; --", "a\\'b"])
def test_any_text_is_a_value_and_nothing_else(text):
    make_user("other")
    User.objects.filter(pk=(mine := make_user("mine")).pk).update(first_name=text)
    found = fetch_planned(User.objects.filter(first_name__icontains=text).values_list("pk"))
    assert found == [(mine.pk,)]


def test_what_matches_nothing_is_not_asked_for():
    assert fetch_planned(User.objects.filter(pk__in=[]).values_list("pk")) == []


def test_no_plan_is_kept_that_serves_other_values():
    """A prepared statement with parameters would get one plan for all values, sooner or later."""
    for number in range(20):
        name = f"user-{number % 2}"
        fetch_planned(User.objects.filter(last_name=name).values_list("pk"))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_prepared_statements"
            " WHERE statement LIKE '%last_name%' AND cardinality(parameter_types) > 0"
            " AND statement NOT LIKE '%UPDATE%' AND statement NOT LIKE '%INSERT%'"
        )
        assert cursor.fetchone() == (0,)
