"""What happened to nodes is exported for the simulator, and a replay of history follows it."""

from __future__ import annotations

import csv
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.integration.simulations.test_simulations import START, WINDOW, answered, ask, ended
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_gpus, make_node, make_user, make_vc

from skep_platform.accounts.models import User
from skep_platform.cluster import maintenance, services
from skep_platform.cluster.models import Node, NodeState
from skep_platform.core.events import record
from skep_platform.core.models import Event
from skep_platform.simulations import node_history

pytestmark = pytest.mark.django_db

H = 3600.0


def moment(at_s: float) -> datetime:
    return START + timedelta(seconds=at_s)


def at(at_s: float, change: Callable[[], Any]) -> None:
    """Make a change so many seconds after START, as its events say."""
    newest = Event.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    change()
    assert Event.objects.filter(pk__gt=newest).update(at=moment(at_s)), "it has no event"


def node(name: str, **more: Any) -> Node:
    """A node that is online since an hour before START."""
    made = make_node(name, **more)
    Event.objects.filter(subject_id=str(made.pk)).update(at=moment(-H))
    Node.objects.filter(pk=made.pk).update(created_at=moment(-H))
    return made


def lose(node: Node) -> None:
    Node.objects.filter(pk=node.pk).update(state=NodeState.UNREACHABLE, connected=False)
    services.declare_lost(None, node.name)


def come_back(node: Node) -> None:
    record("node", node.pk, "node.online", f"Node {node.name} is online.", was=NodeState.LOST)


def exported(user: User, **window: str) -> list[tuple[float, str, str]]:
    answer = Api(user).get(f"/simulations/node-events?{urlencode(WINDOW | window)}")
    assert answer.status_code == 200, answer.content
    rows = csv.DictReader(answer.content.decode().splitlines())
    begin = START.timestamp()
    return [(float(row["at_s"]) - begin, row["node"], row["action"]) for row in rows]


def test_what_happened_to_nodes_is_exported_from_the_begin_of_the_window_on():
    root = make_user("root", admin=True)
    a, b = node("node-a"), node("node-b")
    at(-60, lambda: services.cordon(root, "node-b"))
    at(100, lambda: services.mark_draining(root, "node-a", "new fans"))
    at(200, lambda: services.uncordon(root, "node-a"))
    at(250, lambda: services.uncordon(root, "node-b"))
    at(300, lambda: services.close_session(a.pk, a.session_epoch))
    at(360, lambda: lose(a))
    at(370, lambda: services.cordon(root, "node-a"))
    at(400, lambda: come_back(a))
    at(420, lambda: services.uncordon(root, "node-a"))
    at(430, lambda: services.set_labels(root, "node-a", {"rack": "r1"}))
    assert exported(make_user("ann")) == [
        (0, "node-b", "close"),
        (100, "node-a", "drain"),
        (200, "node-a", "open"),
        (250, "node-b", "open"),
        (300, "node-a", "close"),
        (360, "node-a", "lose"),
        (400, "node-a", "close"),
        (420, "node-a", "open"),
    ]
    later = {"since": "2026-10-01T00:06:10Z", "until": "2026-10-01T00:07:00Z"}
    assert exported(root, **later) == [(370, "node-a", "lose"), (400, "node-a", "close")]
    assert b.name == "node-b"


def test_a_node_that_joined_later_is_not_there_before_and_one_that_was_removed_never_is():
    node("node-a")
    joined, gone = make_node("node-new"), node("node-gone")
    Node.objects.filter(pk=joined.pk).update(created_at=moment(490))
    Event.objects.filter(subject_id=str(joined.pk)).update(at=moment(500))
    at(600, lambda: services.close_session(gone.pk, gone.session_epoch))
    services.remove_node(None, "node-gone")
    expected = [(0, "node-new", "lose"), (500, "node-new", "open")]
    assert exported(make_user("ann")) == expected


