"""What pages read again and again, in bytes on the wire (finding U21)."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from django.db import OperationalError, connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from tests.support.platform_api import Api
from tests.support.platform_factories import make_job, make_node, make_user, make_vc, place
from tests.support.stack_jobs import until

from skep_platform.cluster import services
from skep_platform.cluster.models import Device, Node
from skep_platform.jobs.models import Job, Lease
from skep_platform.scheduling import source
from skep_platform.tenancy.models import Membership
from skep_platform.web import grid as web_grid

pytestmark = pytest.mark.django_db(transaction=True)

NODES = 10_000
# Beside what the page itself costs (see tests/browser: rest.mjs) this leaves half of 500 KB.
FIRST_PICTURE = 200_000


# Nodes as the first one, each with an id, a name and a rack of its own; half of them in use.
MANY_NODES = [
    "CREATE TEMP TABLE many AS SELECT n.*, at FROM generate_series(1, {nodes}) at,"
    " (SELECT * FROM cluster_node LIMIT 1) n",
    "UPDATE many SET id = gen_random_uuid(),"
    " name = 'gpu-' || to_char(at / 40, 'FM000') || '-' || at % 40,"
    " labels = jsonb_build_object('rack', 'r' || at / 40, 'fabric', 'f' || at / 400)",
    "ALTER TABLE many DROP COLUMN at",
    "INSERT INTO cluster_node SELECT * FROM many",
    "INSERT INTO cluster_device"
    " (uuid, node_id, model, memory_mb, index, pci_bus_id, health, problem, updated_at)"
    " SELECT 'GPU-' || gen_random_uuid(), id, 'NVIDIA H100 80GB HBM3', 81920, i, '', 'HEALTHY',"
    " '', now() FROM many, generate_series(0, 7) i",
    "WITH gangs AS (SELECT id, ('{{{attempts}}}'::uuid[])[1 + floor(20 * random())] AS attempt"
    " FROM many WHERE random() < 0.5)"
    " INSERT INTO jobs_lease (device_id, slot, attempt_id, acquired_at)"
    " SELECT d.uuid, 0, g.attempt, now() FROM cluster_device d JOIN gangs g ON g.id = d.node_id",
    "DROP TABLE many",
]


def wire(answer: Any) -> int:
    """Bytes of an answer with its headers."""
    return len(answer.content) + sum(len(f"{k}: {v}\r\n") for k, v in answer.items())


def compressed(api: Api, path: str, **headers: str) -> Any:
    return api.client.get(f"/api/v1{path}", headers={"Accept-Encoding": "gzip"} | headers)


def body(answer: Any) -> Any:
    packed = answer.headers.get("Content-Encoding") == "gzip"
    return json.loads(gzip.decompress(answer.content) if packed else answer.content)


# For the longest test beside this one, which may be one transaction.
HORIZON_S = 400


def _no_change_is_above_the_horizon() -> bool:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
            " > COALESCE(max(txid), 0) FROM scheduling_change"
        )
        return bool(cursor.fetchone()[0])


def grid(api: Api, since: str = "") -> Any:
    """The grid, when its revision is newer than every change so far: a transaction of any database
    of the engine holds the horizon of the change log back, and others test beside this one."""
    until(_no_change_is_above_the_horizon, HORIZON_S)
    return api.get("/cluster/grid", since=since).json()


def test_finding_u21_ten_thousand_nodes_are_few_bytes(admin):
    """Each node in racks, half of its GPUs used by one of 20 virtual clusters at random."""
    owner = make_user()
    attempts = []
    for _ in range(20):
        node = make_node(gpus=1)
        attempts.append(place(make_job(make_vc(), owner), [node.devices.get()]))
    ids = ",".join(str(attempt.pk) for attempt in attempts)
    with connection.cursor() as cursor:
        for statement in MANY_NODES:
            cursor.execute(statement.format(nodes=NODES - 20, attempts=ids))
    until(_no_change_is_above_the_horizon, HORIZON_S)
    first = compressed(admin, "/cluster/grid")
    whole = body(first)
    assert (whole["whole"], len(whole["nodes"])) == (True, NODES)
    assert wire(first) < FIRST_PICTURE
    # At rest it costs what its headers do.
    revision = whole["revision"]
    rest = compressed(admin, f"/cluster/grid?since={revision}")
    assert body(rest)["nodes"] == []
    assert wire(rest) < 1000


def test_a_second_whole_grid_reads_no_nodes_and_each_reader_sees_its_own(admin, vc, alice):
    node = make_node("n-1", gpus=2)
    place(make_job(vc, alice), [node.devices.order_by("index")[1]])
    assert grid(admin)["virtual_clusters"] == [vc.name]
    stranger = Api(make_user("stranger"))
    with CaptureQueriesContext(connection) as captured:
        seen = stranger.get("/cluster/grid").json()
    assert seen["virtual_clusters"] == [None]
    assert seen["nodes"][0]["used_by"] == [-1, 0]
    assert not [query for query in captured if "cluster_device" in query["sql"]]
    services.cordon(None, "n-1")
    assert stranger.get("/cluster/grid").json()["nodes"][0]["cordoned"]


def test_a_kept_grid_is_the_same_packed_or_not_and_ends_with_a_change(admin, vc, alice):
    node = make_node("n-1", gpus=2)
    place(make_job(vc, alice), [node.devices.order_by("index")[1]])
    grid(admin)  # the log is read up to here
    packed = compressed(admin, "/cluster/grid", **{"A-IM": "rows"})
    assert packed.headers["Content-Encoding"] == "gzip"
    assert body(packed) == admin.get("/cluster/grid").json()
    known = {"If-None-Match": packed.headers["ETag"]}
    assert compressed(admin, "/cluster/grid", **known).status_code == 304
    services.cordon(None, "n-1")
    changed = compressed(admin, "/cluster/grid", **known)
    assert (changed.status_code, body(changed)["nodes"][0]["cordoned"]) == (200, True)


def test_a_grid_that_could_not_be_read_is_read_whole_the_next_time(admin, monkeypatch):
    make_node("n-1")
    assert len(grid(admin)["nodes"]) == 1
    make_node("n-2")
    with monkeypatch.context() as patched:
        patched.setattr(web_grid, "read", _fail)
        assert admin.get("/cluster/grid").status_code == 503
    assert [node["name"] for node in grid(admin)["nodes"]] == ["n-1", "n-2"]


def _fail(*_):
    raise OperationalError("the connection is lost")


def test_31_a_grid_takes_as_many_queries_for_many_changes_as_for_few(admin, vc, alice):
    def queries(nodes: int) -> int:
        revision = grid(admin)["revision"]
        for _ in range(nodes):
            node = make_node(gpus=1)
            place(make_job(vc, alice), [node.devices.get()])
        with CaptureQueriesContext(connection) as captured:
            changed = admin.get("/cluster/grid", since=revision).json()
        assert len(changed["nodes"]) == nodes
        return len(captured)

    assert queries(20) == queries(1) <= 11


def test_finding_u21_a_revision_answers_with_what_has_changed_since(admin, vc, alice):
    first, second = make_node("n-1", gpus=2), make_node("n-2", gpus=2)
    whole = grid(admin)
    assert [node["name"] for node in whole["nodes"]] == ["n-1", "n-2"]
    assert grid(admin, whole["revision"]) | {"revision": ""} == {
        **{key: [] for key in ["models", "virtual_clusters", "places", "nodes", "removed"]},
        "whole": False,
        "revision": "",
    }

    attempt = place(make_job(vc, alice), [first.devices.order_by("index")[1]])
    placed = grid(admin, whole["revision"])
    assert [node["name"] for node in placed["nodes"]] == ["n-1"]
    assert placed["nodes"][0]["used_by"] == [-1, 0]
    assert placed["virtual_clusters"] == [vc.name]

    Lease.objects.update(released_at="2026-01-01T00:00:00Z")
    type(attempt).objects.update(released_at="2026-01-01T00:00:00Z")
    freed = grid(admin, placed["revision"])
    assert freed["nodes"][0]["used_by"] == [-1, -1]

    services.cordon(None, second.name)
    Device.objects.filter(node=second, index=0).update(health=Device.Health.BAD)
    (shut,) = grid(admin, freed["revision"])["nodes"]
    assert (shut["name"], shut["cordoned"], shut["bad"]) == ("n-2", True, [0])

    Node.objects.filter(pk=second.pk).update(state="REMOVED")
    gone = grid(admin, freed["revision"])
    assert (gone["nodes"], gone["removed"]) == ([], ["n-2"])


def test_finding_u21_a_cordoned_node_that_is_drained_then_is_news(admin, vc, alice):
    node = make_node("n-1", gpus=1)
    make_node("n-2", gpus=1)
    services.cordon(None, node.name)
    place(make_job(vc, alice), [node.devices.get()])
    cordoned = grid(admin)

    services.mark_draining(None, node.name)
    (drained,) = grid(admin, cordoned["revision"])["nodes"]
    assert (drained["name"], drained["cordoned"], drained["draining"]) == ("n-1", True, True)
    rest = grid(admin, grid(admin)["revision"])
    assert rest["nodes"] == [], "a node that drains costs a page at rest nothing"


@pytest.mark.parametrize("since", ["", "nonsense", "1.2.3", "9" * 18, "9" * 40, "-1", "1.*"])
def test_finding_u21_a_revision_of_nowhere_answers_with_all(admin, node, since):
    answer = grid(admin, since)
    assert (answer["whole"], len(answer["nodes"])) == (True, 1)


def test_finding_u21_a_revision_that_the_log_has_forgotten_answers_with_all(admin, node):
    known = grid(admin)["revision"]
    Node.objects.update(cordoned=True)
    make_node("later")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE scheduling_change SET at = at - interval '1 hour'")
    # The log keeps what a reader may not have seen.
    until(_no_change_is_above_the_horizon, HORIZON_S)
    source.prune_changes()
    assert grid(admin, known)["whole"]


def test_finding_u21_who_joins_a_virtual_cluster_sees_its_name_at_once(vc, alice, node):
    bob = make_user("bob")
    place(make_job(vc, alice), [node.devices.first()])
    before = grid(Api(bob))
    assert before["virtual_clusters"] == [None]
    Membership.objects.create(vc=vc, user=bob)
    after = grid(Api(bob), before["revision"])
    assert (after["whole"], after["virtual_clusters"]) == (True, [vc.name])


def test_finding_u21_a_list_that_has_not_changed_is_no_body(vc, alice):
    for _ in range(50):
        make_job(vc, alice)
    api = Api(alice)
    first = compressed(api, "/jobs?limit=50")
    again = compressed(api, "/jobs?limit=50", **{"If-None-Match": first.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert wire(again) < 500
    make_job(vc, alice)
    changed = compressed(api, "/jobs?limit=50", **{"If-None-Match": first.headers["ETag"]})
    assert changed.status_code == 200


def test_finding_u21_of_a_list_that_has_changed_come_the_rows_that_did(vc, alice, node):
    job, api = make_job(vc, alice, tasks=500), Api(alice)
    path = f"/jobs/{job.pk}/tasks?limit=500"
    first = compressed(api, path, **{"A-IM": "rows"})
    known = body(first)
    assert first.status_code == 226
    place(job, [node.devices.first()], rank=3)
    Job.objects.update(state="RUNNING", attempt=1, placed_at=timezone.now())
    headers = {"A-IM": "rows", "Skep-Row-Tags": known["row_tags"]}
    delta = compressed(api, path, **headers)
    assert (delta.status_code, delta.headers["IM"]) == (226, "rows")
    before, changed, after = body(delta)["results"]
    assert (before, changed["rank"], after) == ([0, 3], 3, [4, 496])
    assert len(body(delta)["row_tags"]) == 6
    put_together = [*known["results"][:3], changed, *known["results"][4:]]
    assert put_together == api.get(f"/jobs/{job.pk}/tasks", limit=500).json()["results"]
    assert len(delta.content) < len(first.content) / 10


@pytest.mark.parametrize("tags", ["", "short", "x" * 6, "x" * 100_000, "é" * 6])
def test_finding_u21_tags_of_nothing_leave_all_rows(vc, alice, tags):
    make_job(vc, alice)
    headers = {"A-IM": "rows", "Skep-Row-Tags": tags}
    assert body(compressed(Api(alice), "/jobs", **headers))["results"][0]["name"]


def test_finding_u21_one_users_answer_is_never_taken_for_anothers(vc, alice):
    """The same address and the tag of another reader's answer: only equal bytes are left out."""
    make_job(vc, alice)
    tag = Api(alice).get("/jobs").headers["ETag"]
    stranger = compressed(Api(make_user()), "/jobs", **{"If-None-Match": tag})
    assert (stranger.status_code, body(stranger)["results"]) == (200, [])
