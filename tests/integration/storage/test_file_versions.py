"""Pieces of two versions of a file never become one: uploads, and downloads by `If-Match`."""

from __future__ import annotations

import errno
import os

import pytest
from tests.integration.storage.test_files import (  # noqa: F401
    SECRET,
    ann,
    get,
    look,
    names,
    put,
    served,
    streamed,
)
from tests.support.platform_api import Api, refusal

from skep_platform.storage import files

pytestmark = pytest.mark.django_db


def arrived(api: Api, path: str, source: str) -> int:
    query = {"source": source} if source else {}
    answer = look(api, "/storages/team/upload", path=path, **query).json()
    assert answer["source"] == source
    return answer["offset"]


def test_an_upload_goes_on_with_the_same_version_of_its_file_alone(ann, served):  # noqa: F811
    api = Api(ann)
    assert put(api, "f", b"old", last=False, source="v1").json() == {"offset": 3, "source": "v1"}
    assert [arrived(api, "f", source) for source in ("v1", "v2", "")] == [3, 0, 0]
    for source in ("v2", ""):
        mixed = put(api, "f", b"new", offset=3, source=source)
        assert refusal(mixed) == (409, "upload_replaced")
    # Another version begins anew, and the one before cannot go on any more.
    assert put(api, "f", b"new", last=False, source="v2").status_code == 200
    assert refusal(put(api, "f", b"er", offset=3, source="v1")) == (409, "upload_replaced")
    assert put(api, "f", b"er", offset=3, source="v2").status_code == 200
    assert (served / "team/f").read_bytes() == b"newer"
    assert names(api) == ["f"]


def test_an_upload_of_an_older_client_takes_the_place_of_one_with_a_version(ann, served):  # noqa: F811
    api = Api(ann)
    put(api, "f", b"old", last=False, source="v1")
    assert put(api, "f", b"ne", last=False).status_code == 200
    assert arrived(api, "f", "v1") == 0
    assert put(api, "f", b"w", offset=2).status_code == 200
    assert (served / "team/f").read_bytes() == b"new"
    assert names(api) == ["f"]


@pytest.mark.parametrize("source", ["a b", "../x", "x" * 65, "%C3%A4"])
def test_a_version_of_an_upload_is_a_plain_word(ann, served, source):  # noqa: F811
    assert refusal(put(Api(ann), "f", b"x", source=source)) == (400, "invalid")


def test_a_piece_of_an_upload_that_has_ended_makes_nothing(ann, served):  # noqa: F811
    api = Api(ann)
    put(api, "sub/f", b"all", source="v1")
    for path in ("sub/f", "none/f"):
        late = put(api, path, b"all", offset=3, source="v1")
        assert late.json().get("details") in ({"offset": 0}, {}), late.content
        assert late.status_code in (404, 409)
    assert (names(api), names(api, "sub")) == (["sub"], ["f"])


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_02_what_tenants_put_in_place_of_the_version_is_not_followed(ann, served, kind):  # noqa: F811
    note = served / "team/.f.skep-from"
    outside = served.parent / "secret"
    if kind == "link":
        note.symlink_to(outside)
    elif kind == "pipe":
        os.mkfifo(note)
    else:
        note.mkdir()
    api = Api(ann)
    answer = put(api, "f", b"x", last=False, source="v1")
    assert 200 <= answer.status_code < 500
    assert arrived(api, "f", "v1") == (0 if kind == "folder" else 1)
    assert outside.read_text() == SECRET


def test_a_lock_that_is_had_after_the_file_was_complete_changes_it_not(ann, served, monkeypatch):  # noqa: F811
    """Between its opening and its lock another request ends the upload."""
    api = Api(ann)
    put(api, "f", b"half", last=False)
    lock = files.fcntl.flock

    def late(part: int, how: int) -> None:
        (served / "team/.f.skep-part").rename(served / "team/f")
        lock(part, how)

    monkeypatch.setattr(files.fcntl, "flock", late)
    assert refusal(put(api, "f", b"x")) == (409, "upload_in_progress")
    assert (served / "team/f").read_bytes() == b"half"


