"""Who and what most tests of the platform begin with."""

from __future__ import annotations

import pytest
from tests.support.platform_api import Api
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.accounts import current_user
from skep_platform.accounts.models import User
from skep_platform.cluster.models import Node
from skep_platform.jobs.lifecycle import dependencies
from skep_platform.tenancy.models import VirtualCluster


@pytest.fixture(autouse=True)
def _tokens_read_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """How many queries a request makes would depend on the time since the one before. What is
    remembered of tokens has tests of its own."""
    monkeypatch.setattr(current_user, "FRESH_S", 0.0)


@pytest.fixture(autouse=True)
def _dependencies_looked_at_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is notified on commit is not, in tests that run in a transaction. What follows from
    notifications has a test of its own."""
    monkeypatch.setattr(dependencies, "WHOLE_S", 0.0)


@pytest.fixture
def admin() -> Api:
    return Api(make_user("root", admin=True))


@pytest.fixture
def alice() -> User:
    return make_user("alice")


@pytest.fixture
def vc(alice: User) -> VirtualCluster:
    """Alice's team, with more GPUs than most tests need."""
    return make_vc("vision", quotas={"A100": 64}, members=[alice])


@pytest.fixture
def node() -> Node:
    return make_node("gpu-1", gpus=8)
