"""Files of storages over REST: rights, links, and uploads and downloads that go on where they were
cut."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from tests.support.platform_api import ROOT, Api, refusal
from tests.support.platform_factories import make_user, make_vc

from skep_platform.accounts.models import ApiToken, Scope
from skep_platform.audit.models import AuditEntry
from skep_platform.core.throttling import Searches
from skep_platform.storage import files, queries, services
from skep_platform.tenancy.models import Membership, Role

pytestmark = pytest.mark.django_db
SECRET = "not for tenants"


@pytest.fixture
def served(tmp_path: Path, settings) -> Path:
    """What the server finds of the storages, and beside it what no one may see."""
    (tmp_path / "secret").write_text(SECRET)
    settings.SKEP_STORAGE_FILES = str(tmp_path / "storages")
    (tmp_path / "storages" / "team").mkdir(parents=True)
    (tmp_path / "storages" / "home" / "ann").mkdir(parents=True)
    (tmp_path / "storages" / "home" / "bob").mkdir()
    return tmp_path / "storages"


@pytest.fixture
def ann(served, admin):
    """A member of "a", which may write "team" and has a folder in "home"."""
    user = make_user("ann")
    make_vc("a", members=[user])
    for name, per_user in (("team", False), ("home", True)):
        made = services.create(admin.user, name, "host_path", {"path": f"/srv/{name}"},
                               per_user=per_user)  # fmt: skip
        services.grant(admin.user, made, "a")
    return user


def put(
    api: Api,
    path: str,
    data: bytes,
    offset: int = 0,
    last: bool = True,
    at: str = "team",
    source: str = "",
):
    query = f"?path={path}&offset={offset}&last={str(last).lower()}"
    query += f"&source={source}" if source else ""
    url = f"{ROOT}/storages/{at}/content{query}"
    return api.client.generic("PUT", url, data, content_type="application/octet-stream")


def get(api: Api, path: str, range_: str = "", at: str = "team", **headers: str):
    if range_:
        headers["HTTP_RANGE"] = range_
    return api.client.get(f"{ROOT}/storages/{at}/content", {"path": path}, **headers)


def streamed(answer: Any) -> bytes:
    async def all_of_it() -> bytes:
        return b"".join([piece async for piece in answer.streaming_content])

    return async_to_sync(all_of_it)()


def look(api: Api, route: str, **query: Any) -> Any:
    return api.client.get(ROOT + route, query)


def names(api: Api, path: str = "", at: str = "team") -> list[str]:
    return [row["name"] for row in look(api, f"/storages/{at}/files", path=path).json()["results"]]


def remove(api: Api, path: str, recursive: bool = False, at: str = "team") -> Any:
    return api.delete(f"/storages/{at}/files?path={path}&recursive={str(recursive).lower()}")


def test_file_goes_up_is_listed_comes_down_and_is_removed(ann, served):
    api = Api(ann)
    assert put(api, "runs/1/model.pt", b"weights").json()["offset"] == 7
    assert (served / "team/runs/1/model.pt").read_bytes() == b"weights"
    assert (names(api), names(api, "runs/1")) == (["runs"], ["model.pt"])
    row = look(api, "/storages/team/files", path="runs/1").json()
    assert (row["writable"], row["results"][0]["size"], row["results"][0]["type"]) == (
        *(True, 7),
        "file",
    )
    answer = get(api, "runs/1/model.pt", "bytes=0-")
    assert (answer.status_code, answer.content) == (206, b"weights")
    assert "attachment" in answer["Content-Disposition"]
    used = api.get("/storages/team/usage").json()
    assert (used["size"], used["files"], used["folders"], used["complete"]) == (7, 1, 2, True)
    assert look(api, "/storages/team/usage", path="runs/1/model.pt").json()["size"] == 7
    assert refusal(remove(api, "runs")) == (409, "folder_not_empty")
    assert remove(api, "runs", recursive=True).json() == {"complete": True}
    assert list((served / "team").iterdir()) == []
    actions = AuditEntry.objects.filter(action__startswith="storage.file").order_by("id")
    assert list(actions.values_list("action", flat=True)) == [
        "storage.file.upload",
        "storage.file.remove",
    ]


def test_upload_that_was_cut_goes_on_and_shows_nothing_before_its_end(ann, served):
    api = Api(ann)
    assert put(api, "big", b"aaa", last=False).json() == {"offset": 3, "source": ""}
    assert get(api, "big", "bytes=0-").status_code == 404
    assert look(api, "/storages/team/upload", path="big").json() == {"offset": 3, "source": ""}
    repeated = put(api, "big", b"aaa", offset=6, last=False)
    assert refusal(repeated) == (409, "upload_offset")
    assert repeated.json()["details"] == {"offset": 3}
    assert put(api, "big", b"bb", offset=3).json()["offset"] == 5
    assert (served / "team/big").read_bytes() == b"aaabb"
    assert names(api) == ["big"]
    assert put(api, "big", b"new").status_code == 200
    assert (served / "team/big").read_bytes() == b"new"


def test_download_goes_on_where_it_was_cut(ann, served, monkeypatch):
    monkeypatch.setattr("skep_platform.storage.files_api.MAX_RANGE", 4)
    (served / "team/f").write_bytes(b"0123456789")
    api = Api(ann)
    rest = get(api, "f", "bytes=4-")  # all of it, as curl takes it for the end of the file
    assert (rest.status_code, streamed(rest)) == (206, b"456789")
    assert (rest["Content-Range"], rest["Content-Length"]) == ("bytes 4-9/10", "6")
    found = [get(api, "f", f"bytes={first}-{last}") for first, last in ((0, 9), (4, 7), (8, 99))]
    assert [answer.content for answer in found] == [b"0123", b"4567", b"89"]
    assert [answer["Content-Range"] for answer in found] == [
        *("bytes 0-3/10", "bytes 4-7/10", "bytes 8-9/10"),
    ]
    for bad in ("bytes=10-", "bytes=5-3", "bytes=-3", "items=0-1", "bytes=0-1,3-4", "x"):
        assert refusal(get(api, "f", bad)) == (416, "range_invalid")


def test_whole_file_is_streamed(ann, served):
    (served / "team/f").write_bytes(b"x" * 3_000_000)
    answer = get(Api(ann), "f")
    assert (answer.status_code, answer["Content-Length"]) == (200, "3000000")
    answer.close()


def test_large_folder_is_listed_in_parts(ann, served):
    for number in range(25):
        (served / f"team/{number:02}").touch()
    assert paged(Api(ann), 10) == [f"{number:02}" for number in range(25)]


def test_names_that_are_no_text_are_listed_once_each_wherever_a_page_ends(ann, served):
    folder = os.fsencode(served / "team")
    written = [b"a", b"x\x80", b"x\xff", b"x\xff2", "x\ue000".encode(), "x\ufffd".encode(), b"y"]
    for name in written:
        with open(os.path.join(folder, name), "wb"):
            pass
    for limit in (1, 2, 3):
        found = paged(Api(ann), limit)
        assert found == [name.decode(errors="replace") for name in sorted(written)]
    wrong = Api(ann).get("/storages/team/files", after="/xyz")
    assert refusal(wrong) == (400, "cursor_invalid")


def test_a_page_whose_files_are_removed_at_that_moment_is_not_the_last(ann, served, monkeypatch):
    for name in ("a", "b", "c"):
        (served / "team" / name).touch()
    entry = files._entry

    def removed(folder: int, name: bytes) -> Any:
        if name == b"a":
            os.unlink(name, dir_fd=folder)
        return entry(folder, name)

    monkeypatch.setattr(files, "_entry", removed)
    assert paged(Api(ann), 1) == ["b", "c"]


def paged(api: Api, limit: int) -> list[str]:
    after, found = "", []
    while after is not None:
        page = api.get("/storages/team/files", after=after, limit=limit).json()
        found += [row["name"] for row in page["results"]]
        after = page["next"]
    return found


def test_folder_is_searched_by_a_part_of_names_page_after_page(ann, served):
    for name in ("Epoch-1.pt", "epoch-2.pt", "log.txt", "epoch-3.pt"):
        (served / "team" / name).touch()
    api = Api(ann)
    page = api.get("/storages/team/files", search="EPOCH", limit=2).json()
    assert [row["name"] for row in page["results"]] == ["Epoch-1.pt", "epoch-2.pt"]
    rest = api.get("/storages/team/files", search="EPOCH", after=page["next"]).json()
    assert ([row["name"] for row in rest["results"]], rest["next"]) == (["epoch-3.pt"], None)


def test_searches_and_counts_of_folders_are_limited_and_files_are_not(ann, served, monkeypatch):
    (served / "team/model.pt").touch()
    api, of_team = Api(ann), "/storages/team"
    monkeypatch.setattr(Searches, "most", 1)
    assert api.get(f"{of_team}/files", search="model").status_code == 200
    assert api.get(f"{of_team}/files", search="model").status_code == 429
    assert api.get(f"{of_team}/usage").status_code == 429
    for _ in range(2):
        assert api.get(f"{of_team}/files").status_code == 200
        assert look(api, f"{of_team}/usage", path="model.pt").status_code == 200


def test_02_users_see_their_own_folders_alone(ann, served, admin):
    bob = make_user("bob")
    Membership.objects.create(vc_id=Membership.objects.get(user=ann).vc_id, user=bob)
    assert put(Api(ann), "diary", b"dear", at="home").status_code == 200
    assert (served / "home/ann/diary").exists()
    assert names(Api(ann), at="home") == ["diary"]
    assert names(Api(bob), at="home") == []
    for path in ("../ann/diary", "..", "ann/diary", "/ann/diary", "x/../../ann/diary"):
        assert get(Api(bob), path, "bytes=0-", at="home").status_code in (400, 404)
    stranger = make_user("carol")
    Membership.objects.create(vc_id=Membership.objects.get(user=ann).vc_id, user=stranger)
    answer = Api(stranger).get("/storages/home/files")
    assert refusal(answer) == (404, "file_not_found")


@pytest.mark.parametrize(
    "path",
    [
        *("..", "../secret", "a/../../secret", ".", "./x", "a/./b", "a%00b", "a%0Ab"),
        *("../../../../etc/passwd", "..%2Fsecret", "/".join("a" * 70), "x" * 300),
    ],
)
def test_30_path_never_leads_out_of_a_storage(ann, served, path):
    api = Api(ann)
    for answer in (
        api.client.get(f"{ROOT}/storages/team/content?path={path}"),
        api.client.get(f"{ROOT}/storages/team/files?path={path}"),
        api.client.get(f"{ROOT}/storages/team/usage?path={path}"),
        put(api, path, b"x"),
        remove(api, path, recursive=True),
    ):
        assert 400 <= answer.status_code < 500
        assert SECRET.encode() not in answer.content
    assert (served.parent / "secret").read_text() == SECRET


def test_02_30_no_link_is_followed(ann, served):
    """A container may put any link there."""
    outside = served.parent
    (served / "team/file").symlink_to(outside / "secret")
    (served / "team/folder").symlink_to(outside)
    (served / "team/.up.skep-part").symlink_to(outside / "secret")
    (served / "team/tree").mkdir()
    (served / "team/tree/out").symlink_to(outside)
    api = Api(ann)
    kinds = {r["name"]: r["type"] for r in api.get("/storages/team/files").json()["results"]}
    assert (kinds["file"], kinds["folder"]) == ("link", "link")
    for answer in (
        *(get(api, "file", "bytes=0-"), get(api, "folder/secret", "bytes=0-")),
        look(api, "/storages/team/files", path="folder"),
        *(put(api, "folder/new", b"x"), put(api, "up", b"x")),
        remove(api, "folder/secret"),
    ):
        assert 400 <= answer.status_code < 500, answer.content
        assert SECRET.encode() not in answer.content
    assert look(api, "/storages/team/usage", path="tree").json()["size"] < 100
    assert put(api, "file", b"mine").status_code == 200  # in place of the link
    assert remove(api, "tree", recursive=True).status_code == 200
    assert remove(api, "folder").status_code == 200
    assert (outside / "secret").read_text() == SECRET


def test_02_upload_writes_to_no_file_that_has_another_name(ann, served):
    (served / "team/theirs").write_text("theirs")
    os.link(served / "team/theirs", served / "team/.mine.skep-part")
    assert refusal(put(Api(ann), "mine", b"x")) == (409, "upload_in_progress")
    assert (served / "team/theirs").read_text() == "theirs"


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_31_what_is_no_plain_file_is_never_waited_for(ann, served, kind):
    path = served / "team" / "odd"
    os.mkfifo(path) if kind == "pipe" else path.mkdir()
    assert get(Api(ann), "odd", "bytes=0-").status_code == 400
    assert put(Api(ann), "odd", b"x").status_code in (200, 400)


def test_31_endless_removal_and_count_report_how_far_they_came(ann, served, monkeypatch):
    monkeypatch.setattr(files, "BUDGET_S", -1.0)
    for number in range(5):
        (served / f"team/t/{number}").mkdir(parents=True)
        (served / f"team/t/{number}/f").touch()
    api = Api(ann)
    assert api.get("/storages/team/usage").json()["complete"] is False
    for _ in range(20):
        if remove(api, "t", recursive=True).json()["complete"]:
            break
    assert not (served / "team/t").exists()


def test_31_folders_that_lie_too_deep_are_refused(ann, served):
    folder = os.open(served / "team", os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    api = Api(ann)
    assert refusal(api.get("/storages/team/usage")) == (409, "folder_too_deep")
    assert refusal(remove(api, "d", recursive=True)) == (409, "folder_too_deep")
    (served / "team/d").rename(served.parent / "deep")
    os.system(f"rm -rf {served.parent / 'deep'}")


def test_rights_are_those_of_the_users_jobs(ann, served, admin):
    viewer, reader = make_user(), make_user()
    vc = Membership.objects.get(user=ann).vc
    Membership.objects.create(vc=vc, user=viewer, role=Role.VIEWER)
    make_vc("b", members=[reader])
    services.grant(admin.user, queries.find(admin.user, "team"), "b", read_only=True)
    (served / "team/f").write_text("x")
    assert refusal(Api(viewer).get("/storages/team/files")) == (403, "storage_forbidden")
    assert refusal(Api(make_user()).get("/storages/team/files")) == (404, "storage_not_found")
    api = Api(reader)
    assert (names(api), get(api, "f", "bytes=0-").content) == (["f"], b"x")
    assert api.get("/storages/team/files").json()["writable"] is False
    assert refusal(put(api, "g", b"x")) == (403, "storage_read_only")
    assert refusal(remove(api, "f")) == (403, "storage_read_only")
    assert admin.patch("/storages/team", {"read_only": True}).status_code == 200
    assert refusal(put(Api(ann), "g", b"x")) == (403, "storage_read_only")
    assert refusal(put(admin, "g", b"x")) == (403, "storage_read_only")


def test_02_token_of_a_job_writes_by_no_grant_of_another_virtual_cluster(ann, served, admin):
    services.grant(admin.user, queries.find(admin.user, "team"), "a", read_only=True)
    other = make_vc("b", members=[ann, admin.user])
    services.grant(admin.user, queries.find(admin.user, "team"), "b")
    assert put(Api(ann), "f", b"x").status_code == 200
    for owner in (ann, admin.user):
        inside = Api(owner)
        limit_to(inside, Membership.objects.get(user=ann, vc__name="a").vc)
        assert refusal(put(inside, "g", b"x")) == (403, "storage_read_only")
        assert inside.get("/storages/team/files").json()["writable"] is False
        limit_to(inside, other)
        assert put(inside, "g", b"x").status_code == 200
    services.revoke(admin.user, queries.find(admin.user, "team"), "a")
    inside = Api(ann)
    limit_to(inside, Membership.objects.get(user=ann, vc__name="a").vc)
    assert refusal(put(inside, "g", b"x")) == (404, "storage_not_found")


def limit_to(api: Api, vc: Any) -> None:
    """Make its token one of a job in this virtual cluster."""
    ApiToken.objects.filter(user=api.user).update(scope=Scope.SUBMIT, vc_id=vc.pk)


def test_storage_that_the_server_does_not_have_is_reported(ann, served, admin, settings):
    services.create(admin.user, "far", "host_path", {"path": "/srv/far"})
    assert refusal(admin.get("/storages/far/files")) == (409, "storage_files_not_served")
    settings.SKEP_STORAGE_FILES = ""
    assert refusal(Api(ann).get("/storages/team/files")) == (409, "storage_files_not_served")


@pytest.mark.django_db(transaction=True)
def test_a_slow_server_of_files_holds_no_connection_of_the_database(ann, served, monkeypatch):
    held: list[bool] = []
    scan, walk = os.scandir, os.fwalk

    def noted(call: Any) -> Any:
        def answer(*args: Any, **kwargs: Any) -> Any:
            held.append(connection.connection is not None)
            return call(*args, **kwargs)

        return answer

    monkeypatch.setattr(files.os, "scandir", noted(scan))
    monkeypatch.setattr(files.os, "fwalk", noted(walk))
    api = Api(ann)
    assert look(api, "/storages/team/files").status_code == 200
    assert look(api, "/storages/team/usage").status_code == 200
    assert len(held) >= 2
    assert not any(held)
