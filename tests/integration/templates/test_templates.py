"""Templates: who sees them, stars, what is refused, and those that come with Skep."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from tests.support.at_once import at_once, codes
from tests.support.jobs_world import job_file
from tests.support.platform_api import Api, refusal
from tests.support.platform_factories import make_user, make_vc

import skep_jobfile
from skep_jobfile import compile_job
from skep_platform.core.errors import NotFound
from skep_platform.templates import queries, services, shipping
from skep_platform.templates.models import Template

pytestmark = pytest.mark.django_db

SHIPPED = shipping.shipped()


def text(**changes: Any) -> str:
    return json.dumps({**job_file("vision", name="of-a-template"), **changes})


def publish(api: Api, name: str = "mine", **fields: Any) -> Any:
    body = {"name": name, "title": name.title(), "text": text(), **fields}
    return api.post("/templates", body)


def names(api: Api, **query: Any) -> list[str]:
    answer = api.get("/templates", **query)
    assert answer.status_code == 200, answer.content
    return [one["name"] for one in answer.json()["results"] if not one["shipped"]]


@pytest.fixture
def alice():
    return make_user("alice")


@pytest.fixture
def api(alice):
    make_vc("vision", members=[alice])
    return Api(alice)


def test_a_template_is_published_to_all_and_read_by_another(api):
    made = publish(api, text=text(parameters={"lr": 0.1}), description="How it is done")
    assert made.status_code == 201, made.content
    other = Api(make_user())
    assert made.json()["name"] == "alice.mine"
    assert refusal(other.get("/templates/mine")) == (404, "not_found")  # a name alone is one's own
    found = other.get("/templates/alice.mine").json()
    assert (found["title"], found["owner"], found["virtual_cluster"]) == ("Mine", "alice", None)
    assert found["parameters"] == {"lr": 0.1}
    assert (found["gpus"], found["tasks"]) == (1, 1)
    assert json.loads(found["text"])["name"] == "of-a-template"
    assert not found["may_change"]
    assert "alice.mine" in names(other, search="HOW done")
    assert names(other, search="nothing like it") == []


def test_a_template_of_a_virtual_cluster_is_for_its_members(api, admin):
    assert publish(api, virtual_cluster="vision").status_code == 201
    stranger = Api(make_user())
    assert names(stranger) == []
    assert refusal(stranger.get("/templates/alice.mine")) == (404, "not_found")
    assert refusal(stranger.put("/templates/alice.mine/star")) == (404, "not_found")
    assert names(api) == names(admin) == ["alice.mine"]
    assert refusal(publish(stranger, "x", virtual_cluster="vision")) == (404, "not_found")


def test_a_viewer_publishes_nothing_to_a_virtual_cluster():
    viewer = make_user()
    make_vc("nlp", viewers=[viewer])
    refused = publish(Api(viewer), virtual_cluster="nlp")
    assert refusal(refused) == (403, "may_not_submit")


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"secrets": {"hub": {"token": "hunter2"}}}, "template_has_secrets"),
        (
            {
                "prerequisites": [
                    {
                        "type": "dockerimage",
                        "name": "image",
                        "uri": "registry.example.org/x:1",
                        "auth": {"username": "bot", "password": "hunter2"},
                    }
                ]
            },
            "template_has_secrets",
        ),
        ({"taskRoles": {}}, "invalid_job"),
        ({"colour": "red"}, "invalid_job"),
    ],
)
def test_secrets_and_bad_files_are_refused_and_not_repeated(api, change, code):
    answer = publish(api, text=text(**change))
    assert refusal(answer) == (400, code)
    assert b"hunter2" not in answer.content
    assert not Template.objects.filter(shipped=False).exists()


def test_names_of_secrets_without_values_are_taken(api):
    masked = {"hub": {"token": "******"}}
    assert publish(api, text=text(secrets=masked)).status_code == 201


def yaml_file(secrets: str = "", auth: str = "") -> str:
    return f"""\
protocolVersion: 2
name: x  # its name
type: job
{secrets}
# What runs.
prerequisites:
  - type: dockerimage
    name: image
    uri: registry.example.org/x:1
{auth}
extras: {{virtualCluster: vision}}
taskRoles:
  worker:
    dockerImage: image
    resourcePerInstance: {{cpu: 1, memoryMB: 64, gpu: 0}}  # a remark
    commands: [echo]
