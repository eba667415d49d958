"""Alerts of rules act until it is done, reach all nodes, and are closed with their rule."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.alert_rules import idle_job, locked_elsewhere, rule, sent, sicken
from tests.support.platform_factories import make_node, make_user, make_vc

from skep_platform.cluster import checks
from skep_platform.cluster import services as cluster
from skep_platform.cluster.models import Device, Node, NodeState
from skep_platform.operations import conditions, rules
from skep_platform.operations.doctor.network import Certificate
from skep_platform.operations.models import Alert, AlertRule

NO_OTHER = "It was not cordoned, as no other node could take work."


@pytest.fixture(autouse=True)
def no_other_rules(request: pytest.FixtureRequest) -> None:
    transactional = request.node.get_closest_marker("django_db").kwargs.get("transaction")
    request.getfixturevalue("transactional_db" if transactional else "db")
    AlertRule.objects.all().delete()


def acted() -> dict[str, str]:
    return {alert.subject: alert.acted for alert in Alert.objects.filter(ended_at=None)}


def cordoned() -> set[str]:
    return set(Node.objects.filter(cordoned=True).values_list("name", flat=True))


@pytest.mark.django_db(transaction=True)
def test_a_node_that_is_not_cordoned_is_not_locked():
    """But one that can take work instead of those that are."""
    nodes = [make_node(name) for name in ("a", "b", "c", "d")]
    for node in nodes[:2]:
        sicken(node)
    rule("bad_node", action="cordon")
    with locked_elsewhere(nodes[3]):
        rules.evaluate()
    assert acted() == dict.fromkeys(("a", "b"), "The node was cordoned.")


@pytest.mark.django_db(transaction=True)
def test_an_action_that_meets_a_lock_of_another_is_done_at_the_next_evaluation():
    boss, nodes = make_user("boss", admin=True), [make_node(name) for name in ("a", "b")]
    sicken(nodes[0])
    rule("bad_node", action="cordon")
    with locked_elsewhere(nodes[0]):
        rules.evaluate()
        assert acted()["a"].startswith("The action cordon failed, and is tried again: ")
    assert cordoned() == set()
    for _ in range(2):
        rules.evaluate()
    assert cordoned() == {"a"}
    assert acted() == {"a": "The node was cordoned."}
    first, second = sent(boss)
    assert first.startswith("1 GPUs of node a are bad. The action cordon failed")
    assert second == "1 GPUs of node a are bad. The node was cordoned."


@pytest.mark.django_db(transaction=True)
def test_a_job_that_another_transaction_holds_is_stopped_at_the_next_evaluation():
    alice = make_user("alice")
    job = idle_job(alice, make_vc("research", quotas={"A100": 8}, members=[alice]))
    rule("idle_gpus", for_minutes=10, action="stop")
    with locked_elsewhere(job):
        rules.evaluate()
    job.refresh_from_db()
    assert job.stop_requested_at is None
    rules.evaluate()
    job.refresh_from_db()
    assert job.stop_requested_at is not None
    assert acted() == {str(job.pk): "The job was stopped."}


@pytest.mark.django_db
def test_nodes_to_cordon_are_locked_at_once():
    for name in ("a", "b", "c"):
        sicken(make_node(name))
    make_node("d")
    rule("bad_node", action="cordon")
    with CaptureQueriesContext(
        connection,
    ) as queries:
        rules.evaluate()
    first = [
        q["sql"] for q in queries if "NO KEY UPDATE" in q["sql"] and "cluster_node" in q["sql"]
    ]
    assert "ORDER BY" in first[0]
    assert all(f"'{name}'" in first[0] for name in ("a", "b", "c"))
    assert cordoned() == {"a", "b", "c"}


@pytest.mark.django_db
def test_the_last_node_is_cordoned_as_soon_as_another_one_can_take_work():
    boss = make_user("boss", admin=True)
    sicken(make_node("a"))
    rule("bad_node", action="cordon")
    for _ in range(2):
        rules.evaluate()
    assert (acted(), cordoned()) == ({"a": NO_OTHER}, set())
    make_node("b")
    for _ in range(2):
        rules.evaluate()
    assert (acted(), cordoned()) == ({"a": "The node was cordoned."}, {"a"})
    assert sent(boss) == [
        f"1 GPUs of node a are bad. {NO_OTHER}",
        "1 GPUs of node a are bad. The node was cordoned.",
    ]


@pytest.mark.django_db
def test_a_node_that_an_admin_uses_again_is_not_cordoned_twice():
    sicken(make_node("a"))
    make_node("b")
    rule("bad_node", action="cordon")
    rules.evaluate()
    Node.objects.update(cordoned=False)
    rules.evaluate()
    assert cordoned() == set()


@pytest.mark.django_db
def test_another_action_of_a_rule_is_done_for_the_alerts_that_are_open():
    boss = make_user("boss", admin=True)
    sicken(make_node("a"))
    make_node("b")
    made = rule("bad_node")
    rules.evaluate()
    rules.update(made.pk, action="cordon")
    for _ in range(2):
        rules.evaluate()
    assert cordoned() == {"a"}
    assert sent(boss)[1:] == ["1 GPUs of node a are bad. The node was cordoned."]
    rules.update(made.pk, action="notify")
    rules.evaluate()
    assert len(sent(boss)) == 2
    assert acted() == {"a": "The node was cordoned."}


@pytest.mark.django_db
def test_all_nodes_are_reached_some_at_each_evaluation(monkeypatch):
    monkeypatch.setattr(rules, "MOST", 2)
    for name in ("a", "b", "c", "d", "e"):
        sicken(make_node(name))
    make_node("z")
    rule("bad_node", action="cordon")
    for most in (2, 4, 5):
        rules.evaluate()
        assert len(cordoned()) == most


@pytest.mark.django_db
def test_an_alert_is_not_over_because_others_come_before_it(monkeypatch):
    monkeypatch.setattr(rules, "MOST", 2)
    for name in ("x", "y"):
        sicken(make_node(name))
    rule("bad_node")
    rules.evaluate()
    for name in ("a", "b"):
        sicken(make_node(name))
    rules.evaluate()
    assert acted().keys() == {"a", "b", "x", "y"}
    assert not Alert.objects.exclude(ended_at=None).exists()


@pytest.mark.django_db
def test_actions_that_fail_again_and_again_hold_up_no_others(monkeypatch):
    """The last node in use cannot be cordoned, and another one keeps the reason that it has."""
    monkeypatch.setattr(rules, "MOST", 1)
    sicken(make_node("a"))
    sicken(make_node("b"))
    Node.objects.filter(name="b").update(cordoned=True, cordon_reason="RMA 7")
    rule("bad_node", action="cordon")
    rules.evaluate()
    assert acted()["a"] == NO_OTHER
    rules.evaluate()
    assert acted()["b"] == "The node was cordoned before."
    assert Node.objects.get(name="b").cordon_reason == "RMA 7"


@pytest.mark.django_db
def test_a_node_is_cordoned_by_its_alert_when_it_has_passed_its_checks():
    sick = make_node("a")
    sicken(sick)
    make_node("b")
    checks.require(sick, 1, "joined")
    rule("bad_node", action="cordon")
    rules.evaluate()
    assert acted() == {"a": "The node was cordoned before."}
    checks._release(sick)
    rules.evaluate()
    assert acted() == {"a": "The node was cordoned."}
    assert Node.objects.get(name="a").cordon_reason.startswith("Rule bad_node: ")


@pytest.mark.django_db
def test_a_node_that_an_admin_uncordons_stays_in_use_while_its_alert_is_open():
    sicken(make_node("a"))
    make_node("b")
    cluster.cordon(None, "a", "RMA 7")
    rule("bad_node", action="cordon")
    rules.evaluate()
    cluster.uncordon(None, "a")
    rules.evaluate()
    assert acted() == {"a": "The node was cordoned before."}
    assert not Node.objects.get(name="a").cordoned


@pytest.mark.django_db
def test_very_many_alerts_that_are_over_end_a_bounded_number_at_a_time(monkeypatch):
    monkeypatch.setattr(rules, "MOST", 2)
    nodes = [make_node(name) for name in "abcde"]
    for node in nodes:
        sicken(node)
    rule("bad_node")
    for _ in range(3):
        rules.evaluate()
    assert Alert.objects.filter(ended_at=None, fired_at__isnull=False).count() == 5
    Node.objects.update(state=NodeState.REMOVED)
    left = []
    for _ in range(3):
        rules.evaluate()
        left.append(Alert.objects.filter(ended_at=None).count())
    assert left == [3, 1, 0]


@pytest.mark.django_db
def test_an_alert_fires_after_its_minutes_when_a_clock_was_set_back():
    rule("bad_node", for_minutes=5)
    sicken(make_node("a"))
    rules.evaluate()
    Alert.objects.update(created_at=timezone.now() + timedelta(hours=1))
    rules.evaluate()
    alert = Alert.objects.get()
    assert alert.created_at <= timezone.now()
    assert alert.fired_at is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"threshold": 2}, "changed"),
        ({"for_minutes": 5}, "changed"),
        ({"enabled": False}, "disabled"),
    ],
)
def test_recipients_learn_that_an_alert_is_over_as_its_rule_was_changed(changes, word):
    boss, other = make_user("boss", admin=True), make_user("other")
    sicken(make_node("a"))
    made = rule("bad_node", recipients=["boss"])
    rules.evaluate()
    rules.update(made.pk, recipients=["other"], **changes)
    assert sent(boss)[1:] == [f"Over, as the rule was {word}: 1 GPUs of node a are bad."]
    assert sent(other) == []
    assert Alert.objects.get().ended_at is not None


@pytest.mark.django_db
def test_alerts_go_on_where_a_rule_looks_for_the_same_as_before():
    boss = make_user("boss", admin=True)
    sicken(make_node("a"))
    made = rule("bad_node")
    rules.evaluate()
    rules.update(made.pk, threshold=made.threshold, name="sick nodes")
    rules.evaluate()
    assert len(sent(boss)) == 1
    assert Alert.objects.get().ended_at is None


@pytest.mark.django_db
def test_recipients_learn_that_an_alert_is_over_as_its_rule_was_deleted():
    boss = make_user("boss", admin=True)
    sicken(make_node("a"))
    made = rule("bad_node")
    rules.evaluate()
    rules.delete(made.pk)
    assert sent(boss)[1:] == ["Over, as the rule was deleted: 1 GPUs of node a are bad."]


@pytest.mark.django_db
def test_what_did_not_fire_is_forgotten_with_the_rule_and_notifies_no_one():
    boss = make_user("boss", admin=True)
    sicken(make_node("a"))
    made = rule("bad_node", for_minutes=5)
    rules.evaluate()
    rules.update(made.pk, threshold=2)
    assert (sent(boss), Alert.objects.count()) == ([], 0)


@pytest.mark.django_db
def test_alerts_that_stay_the_same_are_not_written():
    for number in range(3):
        sicken(make_node(f"n{number}"))
    rule("bad_node")
    rules.evaluate()
    with CaptureQueriesContext(connection) as queries:
        rules.evaluate()
    assert not [q for q in queries if 'UPDATE "operations_alert"' in q["sql"]]
    Device.objects.filter(index=1).update(health="BAD")
    rules.evaluate()
    assert {alert.message[:6] for alert in Alert.objects.all()} == {"2 GPUs"}


@pytest.mark.django_db(transaction=True)
def test_a_rule_whose_connection_ends_keeps_no_other_one_from_being_evaluated(monkeypatch):
    def end() -> list[Certificate]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        return []

    monkeypatch.setattr(conditions.network, "certificates", end)
    cache.delete(conditions.CERTIFICATES_KEY)
    rule("certificate")
    rule("bad_node")
    sicken(make_node("a"))
    with pytest.raises(OperationalError):
        rules.evaluate()
    assert acted() == {"a": ""}
