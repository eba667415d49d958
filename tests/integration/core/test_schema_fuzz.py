"""Every operation of the OpenAPI schema, asked what the schema allows and what it does not.

Nothing answers with a 5xx, and every answer is one that the schema describes: its status, its
media type and its body. Requests come from schemathesis; most of them name things that exist.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
import schemathesis
from django.conf import settings as django_settings
from django.core import signals
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import checks
from schemathesis.generation import GenerationMode
from tests.support.gateway_live import login
from tests.support.one_of_each import make_all, make_users
from tests.support.platform_api import Api

from skep_platform.core import serving
from skep_platform.core.schema import schema_body

# Callers, and the examples of each operation that each of them sends.
FEW = {"anonymous": 1, "member in a browser": 2, "admin": 3}
MANY = {"anonymous": 50, "member": 150, "member in a browser": 150, "admin": 150}
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
CSRF = "a" * 32


@schemathesis.serializer("application/gzip")
def bytes_as_they_are(ctx: Any, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


@schemathesis.deserializer("application/yaml", "text/yaml")
def text_as_it_is(ctx: Any, response: Any) -> str:
    """The schema describes a YAML file as a text."""
    return response.text


@pytest.fixture
def one_transaction(db, monkeypatch):
    """Requests leave the connection open, so that what each of them changed can be rolled back."""
    signals.request_started.disconnect(close_old_connections)
    signals.request_finished.disconnect(close_old_connections)
    monkeypatch.setattr(serving, "close_old_connections", lambda: None)
    yield
    signals.request_started.connect(close_old_connections)
    signals.request_finished.connect(close_old_connections)


@pytest.mark.usefixtures("one_transaction")
@pytest.mark.parametrize("caller", FEW)
def test_31_no_request_fails_the_server_or_gets_what_the_schema_does_not_have(caller):
    ask_all(caller, FEW[caller])


@pytest.mark.long
@pytest.mark.timeout(3600)
@pytest.mark.usefixtures("one_transaction")
@pytest.mark.parametrize("caller", MANY)
def test_31_no_request_of_many_fails_the_server(caller):
    ask_all(caller, MANY[caller])


@cache
def operations() -> list[Any]:
    schema = schemathesis.openapi.from_dict(json.loads(schema_body(True)[0]))
    schema.app = get_wsgi_application()
    return [found.ok() for found in schema.get_all_operations()]


def ask_all(caller: str, examples: int) -> None:
    users = make_users()
    sent = sent_by(caller, users)
    known = make_all(users)
    problems: list[str] = []
    statuses: Counter[int] = Counter()
    for operation in operations():
        kind = operation.path.removeprefix("/api/v1/").split("/")[0]
        problems += failures(operation, sent, known.get(kind, {}), examples, statuses)
    assert not problems, "\n\n".join(problems)
    assert statuses.total() > 140 * examples, "the schema has lost operations"
    # Requests get past the checks of who sends them.
    assert caller == "anonymous" or statuses[200] > statuses.total() / 10, statuses


def sent_by(caller: str, users: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a caller adds to each request."""
    headers = {"Accept-Encoding": "identity"}
    if caller == "anonymous":
        return {"headers": headers}
    user = users[caller.split(" ")[0]]
    token = Api(user).token
    if "browser" not in caller:
        return {"headers": headers | {"Authorization": f"Bearer {token}"}}
    session = {django_settings.SESSION_COOKIE_NAME: login(user).session_key}
    cookies = session | {django_settings.CSRF_COOKIE_NAME: CSRF}
    return {"headers": headers | {"X-CSRFToken": CSRF}, "cookies": cookies}


def failures(
    operation: Any,
    sent: Mapping[str, Any],
    known: Mapping[str, Any],
    examples: int,
    statuses: Counter[int],
) -> Iterator[str]:
    """Yield what is wrong with the answers of an operation, with a request that shows it."""
    modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
    requests = st.one_of(*(operation.as_strategy(generation_mode=mode) for mode in modes))

    @given(case=requests, existing=st.integers(0, 4))
    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def ask(case: Any, existing: int) -> None:
        if existing:
            asked = dict(case.path_parameters or {})
            case.path_parameters = {k: str(known.get(k, v)) for k, v in asked.items()}
        with transaction.atomic():
            response = case.call(**sent)
            transaction.set_rollback(True)
        statuses[response.status_code] += 1
        case.validate_response(response, checks=CHECKS)

    try:
        ask()
    except BaseExceptionGroup as error:
        yield f"{operation.label}: " + "; ".join(f"{part}"[:1000] for part in error.exceptions)