"""


@pytest.mark.parametrize(
    "secrets",
    [
        "secrets: {token:hf_abc}",
        "secrets: {hf_abc}",
        "secrets: {hub: {token:hf_abc}}",
        'secrets: {token:hf_abc: ""}',
        'secrets: {token: ""}\n<<: {secrets: {token: hf_abc}}',
        'secrets: {<<: {token: hf_abc}, token: ""}',
        "secrets: {hub: [hf_abc]}",
    ],
)
def test_a_secret_that_is_written_as_a_name_or_shadowed_is_refused(api, secrets):
    answer = publish(api, text=yaml_file(secrets))
    assert refusal(answer) == (400, "template_has_secrets")
    assert b"hf_abc" not in answer.content


@pytest.mark.parametrize(
    "password",
    [
        "hf_abc$secrets",
        '"<% $secrets.token %>hf_abc"',
        '"hf_abc<% $parameters.x %>"',
    ],
)
def test_a_password_that_only_mentions_secrets_is_refused(api, password):
    auth = f"    auth:\n      username: bot\n      password: {password}"
    found = publish(api, text=yaml_file('secrets: {token: ""}\nparameters: {x: 1}', auth))
    assert refusal(found) == (400, "template_has_secrets")


@pytest.mark.parametrize(
    "secrets",
    [
        "secrets:\n  token: # old: hf_abc",
        'secrets:\n  token: "" # hf_abc',
        'secrets:\n  # hf_abc\n  hub:\n    # hf_abc\n    token: "******"\n    # hf_abc',
        'secrets: {token: ""} # hf_abc',
        'secrets: # hf_abc\n  {token: "", # hf_abc\n   other: ""\n}',
        "secrets: {}  # hf_abc",
    ],
)
def test_comments_beside_secrets_are_left_out_and_all_else_stays(api, secrets):
    auth = "    auth:\n      username: bot\n      password: <% $secrets.token %> # hf_abc"
    made = publish(api, text=yaml_file(secrets, auth))
    assert made.status_code == 201, made.content
    shown = api.get("/templates/mine").json()["text"]
    assert "hf_abc" not in json.dumps([made.json(), shown])
    assert "# its name" in shown
    assert "# a remark" in shown
    assert "<% $secrets.token %>" in shown
    assert skep_jobfile.read(shown).data == skep_jobfile.read(yaml_file(secrets, auth)).data


def test_a_file_without_comments_beside_secrets_stays_as_it_is(api):
    text = yaml_file('secrets:\n  hub:\n    token: ""\n  other:').replace("# What runs.", "")
    assert publish(api, text=text).json()["text"] == text


def test_a_name_is_taken_once(api):
    publish(api)
    assert refusal(publish(api)) == (409, "template_name_taken")
    assert refusal(publish(api, "Not a name!")) == (400, "invalid")


def test_templates_of_a_user_are_bounded(api, monkeypatch):
    monkeypatch.setattr(services, "MOST_TEMPLATES", 2)
    assert [publish(api, f"t{n}").status_code for n in range(2)] == [201, 201]
    assert refusal(publish(api, "t3")) == (409, "too_many_templates")


def test_stars_are_counted_once_for_each_user_and_order_the_list(api, admin):
    publish(api, "first")
    publish(api, "second")
    for one in (api, admin):
        for _ in range(2):
            assert one.put("/templates/alice.second/star").json()["starred"]
    assert api.put("/templates/first/star").json()["stars"] == 1
    assert names(api) == ["alice.second", "alice.first"]
    assert names(api, ordering="name") == ["alice.first", "alice.second"]
    assert names(admin, starred="true") == ["alice.second"]
    found = api.delete("/templates/second/star").json()
    assert (found["stars"], found["starred"]) == (1, False)
    assert api.delete("/templates/second/star").json()["stars"] == 1


def test_only_its_owner_and_admins_change_it(api, admin):
    publish(api)
    other = Api(make_user())
    assert refusal(other.patch("/templates/alice.mine", {"title": "x"})) == (403, "may_not_change")
    assert refusal(other.delete("/templates/alice.mine")) == (403, "may_not_change")
    changed = api.patch("/templates/mine", {"title": "Better", "text": text(parameters={"a": 1})})
    assert changed.json()["title"] == "Better"
    assert changed.json()["parameters"] == {"a": 1}
    assert api.delete("/templates/mine").status_code == 204
    assert names(admin) == []


def test_what_an_admin_hid_is_not_published_again_by_its_owner(api, admin):
    publish(api)
    admin.patch("/templates/alice.mine", {"listed": False})
    assert refusal(api.delete("/templates/mine")) == (403, "template_hidden")
    assert refusal(publish(api)) == (409, "template_name_taken")
    assert admin.delete("/templates/alice.mine").status_code == 204
    assert publish(api).status_code == 201


@pytest.mark.parametrize("call", [services.update, services.delete])
def test_a_write_to_a_template_that_was_deleted_meanwhile_is_not_found(api, alice, call):
    publish(api)
    found = queries.find(alice, "mine")
    services.delete(alice, queries.find(alice, "mine"))
    with pytest.raises(NotFound):
        call(alice, found, **({"title": "x"} if call is services.update else {}))


def test_stars_of_a_user_go_with_the_user(api, admin):
    publish(api)
    Api(make_user("zoe")).put("/templates/alice.mine/star")
    api.put("/templates/mine/star")
    assert admin.get("/templates/alice.mine").json()["stars"] == 2
    assert admin.delete("/users/zoe").status_code == 204
    assert admin.get("/templates/alice.mine").json()["stars"] == 1


@pytest.mark.django_db(transaction=True)
def test_stars_of_two_users_at_once_are_both_counted(api, alice):
    users = [alice, *(make_user() for _ in range(5))]
    publish(api)
    found = queries.find(alice, "mine")
    answers = at_once(*(partial(services.star, user, found, on=True) for user in users))
    assert codes(answers) == ["ok"] * len(users)
    assert queries.find(alice, "mine").stars == len(users)


def test_an_admin_hides_a_template(api, admin):
    publish(api)
    assert refusal(api.patch("/templates/mine", {"listed": False})) == (403, "may_not_moderate")
    assert admin.patch("/templates/alice.mine", {"listed": False}).status_code == 200
    assert names(Api(make_user())) == []
    assert names(api) == ["alice.mine"], "its owner sees what happened to it"


def test_the_list_takes_the_same_queries_for_any_number(api):
    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            api.get("/templates", search="t", limit=100)
        return len(captured)

    publish(api, "t0")
    few = queries()
    for n in range(1, 15):
        publish(api, f"t{n}")
    assert queries() == few <= 3


def test_a_name_that_is_taken_says_nothing_of_templates_of_others(api, admin):
    """Names of others are free: also of one that is hidden, or for another virtual cluster."""
    assert publish(api, virtual_cluster="vision").status_code == 201
    admin.patch("/templates/alice.mine", {"listed": False})
    bob = Api(make_user("bob"))
    made = publish(bob)
    assert (made.status_code, made.json()["name"]) == (201, "bob.mine")
    assert refusal(publish(bob)) == (409, "template_name_taken")
    assert bob.get("/templates/mine").json()["owner"] == "bob"
    assert api.get("/templates/mine").json()["owner"] == "alice"
    assert names(bob) == ["bob.mine"]


def test_a_template_may_have_the_name_of_a_shipped_one_and_the_own_comes_first(api, admin):
    assert publish(api, "hello").status_code == 201
    assert api.get("/templates/hello").json()["name"] == "alice.hello"
    shipping.ship()
    assert admin.get("/templates/hello").json()["shipped"]
    assert admin.get("/templates/alice.hello").json()["title"] == "Hello"


def test_a_template_whose_owner_was_deleted_is_found_by_its_id(api, alice, admin):
    publish(api)
    Template.objects.filter(owner=alice).update(owner=None)
    (address,) = names(admin)
    assert refusal(api.get("/templates/alice.mine")) == (404, "not_found")
    assert api.get(f"/templates/{address}").json()["owner"] == ""
    assert publish(api).json()["name"] == "alice.mine"
    assert admin.delete(f"/templates/{address}").status_code == 204


def test_an_unknown_ordering_is_refused(api):
    assert refusal(api.get("/templates", ordering="luck")) == (400, "invalid_filter")


def test_ten_templates_come_with_skep(api):
    rows = api.get("/templates", limit=100).json()["results"]
    found = {one["name"]: one for one in rows if one["shipped"]}
    assert set(found) == set(SHIPPED)
    assert len(found) >= 10
    for one in found.values():
        assert one["title"]
        assert len(one["description"]) > 60
        assert one["owner"] == ""


@pytest.mark.parametrize("name", sorted(SHIPPED))
def test_each_shipped_template_is_a_job(name):
    compiled = compile_job(shipping.body(SHIPPED[name]))
    assert "<%" not in json.dumps(compiled["entrypoints"])
    services.read(shipping.body(SHIPPED[name]))  # and it has no secrets
    assert Template.objects.get(name=name).parameters


@pytest.mark.parametrize("change", [{"title": "Ours"}, {"description": "x"}, {"text": text()}])
def test_what_the_next_upgrade_would_write_again_is_refused(admin, change):
    refused = admin.patch("/templates/hello", {**change, "listed": False})
    assert refusal(refused) == (409, "template_shipped")
    assert admin.get("/templates/hello").json()["listed"]


def test_a_shipped_template_is_given_to_one_virtual_cluster(api, admin):
    changed = admin.patch("/templates/hello", {"virtual_cluster": "vision"})
    assert changed.json()["virtual_cluster"] == "vision"
    assert refusal(Api(make_user()).get("/templates/hello")) == (404, "not_found")


def test_what_was_shipped_stays_hidden_and_starred_when_it_is_shipped_again(api, admin):
    assert refusal(admin.delete("/templates/hello")) == (409, "template_shipped")
    admin.patch("/templates/hello", {"listed": False})
    admin.put("/templates/hello/star")
    Template.objects.filter(name="hello").update(title="Old", text="old")
    shipping.ship()
    found = admin.get("/templates/hello").json()
    assert (found["title"], found["listed"], found["stars"]) == ("Hello", False, 1)
    assert found["text"].startswith("protocolVersion")
