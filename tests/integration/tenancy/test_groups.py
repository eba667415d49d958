"""Groups of users, and the roles in virtual clusters that they give."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase
from tests.support.examples import examples
from tests.support.jobs_world import job_file, state_of, submit
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform.accounts import groups
from skep_platform.accounts.models import Group, GroupMember, User
from skep_platform.core.errors import Conflict, NotFound
from skep_platform.core.models import Event
from skep_platform.tenancy import memberships
from skep_platform.tenancy.models import Membership, Role, RoleGrant, VirtualCluster

pytestmark = pytest.mark.django_db


@pytest.fixture
def research(admin) -> str:
    assert admin.post("/groups", {"name": "research"}).status_code == 201
    return "research"


def roles(vc: str) -> dict[str, str]:
    rows = Membership.objects.filter(vc__name=vc)
    return dict(rows.values_list("user__username", "role"))


def test_the_users_of_a_group_have_its_role_from_joining_to_leaving(admin, research):
    make_vc("vision")
    make_user("mei")
    admin.put("/virtual-clusters/vision/groups/research", {"role": "viewer"})
    assert roles("vision") == {}
    admin.put("/groups/research/members/mei")
    assert roles("vision") == {"mei": "viewer"}
    admin.put("/virtual-clusters/vision/groups/research", {"role": "member"})
    (shown,) = admin.get("/virtual-clusters/vision/members").json()["results"]
    assert shown == {
        "username": "mei",
        "role": "member",
        "own_role": None,
        "groups": ["research"],
    }
    assert admin.delete("/groups/research/members/mei").status_code == 204
    assert roles("vision") == {}


def test_the_highest_role_counts_and_each_source_is_shown(admin, research):
    vc = make_vc("vision", vc_admins=[make_user("omar")], members=[make_user("mei")])
    admin.put("/groups/research/members/mei")
    admin.put(f"/virtual-clusters/{vc.name}/groups/research", {"role": "admin"})
    assert roles("vision") == {"omar": "admin", "mei": "admin"}
    shown = {
        m["username"]: m for m in admin.get("/virtual-clusters/vision/members").json()["results"]
    }
    assert (shown["mei"]["own_role"], shown["mei"]["groups"]) == ("member", ["research"])
    assert admin.delete("/virtual-clusters/vision/groups/research").status_code == 204
    assert roles("vision") == {"omar": "admin", "mei": "member"}


def test_who_leaves_a_group_loses_the_jobs_that_only_it_allowed(admin, research, alice):
    other = make_vc("other", members=[alice])
    vc = make_vc("shared")
    admin.put("/groups/research/members/alice")
    admin.put("/virtual-clusters/shared/groups/research", {})
    here, there = (submit(alice, place, priority="oppo") for place in (vc, other))
    assert admin.delete("/groups/research").status_code == 204
    assert (state_of(here), state_of(there)) == ("STOPPED", "WAITING")


def test_who_is_a_member_by_a_group_is_removed_there(admin, research):
    make_vc("vision")
    make_user("mei")
    admin.put("/groups/research/members/mei")
    admin.put("/virtual-clusters/vision/groups/research", {})
    answer = admin.delete("/virtual-clusters/vision/members/mei")
    assert refusal(answer) == (409, "member_by_group")
    assert answer.json()["details"]["groups"] == ["research"]
    assert roles("vision") == {"mei": "member"}


def test_the_last_vc_admins_by_a_group_go_only_when_that_is_confirmed(admin, research):
    make_vc("vision", members=[make_user("ann")])
    make_user("mei")
    admin.put("/groups/research/members/mei")
    path = "/virtual-clusters/vision/groups/research"
    admin.put(path, {"role": "admin"})
    assert refusal(admin.put(path, {"role": "member"})) == (409, "last_vc_admin")
    assert refusal(admin.delete(path)) == (409, "last_vc_admin")
    assert roles("vision")["mei"] == "admin"
    assert admin.delete(f"{path}?confirm=1").status_code == 204


def test_a_viewer_sees_and_does_not_submit(alice):
    vc = make_vc("vision", viewers=[alice])
    api = Api(alice)
    assert api.get("/virtual-clusters/vision").json()["role"] == "viewer"
    (error,) = api.post("/jobs/check", job_file("vision", priority="oppo")).json()["errors"]
    assert error["code"] == "role_too_small"
    assert refusal(api.post("/jobs", job_file("vision", priority="oppo"))) == (
        400,
        "role_too_small",
    )
    memberships.set_member(None, vc, "alice", Role.MEMBER)
    job = submit(alice, vc, priority="oppo")
    memberships.set_member(None, vc, "alice", Role.VIEWER)
    assert state_of(job) == "STOPPED"


def test_manager_is_still_taken_for_admin(admin):
    make_vc("vision")
    make_user("mei")
    answer = admin.put("/virtual-clusters/vision/members/mei", {"role": "manager"})
    assert answer.json()["role"] == "admin"


@pytest.mark.parametrize(
    ("method", "path", "body", "expected"),
    [
        ("POST", "/groups", {"name": "research"}, (409, "name_taken")),
        ("POST", "/groups", {"name": "../x"}, (400, "name_invalid")),
        ("POST", "/groups", {"name": "a" * 64}, (400, "invalid")),
        ("POST", "/groups", {"name": "b", "external_name": "idp-r"}, (409, "external_name_taken")),
        ("PATCH", "/groups/research", {"name": ""}, (400, "invalid")),
        ("PATCH", "/groups/research", {"members": 3}, (400, "invalid")),
        ("PUT", "/groups/research/members/nobody", None, (404, "not_found")),
        ("PUT", "/groups/none/members/root", None, (404, "not_found")),
        ("DELETE", "/groups/research/members/root", None, (404, "not_found")),
        ("PUT", "/virtual-clusters/vision/groups/none", {}, (404, "not_found")),
        ("PUT", "/virtual-clusters/vision/groups/research", {"role": "owner"}, (400, "invalid")),
        ("DELETE", "/virtual-clusters/vision/groups/research", None, (404, "not_found")),
    ],
)
def test_bad_input_is_refused_with_a_code(admin, research, method, path, body, expected):
    make_vc("vision")
    admin.patch("/groups/research", {"external_name": "idp-r"})
    before = Event.objects.count()
    assert refusal(admin.send(method, path, body)) == expected
    assert Event.objects.count() == before


def test_the_identity_provider_adds_and_removes_only_what_it_added(admin, research):
    mei = make_user("mei")
    admin.patch("/groups/research", {"external_name": "idp-research"})
    admin.post("/groups", {"name": "ops", "external_name": "idp-ops"})
    admin.put("/groups/ops/members/mei")
    groups.set_external(mei, ["idp-research", "idp-ops", "unknown", ""])
    assert groups.names_of(mei) == ["ops", "research"]
    groups.set_external(mei, [])
    assert groups.names_of(mei) == ["ops"]


def test_a_large_group_is_granted_in_a_constant_number_of_statements(
    admin, research, django_assert_max_num_queries
):
    vc = make_vc("vision")
    users = User.objects.bulk_create(User(username=f"u{i}") for i in range(300))
    group = Group.objects.get()
    GroupMember.objects.bulk_create(GroupMember(group=group, user=user) for user in users)
    with django_assert_max_num_queries(25):
        memberships.set_group(None, vc, "research", Role.MEMBER)
    assert Membership.objects.filter(vc=vc).count() == 300


NAMES = ("a", "b", "c")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("member"), *(st.sampled_from(NAMES),) * 2, st.sampled_from(Role.values)),
        st.tuples(st.just("unmember"), *(st.sampled_from(NAMES),) * 2),
        st.tuples(st.just("group"), *(st.sampled_from(NAMES),) * 2, st.sampled_from(Role.values)),
        st.tuples(st.just("ungroup"), *(st.sampled_from(NAMES),) * 2),
        st.tuples(st.just("join"), *(st.sampled_from(NAMES),) * 2),
        st.tuples(st.just("leave"), *(st.sampled_from(NAMES),) * 2),
        st.tuples(st.just("external"), st.sampled_from(NAMES), st.sets(st.sampled_from(NAMES))),
        st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    ),
    max_size=25,
)


class Derived(TestCase):
    """Memberships are always what the grants and groups say, whatever happened before."""

    def setUp(self) -> None:
        self.vcs = {name: VirtualCluster.objects.create(name=name) for name in NAMES}
        for name in NAMES:
            make_user(name)

    @settings(max_examples=examples(25), deadline=None)
    @given(STEPS)
    def test_a_membership_is_the_highest_of_its_grants(self, steps: list[tuple[Any, ...]]) -> None:
        for name in NAMES:
            Group.objects.create(name=name, external_name=name)
        for step in steps:
            try:
                self.apply(*step)
            except (NotFound, Conflict):
                continue
            assert self.stored() == self.recounted()

    def apply(self, kind: str, *args: Any) -> None:
        first, *rest = args
        if kind == "member":
            memberships.set_member(None, self.vcs[first], *rest, confirm=True)
        elif kind == "unmember":
            memberships.remove_member(None, self.vcs[first], *rest, confirm=True)
        elif kind == "group":
            memberships.set_group(None, self.vcs[first], *rest, confirm=True)
        elif kind == "ungroup":
            memberships.remove_group(None, self.vcs[first], *rest, confirm=True)
        elif kind == "join":
            groups.add_members(None, groups.find(first), rest)
        elif kind == "leave":
            groups.remove_member(None, groups.find(first), *rest)
        elif kind == "external":
            groups.set_external(User.objects.get(username=first), *rest)
        else:
            groups.delete(User.objects.get(username="a"), groups.find(first))

    def stored(self) -> dict[tuple[str, str], str]:
        rows = Membership.objects.values_list("vc__name", "user__username", "role")
        return {(vc, user): role for vc, user, role in rows}

    def recounted(self) -> dict[tuple[str, str], str]:
        ranks: Counter[tuple[str, str]] = Counter()
        for grant in RoleGrant.objects.select_related("vc", "user", "group"):
            users = [grant.user] if grant.user else [m.user for m in grant.group.members.all()]
            for user in users:
                key = (grant.vc.name, user.username)
                ranks[key] = max(ranks[key], 1 + Role.values.index(grant.role))
        return {key: Role.values[rank - 1] for key, rank in ranks.items()}


def test_a_group_that_was_deleted_meanwhile_stays_deleted(admin):
    root = User.objects.get(username="root")
    group = groups.create(root, "bees")
    make_user("ann")
    groups.delete(root, groups.find("bees"))
    for change in (
        lambda: groups.update(root, group, description="Those of the garden"),
        lambda: groups.add_members(root, group, ["ann"]),
    ):
        with pytest.raises(NotFound):
            change()
    assert admin.get("/groups").json()["results"] == []
