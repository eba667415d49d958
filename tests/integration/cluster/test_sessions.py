"""Sessions of nodes: joining, the lease, fencing and what expires."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from tests.support.platform_api import Api
from tests.support.platform_factories import (
    join_node,
    make_gpus,
    make_hello,
    make_inventory,
    make_job,
    make_node,
    make_user,
    make_vc,
    place,
    release,
)

from skep_platform.cluster import services
from skep_platform.cluster.models import JoinToken, Node, NodeState
from skep_platform.cluster.tasks import reconcile
from skep_platform.core.errors import Conflict, Forbidden, SkepError
from skep_platform.core.models import Event
from skep_platform.jobs.models import Job

pytestmark = pytest.mark.django_db


def reopen(node: Node, instance_id: str = "") -> Node:
    hello = make_hello(instance_id or node.instance_id, make_inventory())
    return services.open_session(node.pk, hello.instance_id, hello)


def lapse(node: Node) -> None:
    """The node's lease ran out a second ago."""
    Node.objects.filter(pk=node.pk).update(lease_expires_at=Now() - timedelta(seconds=1))


def kinds(node: Node) -> list[str]:
    rows = Event.objects.filter(subject_type="node", subject_id=str(node.pk)).order_by("id")
    return list(rows.values_list("kind", flat=True))


def test_join_token_lets_exactly_one_node_in():
    token = services.create_join_token(None, 60)
    node, credential = services.join_node(token, "alpha", "i1")
    assert services.authenticate_node(credential) == node
    with pytest.raises(Forbidden) as caught:
        services.join_node(token, "beta", "i2")
    assert caught.value.code == "join_token_invalid"


def test_join_token_for_three_lets_three_nodes_in():
    _, token = services.issue_join_token(None, 60, nodes=3)
    for name in ("alpha", "beta", "gamma"):
        services.join_node(token, name, name)
    with pytest.raises(Forbidden) as caught:
        services.join_node(token, "delta", "delta")
    assert caught.value.code == "join_token_invalid"


@pytest.mark.parametrize("token", ["", "skj_nonsense", "\udcff", "x" * 5000])
def test_unknown_join_token_is_refused(token):
    with pytest.raises(Forbidden):
        services.join_node(token, "alpha", "i1")


def test_expired_join_token_is_refused():
    token = services.create_join_token(None, 60)
    JoinToken.objects.update(expires_at=Now() - timedelta(seconds=1))
    with pytest.raises(Forbidden):
        services.join_node(token, "alpha", "i1")


def test_secrets_are_stored_only_as_hashes():
    token = services.create_join_token(None, 60)
    _, credential = services.join_node(token, "alpha", "i1")
    rows = [str(JoinToken.objects.values().get()), str(Node.objects.values().get())]
    rows += [str(list(Event.objects.values()))]
    assert not any(secret in row for row in rows for secret in (token, credential))


@pytest.mark.parametrize("name", ["", "../etc", "a b", "x" * 64, "-x", "é"])
def test_node_name_must_be_plain(name):
    token = services.create_join_token(None, 60)
    with pytest.raises(SkepError) as caught:
        services.join_node(token, name, "i1")
    assert caught.value.code == "name_invalid"


@pytest.mark.parametrize("ttl", [0, -1, timedelta(days=31)])
def test_finding_s15_join_token_lives_at_most_thirty_days(ttl):
    with pytest.raises(SkepError) as caught:
        services.create_join_token(None, ttl)
    assert caught.value.code == "ttl_invalid"


def test_name_of_a_living_node_cannot_be_taken():
    node = make_node("alpha")
    with pytest.raises(Conflict) as caught:
        join_node("alpha")
    assert caught.value.code == "node_name_taken"
    services.close_session(node.pk, node.session_epoch)
    with pytest.raises(Conflict):
        join_node("alpha")


def test_refused_join_leaves_the_token_usable():
    make_node("alpha")
    token = services.create_join_token(None, 60)
    with pytest.raises(Conflict):
        services.join_node(token, "alpha", "i2")
    node, _ = services.join_node(token, "beta", "i2")
    assert node.name == "beta"


def test_lost_node_may_join_again_and_its_old_credential_dies():
    node, old = join_node("alpha")
    again, new = join_node("alpha")
    assert again.pk == node.pk
    assert services.authenticate_node(old) is None
    assert services.authenticate_node(new) == node


def test_removed_name_is_free_again():
    node = make_node("alpha", gpus=0)
    services.remove_node(None, "alpha")
    again = make_node("alpha", gpus=0)
    assert again.pk != node.pk


def test_wrong_credentials_name_no_node():
    join_node()
    assert [services.authenticate_node(c) for c in ("", "skn_x", "\udcff")] == [None] * 3


def test_open_session_starts_the_lease():
    node, _ = join_node("alpha")
    node = reopen(node)
    assert node.state == NodeState.ONLINE
    assert node.connected
    assert node.lease_expires_at - node.last_heartbeat_at == services.lease()
    assert kinds(node) == ["node.joined", "node.online"]


def test_same_instance_replaces_its_older_session():
    node = make_node()
    newer = reopen(node)
    assert newer.session_epoch > node.session_epoch
    with pytest.raises(Conflict) as caught:
        services.heartbeat(node.pk, node.session_epoch)
    assert caught.value.code == "session_fenced"
    services.heartbeat(node.pk, newer.session_epoch)