def test_without_an_event_before_the_window_the_next_one_says_what_was():
    """Events are deleted after a while."""
    root = make_user("root", admin=True)
    for name in ("node-a", "node-b", "node-c"):
        node(name)
    services.cordon(root, "node-a")
    services.cordon(root, "node-c")
    lost = Node.objects.get(name="node-b")
    lose(lost)
    Event.objects.all().delete()
    at(50, lambda: services.uncordon(root, "node-a"))
    at(60, lambda: come_back(lost))
    assert exported(root) == [
        (0, "node-a", "close"),
        (0, "node-b", "lose"),
        (0, "node-c", "close"),  # no event at all: as it is now
        (50, "node-a", "open"),
        (60, "node-b", "open"),
    ]


def test_a_window_of_maintenance_is_a_drain_and_its_end():
    root = make_user("root", admin=True)
    node("node-a")
    begins = datetime.now(UTC) + timedelta(hours=1)
    maintenance.plan(root, ["node-a"], begins, begins + timedelta(hours=2), "disk")
    Event.objects.all().update(at=moment(-H))
    at(100, lambda: maintenance.reconcile(begins))
    at(700, lambda: maintenance.reconcile(begins + timedelta(hours=2)))
    assert exported(root) == [(100, "node-a", "drain"), (700, "node-a", "open")]


def test_a_node_with_two_models_is_two_nodes_and_both_have_its_events():
    root = make_user("root", admin=True)
    gpus = [*make_gpus("mixed-a", 2, model="A100"), *make_gpus("mixed-b", 1, model="T4")]
    node("mixed", gpus=gpus)
    at(10, lambda: services.cordon(root, "mixed"))
    body = Api(root).get("/simulations/cluster?nodes=true").json()
    assert body["nodes"] == [
        {"name": "mixed:A100", "gpus": 2, "gpu_model": "A100"},
        {"name": "mixed:T4", "gpus": 1, "gpu_model": "T4"},
    ]
    assert exported(root) == [(10, "mixed:A100", "close"), (10, "mixed:T4", "close")]
    assert Api(root).get("/simulations/cluster").json()["nodes"] == []


def test_too_many_events_are_refused(monkeypatch):
    root = make_user("root", admin=True)
    node("node-a")
    for number in range(3):
        at(number, lambda: services.cordon(root, "node-a"))
        at(number + 0.5, lambda: services.uncordon(root, "node-a"))
    monkeypatch.setattr(node_history, "MOST_EVENTS", 5)
    answer = Api(root).get(f"/simulations/node-events?{urlencode(WINDOW)}")
    assert refusal(answer) == (400, "too_many_node_events")


def test_a_replay_of_history_follows_what_happened_to_nodes():
    """Two jobs of an hour on the only node, which is lost after 600 s and comes back 300 s
    later."""
    root, ann = make_user("root", admin=True), make_user("ann")
    red = make_vc("red", quotas={"A100": 8}, members=[ann])
    only = node("node-a")
    for _ in range(2):
        ended(red, ann, at=1000, ran=(H,), gpus=8)
    at(1600, lambda: lose(only))
    at(1900, lambda: come_back(only))

    def times(**fields: Any) -> list[float]:
        body = answered(Api(root), ask(Api(root), **fields))
        assert (body["state"], body["error"]) == ("SUCCEEDED", None)
        assert body["request"]["node_events"] is fields.get("node_events", False)
        return [run["figures"]["avg_jct_s"] for run in body["runs"]]

    away = 600 + 300
    assert times() == [(H + 2 * H) / 2]
    more = {"gpu_model": "A100", "gpus": 8, "virtual_cluster": "red"}
    # Nothing happens to the node that is added: the job there ends after its hour.
    both = [(away + H + away + 2 * H) / 2, (H + away + H) / 2]
    assert times(node_events=True, changes=[more]) == both


@pytest.mark.parametrize(
    "fields", [{"placement": "nodes"}, {"source": "made_up"}, {"virtual_cluster": "red"}]
)
def test_node_events_need_the_history_and_the_cells_of_the_whole_cluster(fields):
    make_vc("red", quotas={"A100": 8})
    asked = {**WINDOW, "policies": ["fifo"], "node_events": True, **fields}
    answer = Api(make_user("root", admin=True)).post("/simulations", asked)
    assert refusal(answer) == (400, "invalid")
    assert "It goes with history, cells and the whole cluster." in answer.content.decode()
