"""A failover: the database takes no writes, and ends connections, for a while."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from django.db import DataError, OperationalError, ProgrammingError
from tests.support.failover import read_only
from tests.support.gateway_agent import Joined
from tests.support.gateway_server import ProcessServer, wait_until
from tests.support.platform_factories import make_user

from skep_agent.protocol import AttemptFact
from skep_platform.accounts.services import create_token
from skep_platform.cluster.models import Node, NodeState
from skep_platform.core import failures


@pytest.fixture
def port(transactional_db: None) -> Iterator[int]:
    with ProcessServer() as server:
        yield server.port


def test_finding_c6_writes_to_a_read_only_database_may_be_sent_again(port) -> None:
    user = make_user("root", admin=True)
    token = create_token(user, "test")[1]
    headers = {"Authorization": f"Bearer {token}"}
    base = f"http://127.0.0.1:{port}/api/v1"
    with httpx.Client(base_url=base, headers=headers, timeout=60) as api:
        body = {"name": "vision"}
        with read_only():
            for _ in range(3):
                refused = api.post("/virtual-clusters", json=body)
                assert refused.status_code == 503, refused.text
                assert refused.json()["code"] == "unavailable"
                assert refused.headers["Retry-After"] == "1"
            login = api.post("/auth/token", json={"username": "root", "password": "wrong"})
            assert login.status_code in (401, 400, 503), login.text
            assert api.get("/nodes").status_code == 200, "reading goes on"
        wait_until(
            lambda: api.post("/virtual-clusters", json=body).status_code in (201, 409),
            "writes are taken again, without a restart",
        )


def test_finding_c6_a_session_outlives_a_failover_and_loses_no_fact(port) -> None:
    joined = Joined(gpus=1)
    with joined.connect(port) as agent:
        agent.enter(joined.hello)
        with read_only():
            agent.report(AttemptFact(seq=1, attempt_id="a", epoch=1, phase="running", at=0.0))
            agent.send('{"type": "heartbeat", "seq": 1}')
        wait_until(lambda: agent.beat().seq, "heartbeats are acknowledged again")
        node = Node.objects.get()
        assert (node.state, node.connected) == (NodeState.ONLINE, True)


class _Answered(Exception):
    def __init__(self, state: str | None) -> None:
        self.sqlstate = state


@pytest.mark.parametrize(
    "state",
    ["08006", "57P01", "57P02", "57P03", "53300", "53100", "25006", "40001", "40P01", "58030"],
)
@pytest.mark.parametrize("kind", [OperationalError])
def test_finding_c6_states_in_which_the_database_is_away(state, kind) -> None:
    error = kind("x")
    error.__cause__ = _Answered(state)
    refusal = failures.as_refusal(error)
    assert refusal is not None
    assert (refusal.status, refusal.code) == (503, "unavailable")


@pytest.mark.parametrize("error", [ProgrammingError("x"), DataError("x"), ValueError("x")])
def test_finding_c6_a_defect_of_ours_is_not_reported_as_an_outage(error) -> None:
    error.__cause__ = _Answered("42601")
    assert failures.as_refusal(error) is None


def test_finding_c6_a_value_too_large_for_the_database_is_not_an_outage() -> None:
    error = OperationalError("x")
    error.__cause__ = _Answered("54000")
    refusal = failures.as_refusal(error)
    assert refusal is not None
    assert (refusal.status, refusal.code) == (413, "request_too_large")
