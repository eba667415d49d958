"""Join tokens: listed, revoked, and what they may not take over."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db.models.functions import Now
from django.utils import timezone
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_node, make_user

from skep_platform.cluster import faults, services
from skep_platform.cluster.models import JoinToken, Node, NodeFault, NodeState

pytestmark = pytest.mark.django_db


def join(token: str, name: str, instance_id: str = "elsewhere"):
    body = {"token": token, "name": name, "instance_id": instance_id}
    return Api().post("/nodes/join", body)


def new_token(admin: Api, **body: object) -> str:
    return admin.post("/nodes/join-tokens", body).json()["token"]


@pytest.fixture
def lost() -> Node:
    node = make_node("alpha", gpus=1)
    Node.objects.filter(pk=node.pk).update(lease_expires_at=Now() - timedelta(seconds=1))
    assert services.expire_leases() == [node.pk]
    return node


def test_finding_s15_living_tokens_are_listed_without_their_secrets(admin):
    secrets = [new_token(admin, nodes=3), new_token(admin, node="gpu-7"), new_token(admin)]
    used, expired = new_token(admin), new_token(admin)
    assert join(used, "beta").status_code == 201
    newest = JoinToken.objects.order_by("-created_at").first()
    JoinToken.objects.filter(pk=newest.pk).update(expires_at=Now())
    answer = admin.get("/nodes/join-tokens")
    rows = answer.json()["results"]
    assert [(row["uses_left"], row["node"]) for row in rows] == [(1, ""), (1, "gpu-7"), (3, "")]
    assert {row["created_by"] for row in rows} == {"root"}
    assert all(row["expires_at"] > row["created_at"] for row in rows)
    text = answer.content.decode()
    assert not any(secret in text for secret in [*secrets, used, expired])
    assert not any(row.token_hash in text for row in JoinToken.objects.all())


def test_25_finding_s15_a_revoked_token_lets_no_one_in(admin):
    token = new_token(admin, nodes=5)
    assert join(token, "beta").status_code == 201
    [row] = admin.get("/nodes/join-tokens").json()["results"]
    assert admin.delete(f"/nodes/join-tokens/{row['id']}").status_code == 204
    assert refusal(join(token, "gamma")) == (403, "join_token_invalid")
    assert admin.get("/nodes/join-tokens").json()["results"] == []
    assert admin.delete(f"/nodes/join-tokens/{row['id']}").status_code == 404
    assert admin.get("/nodes/beta").status_code == 200, "who joined stays"


def test_25_finding_s15_a_token_takes_over_no_name_of_a_lost_node(admin, lost):
    credential = lost.credential_hash
    token = new_token(admin, nodes=5)
    assert refusal(join(token, "alpha")) == (409, "rejoin_not_allowed")
    assert refusal(join(token, "alpha", lost.instance_id)) == (409, "rejoin_not_allowed")
    lost.refresh_from_db()
    assert lost.credential_hash == credential
    assert join(token, "beta").status_code == 201, "the token is not used up by a refusal"


def test_finding_s15_a_token_for_that_name_takes_it_over_and_no_other(admin, lost):
    token = new_token(admin, node="alpha")
    assert refusal(join(token, "beta")) == (403, "join_token_for_another")
    assert join(token, "alpha").json()["node_id"] == str(lost.pk)
    assert join(token, "alpha").json()["node_id"] == str(lost.pk), "its answer was lost"
    assert refusal(join(token, "alpha", "a third")) == (403, "join_token_invalid"), "once"


def test_finding_s15_a_name_that_just_joined_is_only_for_the_agent_that_tries_again(admin):
    token = new_token(admin, nodes=5)
    assert join(token, "beta", "its-own").status_code == 201
    assert refusal(join(token, "beta", "a thief")) == (409, "rejoin_not_allowed")
    assert join(token, "beta", "its-own").status_code == 201, "its answer was lost"


def test_who_asks_once_more_after_a_lost_answer_uses_no_token_up(admin):
    token = new_token(admin, nodes=2)
    answers = [join(token, "alpha", "its-own").json() for _ in range(3)]
    assert len({answer["node_id"] for answer in answers}) == 1
    known = [services.authenticate_node(answer["credential"]) for answer in answers]
    assert [node is not None for node in known] == [False, False, True], "the last one counts"
    assert join(token, "beta", "another").status_code == 201
    assert refusal(join(token, "gamma", "a third")) == (403, "join_token_invalid")
    assert join(token, "beta", "another").status_code == 201, "of a token that is used up, too"


def test_a_token_that_did_not_let_a_node_in_is_used_up_by_it(admin):
    join(new_token(admin), "alpha", "its-own")
    other = new_token(admin)
    assert join(other, "alpha", "its-own").status_code == 201
    assert refusal(join(other, "beta", "another")) == (403, "join_token_invalid")


def test_a_revoked_token_lets_no_one_ask_once_more(admin):
    token = new_token(admin, nodes=2)
    join(token, "alpha", "its-own")
    [row] = admin.get("/nodes/join-tokens").json()["results"]
    admin.delete(f"/nodes/join-tokens/{row['id']}")
    assert refusal(join(token, "alpha", "its-own")) == (403, "join_token_invalid")


def test_a_token_that_is_used_up_can_be_revoked(admin):
    """Its node may join again with it."""
    token = new_token(admin)
    [row] = admin.get("/nodes/join-tokens").json()["results"]
    assert join(token, "alpha", "its-own").status_code == 201
    assert admin.delete(f"/nodes/join-tokens/{row['id']}").status_code == 204
    assert refusal(join(token, "alpha", "its-own")) == (403, "join_token_invalid")


def test_a_machine_in_the_place_of_a_lost_one_does_not_answer_for_its_faults(admin, lost):
    make_node("beta")
    at = timezone.now()
    faults.add(
        NodeFault(
            node=lost, at=at - number * faults.EVENT, code=1, name="x",
            attempt_id=uuid4(), witness=uuid4(),
        )
        for number in range(1, 4)
    )  # fmt: skip
    token = new_token(admin, node="alpha")
    assert join(token, "alpha", "another machine").status_code == 201
    Node.objects.filter(pk=lost.pk).update(state=NodeState.ONLINE)
    assert faults.cordon_faulty() == []
    assert admin.get("/nodes/alpha").json()["faults_24h"] == 3, "they are shown as before"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"node": "../etc"}, "name_invalid"),
        ({"node": "join"}, "name_invalid"),
        ({"node": "a", "nodes": 2}, "invalid"),
        ({"expires_in_s": 30 * 86400 + 1}, "ttl_invalid"),
    ],
)
def test_finding_s15_a_token_that_makes_no_sense_is_refused(admin, body, code):
    assert refusal(admin.post("/nodes/join-tokens", body)) == (400, code)


def test_finding_s15_only_admins_see_and_revoke(admin):
    new_token(admin)
    [row] = admin.get("/nodes/join-tokens").json()["results"]
    alice = Api(make_user("alice"))
    assert alice.get("/nodes/join-tokens").status_code == 403
    assert alice.delete(f"/nodes/join-tokens/{row['id']}").status_code == 403


def test_finding_c4_joining_costs_a_fixed_few_statements_however_many_nodes_there_are(
    admin, django_assert_max_num_queries
):
    token = new_token(admin, nodes=50)
    for number in range(30):
        assert join(token, f"node-{number}").status_code == 201
    with django_assert_max_num_queries(10):
        assert join(token, "one-more").status_code == 201