def test_a_download_goes_on_with_the_version_that_it_began_with(ann, served):  # noqa: F811
    file, api = served / "team/f", Api(ann)
    file.write_bytes(b"old bytes")
    etag = look(api, "/storages/team/usage", path="f").json()["etag"]
    assert look(api, "/storages/team/usage").json()["etag"] is None
    first = get(api, "f", "bytes=0-2", HTTP_IF_MATCH=etag)
    assert (first.content, first["ETag"]) == (b"old", etag)
    file.write_bytes(b"new bytes")
    os.utime(file, ns=(1, 1))  # also where the clock is coarse
    changed = get(api, "f", "bytes=3-5", HTTP_IF_MATCH=etag)
    assert refusal(changed) == (412, "file_changed")
    now = files.version(file.stat())
    assert changed.json()["details"] == {"size": 9, "etag": now}
    whole = get(api, "f", "bytes=3-5", HTTP_IF_RANGE=etag)
    assert (whole.status_code, streamed(whole)) == (200, b"new bytes")
    part = get(api, "f", "bytes=3-5", HTTP_IF_RANGE=now, HTTP_IF_MATCH=f'"x", {now}')
    assert (part.status_code, part.content) == (206, b" by")


def test_bytes_that_are_written_meanwhile_are_refused(ann, served, monkeypatch):  # noqa: F811
    file, api = served / "team/f", Api(ann)
    file.write_bytes(b"old")
    etag = look(api, "/storages/team/usage", path="f").json()["etag"]
    fstat = os.fstat

    def written(descriptor: int) -> os.stat_result:
        found = fstat(descriptor)
        file.write_bytes(b"newer")
        return found

    monkeypatch.setattr("skep_platform.storage.files_api.os.fstat", written)
    assert refusal(get(api, "f", "bytes=0-2", HTTP_IF_MATCH=etag)) == (412, "file_changed")


def test_a_file_that_another_one_replaced_is_another_version(ann, served):  # noqa: F811
    """Its size and its time can be the same: those of an archive, or of what was built."""
    file, api = served / "team/f", Api(ann)
    file.write_bytes(b"old")
    os.utime(file, ns=(1, 1))
    etag = look(api, "/storages/team/usage", path="f").json()["etag"]
    for _ in range(10_000):  # the clock of the file system is coarse
        (served / "team/new").write_bytes(b"new")
        os.utime(served / "team/new", ns=(1, 1))
        (served / "team/new").rename(file)
        if files.version(file.stat()) != etag:
            break
    assert refusal(get(api, "f", "bytes=0-2", HTTP_IF_MATCH=etag)) == (412, "file_changed")


def test_an_upload_that_ends_leaves_the_next_one_its_version(ann, served, monkeypatch):  # noqa: F811
    """The next one begins when the file has its name, and its request has not ended yet."""
    api, rename = Api(ann), os.rename
    put(api, "f", b"old", last=False, source="v1")

    def renamed(*names: str, **folders: int) -> None:
        rename(*names, **folders)
        assert put(api, "f", b"ne", last=False, source="v2").status_code == 200

    monkeypatch.setattr(files.os, "rename", renamed)
    assert put(api, "f", b"er", offset=3, source="v1").status_code == 200
    assert (served / "team/f").read_bytes() == b"older"
    monkeypatch.undo()
    assert put(api, "f", b"w", offset=2, source="v2").status_code == 200
    assert (served / "team/f").read_bytes() == b"new"


def test_a_file_that_is_written_anew_while_it_is_streamed_breaks_off(ann, served):  # noqa: F811
    file = served / "team/f"
    file.write_bytes(b"old" * files.PIECE)
    answer = get(Api(ann), "f")
    file.write_bytes(b"new" * files.PIECE)
    os.utime(file, ns=(1, 1))
    with pytest.raises(EOFError):
        streamed(answer)


def test_a_file_that_grows_while_it_is_streamed_ends_where_it_ended(ann, served):  # noqa: F811
    file = served / "team/f"
    file.write_bytes(b"line")
    answer = get(Api(ann), "f")
    file.write_bytes(b"line, and the next")
    assert streamed(answer) == b"line"


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_an_upload_without_locks_is_refused_with_what_to_do(ann, served, monkeypatch, number):  # noqa: F811
    def refuse(*_: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(files.fcntl, "flock", refuse)
    answer = put(Api(ann), "f", b"x")
    assert refusal(answer) == (409, "storage_failed")
    assert "mounts it with them" in answer.json()["message"]