def test_second_agent_is_refused_while_the_first_is_alive():
    node = make_node()
    with pytest.raises(Conflict) as caught:
        reopen(node, "other-machine")
    assert caught.value.code == "agent_duplicate"
    services.heartbeat(node.pk, node.session_epoch)


def test_other_instance_may_follow_once_the_first_is_silent_or_gone():
    silent = make_node()
    Node.objects.filter(pk=silent.pk).update(last_heartbeat_at=Now() - timedelta(hours=1))
    assert reopen(silent, "other").instance_id == "other"
    closed = make_node()
    services.close_session(closed.pk, closed.session_epoch)
    assert reopen(closed, "other").state == NodeState.ONLINE


def test_heartbeat_renews_the_lease_in_one_query(django_assert_num_queries):
    node = make_node()
    services.bump_revision([node.pk])
    lapse(node)
    with django_assert_num_queries(1):
        revision = services.heartbeat(node.pk, node.session_epoch)
    assert revision == node.desired_revision + 1
    assert services.expire_leases() == []


@pytest.mark.parametrize("epoch", [0, 99])
def test_heartbeat_of_another_session_is_fenced(epoch):
    node = make_node()
    with pytest.raises(Conflict):
        services.heartbeat(node.pk, epoch)
    with pytest.raises(Conflict):
        services.heartbeat(uuid4(), node.session_epoch)


def test_closed_session_leaves_the_node_unreachable_until_its_lease_is_over():
    node = make_node()
    services.close_session(node.pk, node.session_epoch)
    node.refresh_from_db()
    assert (node.state, node.connected) == (NodeState.UNREACHABLE, False)
    assert services.expire_leases() == []
    lapse(node)
    assert services.expire_leases() == [node.pk]


def test_closing_an_older_session_changes_nothing():
    node = make_node()
    newer = reopen(node)
    services.close_session(node.pk, node.session_epoch)
    newer.refresh_from_db()
    assert (newer.state, newer.connected) == (NodeState.ONLINE, True)


def test_expired_lease_loses_the_node_once():
    node, other = make_node(), make_node()
    lapse(node)
    reconcile()
    reconcile()
    node.refresh_from_db()
    assert (node.state, node.connected) == (NodeState.LOST, False)
    assert kinds(node)[-1] == "node.lost"
    assert kinds(node).count("node.lost") == 1
    other.refresh_from_db()
    assert other.state == NodeState.ONLINE


def test_lost_node_is_fenced_until_it_says_hello_again():
    node = make_node()
    lapse(node)
    services.expire_leases()
    with pytest.raises(Conflict):
        services.heartbeat(node.pk, node.session_epoch)
    assert reopen(node).state == NodeState.ONLINE


def test_removed_node_cannot_come_back():
    node, credential = join_node("alpha")
    node = reopen(node)
    services.remove_node(None, "alpha")
    assert services.authenticate_node(credential) is None
    with pytest.raises(Conflict):
        services.heartbeat(node.pk, node.session_epoch)
    with pytest.raises(Conflict) as caught:
        reopen(node)
    assert caught.value.code == "node_removed"


def test_node_with_a_living_attempt_cannot_be_removed():
    user = make_user()
    node = make_node("alpha")
    attempt = place(make_job(make_vc(), user), [node.devices.first()])
    with pytest.raises(Conflict) as caught:
        services.remove_node(user, "alpha")
    assert (caught.value.code, caught.value.details) == ("node_busy", {"attempts": 1})
    release(attempt)
    services.remove_node(user, "alpha")


def test_cordon_says_who_did_it_and_only_once():
    admin = make_user("root", admin=True)
    node = make_node("alpha")
    assert services.cordon(admin, "alpha").cordoned
    services.cordon(admin, "alpha")
    assert not services.uncordon(admin, "alpha").cordoned
    events = Event.objects.filter(subject_id=str(node.pk), actor="root").order_by("id")
    assert list(events.values_list("kind", flat=True)) == ["node.cordoned", "node.uncordoned"]


def test_bump_revision_counts_each_node_once():
    a, b = make_node(), make_node()
    services.bump_revision([a.pk, b.pk, a.pk, uuid4()])
    for node in (a, b):
        node.refresh_from_db()
        assert node.desired_revision == 1


def test_finding_u2_a_gpu_that_fails_under_a_job_is_reported_on_the_jobs_page_and_in_its_history():
    node = make_node("gpu-1", gpus=2)
    alice = make_user("alice")
    job = make_job(make_vc("vision", members=[alice]), alice, gpus=1)
    gpu = node.devices.order_by("index")[0]
    place(job, [gpu], node=node, state="RUNNING")
    Job.objects.filter(pk=job.pk).update(state="RUNNING", placed_at=Now())
    gpus = make_gpus("gpu-1", 2)

    def report(**broken: object) -> None:
        found = [gpus[0].model_copy(update=broken), gpus[1]]
        services.update_inventory(node.pk, node.session_epoch, make_inventory(found))

    report(healthy=False, problem="XID 79: fallen off the bus")
    page = Api(alice).get(f"/jobs/{job.pk}").json()
    (bad,) = page["bad_gpus"]
    assert (bad["node"], bad["uuid"]) == ("gpu-1", gpu.uuid)
    assert "XID 79" in bad["problem"]
    report()
    history = Event.objects.filter(subject_id=str(job.pk)).order_by("pk")
    assert [e.kind for e in history][-2:] == ["job.gpu_failed", "job.gpu_recovered"]
    assert "XID 79" in history.get(kind="job.gpu_failed").message
    assert Api(alice).get(f"/jobs/{job.pk}").json()["bad_gpus"] == []
